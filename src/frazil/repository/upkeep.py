"""Keeping a repository small and quick."""

import warnings
from datetime import datetime
from typing import Any

from frazil.asynchronous import asynchronous
from frazil.format.times import from_datetime, require_zone
from frazil.maintenance.collecting import collect_garbage
from frazil.maintenance.collectors import CollectionOptions
from frazil.maintenance.expiring import expire_snapshots, find_expired
from frazil.maintenance.expiry import ExpiryPolicy
from frazil.maintenance.limits import MEBIBYTE, SweepLimits, WalkLimits
from frazil.maintenance.rewriting import rewrite_manifests
from frazil.maintenance.statistics import measure_chunks
from frazil.ops import GCSummary
from frazil.repository.base import RepositoryPart
from frazil.states import ChunkStorageStats
from frazil.types import CommitMethod


class Upkeep(RepositoryPart):
    """Expiry, garbage, manifests, statistics."""

    def expire_snapshots(
        self,
        older_than: datetime,
        *,
        delete_expired_branches: bool = False,
        delete_expired_tags: bool = False,
    ) -> set[str]:
        """Take snapshots from before a time out of the history, and give their ids.

        The first snapshot and the tips of branches and tags stay; with the options, branches other
        than `main` and tags go with the snapshots that they point to. Files are only deleted when
        garbage is collected.
        """
        policy = _policy(older_than, delete_expired_branches, delete_expired_tags)
        return set(map(str, expire_snapshots(self._protocol, policy)))

    expire_snapshots_async = asynchronous(expire_snapshots)

    def find_expired_snapshots(
        self,
        older_than: datetime,
        *,
        delete_expired_branches: bool = False,
        delete_expired_tags: bool = False,
    ) -> set[str]:
        """What `expire_snapshots` would release now; nothing is changed."""
        policy = _policy(older_than, delete_expired_branches, delete_expired_tags)
        return set(map(str, find_expired(self._protocol, policy)))

    def rewrite_manifests(
        self,
        message: str,
        *,
        branch: str,
        metadata: dict[str, Any] | None = None,
        commit_method: CommitMethod = "new_commit",
    ) -> str:
        """Write the manifests of a branch anew, split as the configuration says now.

        That is a commit on top of the branch, or with `commit_method="amend"`, which V2 repositories
        know, in place of its last one. Gives the id of the new snapshot.
        """
        return str(
            rewrite_manifests(self._surroundings, branch, message, metadata or {}, commit_method)
        )

    rewrite_manifests_async = asynchronous(rewrite_manifests)

    def garbage_collect(
        self,
        delete_object_older_than: datetime,
        *,
        dry_run: bool = False,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * MEBIBYTE,
        max_decoded_manifest_mem_bytes: int = 4096 * MEBIBYTE,
        max_concurrent_manifest_fetches: int = 500,
        max_concurrent_deletes: int = 10,
        max_consecutive_delete_failures: int = 50,
        max_concurrent_listings: int | None = None,
    ) -> GCSummary:
        """Delete what no branch or tag leads to, if it was written before a time.

        That time must be before the start of every session that is still to be committed: nothing
        else protects what they have written. A dry run counts what would be deleted.
        """
        walk = WalkLimits(
            max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches,
        )
        sweep = SweepLimits(
            max_concurrent_deletes, max_consecutive_delete_failures, max_concurrent_listings
        )
        cutoff = require_zone(delete_object_older_than, "delete_object_older_than")
        return collect_garbage(self._protocol, CollectionOptions(cutoff, walk, sweep, dry_run))

    garbage_collect_async = asynchronous(garbage_collect)

    def chunk_storage_stats(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * MEBIBYTE,
        max_decoded_manifest_mem_bytes: int = 4096 * MEBIBYTE,
        max_concurrent_manifest_fetches: int = 500,
    ) -> ChunkStorageStats:
        """How many bytes the chunks have that branches and tags lead to, each chunk counted once."""
        limits = WalkLimits(
            max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches,
        )
        return measure_chunks(self._protocol, limits)

    chunk_storage_stats_async = asynchronous(chunk_storage_stats)

    def total_chunks_storage(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * MEBIBYTE,
        max_decoded_manifest_mem_bytes: int = 4096 * MEBIBYTE,
        max_concurrent_manifest_fetches: int = 500,
    ) -> int:
        """The bytes of native chunks alone; deprecated in favour of `chunk_storage_stats`."""
        warnings.warn(
            "total_chunks_storage and total_chunks_storage_async are deprecated: use"
            " chunk_storage_stats().native_bytes",
            DeprecationWarning,
            stacklevel=2,
        )
        stats = self.chunk_storage_stats(
            max_snapshots_in_memory=max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes=max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes=max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches=max_concurrent_manifest_fetches,
        )
        return stats.native_bytes

    total_chunks_storage_async = asynchronous(total_chunks_storage)


def _policy(older_than: datetime, deletes_branches: bool, deletes_tags: bool) -> ExpiryPolicy:
    return ExpiryPolicy(
        from_datetime(require_zone(older_than, "older_than")),
        deletes_branches=deletes_branches,
        deletes_tags=deletes_tags,
    )
