"""Maintenance and history edits as methods of a repository."""

import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from frazil.async_names import asynchronous
from frazil.config.settings import RetentionPolicy
from frazil.conflicts import ConflictDetector, ConflictSolver
from frazil.errors import InvalidInputError
from frazil.format.ids import SnapshotId
from frazil.format.timestamps import from_datetime, require_zone
from frazil.lazy import lazy_modules
from frazil.ops import ChunkStorageStats, ExpirySummary, GCSummary
from frazil.protocols.protocol import CommitProtocol
from frazil.protocols.repo_changes import read_protected
from frazil.repository.changes import ChangeSet
from frazil.repository.context import Opened
from frazil.repository.session_state import RepositoryContext
from frazil.repository.view import View
from frazil.types import CommitMethod

if TYPE_CHECKING:
    from frazil.maintenance import check as check_verb
    from frazil.maintenance import (
        doctor,
        expire,
        findings,
        gc,
        reachability,
        repair,
        rewrite,
        stats,
    )
    from frazil.repository import history_edits
else:
    # Most programs open a repository and never maintain it: verbs are loaded when they are called.
    (
        check_verb,
        doctor,
        expire,
        findings,
        gc,
        reachability,
        repair,
        rewrite,
        stats,
        history_edits,
    ) = lazy_modules(
        "frazil.maintenance.check",
        "frazil.maintenance.doctor",
        "frazil.maintenance.expire",
        "frazil.maintenance.findings",
        "frazil.maintenance.gc",
        "frazil.maintenance.reachability",
        "frazil.maintenance.repair",
        "frazil.maintenance.rewrite",
        "frazil.maintenance.stats",
        "frazil.repository.history_edits",
    )

_MEBIBYTE = 1024 * 1024


class RepositoryPart:
    """An open repository; the parts of `Repository` inherit it."""

    _repository: Opened

    @property
    def _context(self) -> RepositoryContext:
        return self._repository.context

    @property
    def _protocol(self) -> CommitProtocol:
        return self._repository.context.protocol

    @property
    def protocol(self) -> CommitProtocol:
        """How its state is read and written, for jobs that work on the whole of it."""
        return self._protocol

    def _resolve(self, branch: str | None, tag: str | None, snapshot_id: str | None) -> SnapshotId:
        """Return the snapshot that just one of three arguments names, or raise ValueError."""
        refuse_unless_one(branch, tag, snapshot_id)
        match (branch, tag, snapshot_id):
            case (str(), None, None):
                return self._protocol.lookup_branch(branch)
            case (None, str(), None):
                return self._protocol.lookup_tag(tag)
        assert snapshot_id is not None
        return self._protocol.lookup_snapshot(parse_snapshot_id(snapshot_id)).id


def refuse_unless_one(branch: str | None, tag: str | None, snapshot_id: str | None) -> None:
    """Raise ValueError unless just one way to name a snapshot is taken, InvalidInputError for no id."""
    if sum(each is not None for each in (branch, tag, snapshot_id)) != 1:
        raise ValueError("give one of branch, tag and snapshot_id")
    if snapshot_id is not None:
        parse_snapshot_id(snapshot_id)


def parse_snapshot_id(text: str) -> SnapshotId:
    """Parse a snapshot id, or raise InvalidInputError."""
    try:
        return SnapshotId.parse(text)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{text!r} is no snapshot id", kind="invalid-snapshot-id"
        ) from error


class Editing(RepositoryPart):
    """Edits of the history, and what holds for single branches and tags."""

    # History

    def squash(
        self,
        branch: str,
        since: str,
        *,
        message: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Make one commit of all that a branch has after the snapshot `since`; gives its id.

        Without a message it lists those of the commits. Only a snapshot and a transaction log are
        written; the commits stay until garbage is collected. Raises ConflictError if somebody
        commits to the branch meanwhile, and then changes nothing.
        """
        return str(
            history_edits.squash(
                self._context, branch, parse_snapshot_id(since), message, metadata or {}
            )
        )

    squash_async = asynchronous(squash)

    def cherry_pick(
        self,
        snapshot_id: str,
        *,
        onto: str,
        message: str | None = None,
        rebase_with: ConflictSolver | None = None,
    ) -> str:
        """Commit what one commit changed to the branch `onto` as well; gives the new snapshot id.

        Message and metadata are those of the commit, and the metadata tells where it came from.
        Raises RebaseFailedError with all conflicts that the solver does not solve; a commit that
        moved nodes can't be picked.
        """
        id, solver = parse_snapshot_id(snapshot_id), rebase_with or ConflictDetector()
        return str(history_edits.cherry_pick(self._context, id, onto, message, solver))

    cherry_pick_async = asynchronous(cherry_pick)

    def fast_forward(self, branch: str, to: str) -> str:
        """Move a branch to the tip of the branch `to`, which builds on it; gives that snapshot id.

        Raises DivergedError if the branch has commits that `to` has not.
        """
        return str(history_edits.fast_forward(self._protocol, branch, to))

    fast_forward_async = asynchronous(fast_forward)

    # Protected branches

    def protect_branch(self, branch: str, *, by: str | None = None) -> None:
        """Let a branch move by `fast_forward` only; V2 repositories only.

        Whoever uses Frazil gets a ReadOnlyError that names `by`. The official library does not know
        of it.
        """
        self._protocol.protect_branch(branch, by)

    protect_branch_async = asynchronous(protect_branch)

    def unprotect_branch(self, branch: str) -> None:
        """Let a branch move in any way again; raises RefNotFoundError if it is not protected."""
        self._protocol.unprotect_branch(branch)

    unprotect_branch_async = asynchronous(unprotect_branch)

    def protected_branches(self) -> dict[str, str | None]:
        """Return the protected branches, and for each who protects it, if that was given."""
        return read_protected(self._protocol.read_repo_info().metadata)

    protected_branches_async = asynchronous(protected_branches)

    # Retention

    def set_retention(self, policies: Mapping[str, RetentionPolicy]) -> None:
        """Say what branches and tags keep, by patterns of their names such as `"nightly-*"`.

        These policies replace all others. They hold for `expire`; V2 repositories only.
        """
        expire.set_policies(self._protocol, policies)

    set_retention_async = asynchronous(set_retention)

    def retention(self) -> dict[str, RetentionPolicy]:
        """Return the retention policies of branches and tags, by name pattern."""
        return expire.read_policies(self._protocol.read_repo_info().metadata)

    retention_async = asynchronous(retention)

    def expire(
        self,
        *,
        now: datetime | None = None,
        policies: Mapping[str, RetentionPolicy] | None = None,
        dry_run: bool = False,
    ) -> ExpirySummary:
        """Take snapshots out of the history that no branch or tag keeps by its policies.

        They are those of the repository, unless others are given. A branch or tag without a policy
        keeps all that leads to it. Files are only deleted when garbage is collected. A dry run tells
        what would be released.
        """
        time = from_datetime(require_zone(now or datetime.now(UTC), "now"))
        return expire.expire_by_policies(self._protocol, time, policies, dry_run=dry_run)

    expire_async = asynchronous(expire)


class Health(RepositoryPart):
    """Check, repair, and what virtual chunks need."""

    def check(
        self, *, branch: str | None = None, deep: bool = False, virtual: bool = False
    ) -> "findings.CheckReport":
        """Look at all files of the repository, and tell everything that is wrong.

        With a branch, only at what it leads to. `deep` reads and decodes every chunk of the repository,
        `virtual` asks for every file that virtual chunks are in, of the containers that are authorized;
        with both, virtual chunks are decoded as well. Nothing is written.
        `frazil.maintenance.check.check_storage` does it for a repository that can't be opened.
        """
        options = check_verb.CheckOptions(branch, decodes_chunks=deep, asks_sources=virtual)
        return check_verb.check_repository(self._protocol, self._context.virtual, options)

    check_async = asynchronous(check)

    def repair(
        self, report: "findings.CheckReport", *, dry_run: bool = False
    ) -> "repair.RepairReport":
        """Repair what a report names a repair for, and takes no guess; a dry run writes nothing.

        Nothing that a branch or a tag leads to is ever deleted. A repository that can't be opened is
        brought back by `frazil.maintenance.check.restore_repo`, from the backups of `repo`.
        """
        return repair.repair_repository(self._protocol, report, dry_run=dry_run)

    repair_async = asynchronous(repair)

    def doctor(self, *, branch: str = "main", probe: bool = True) -> "doctor.DoctorReport":
        """Tell which virtual chunk containers can be read, and what to type for the others.

        With `probe` one byte is asked of a file in each container that arrays of the branch use.
        """
        assets = self._protocol.assets
        snapshot = assets.read_snapshot(self._protocol.lookup_branch(branch))
        view = View(assets, snapshot, ChangeSet.of(assets.dialect))
        return doctor.examine(view, self._context.virtual, probe=probe)

    doctor_async = asynchronous(doctor)


def check_by(
    workers: "check_verb.Workers", repository: RepositoryPart, options: "check_verb.CheckOptions"
) -> "findings.CheckReport":
    """`Repository.check`, with others than threads of this process to do the work."""
    around = repository._context
    return check_verb.check_repository(around.protocol, around.virtual, options, workers)


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
        return set(map(str, expire.expire_snapshots(self._protocol, policy)))

    expire_snapshots_async = asynchronous(expire_snapshots)

    def find_expired_snapshots(
        self,
        older_than: datetime,
        *,
        delete_expired_branches: bool = False,
        delete_expired_tags: bool = False,
    ) -> set[str]:
        """Return the snapshots that `expire_snapshots` would release now; change nothing."""
        policy = _policy(older_than, delete_expired_branches, delete_expired_tags)
        return set(map(str, expire.find_expired(self._protocol, policy)))

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
            rewrite.rewrite_manifests(self._context, branch, message, metadata or {}, commit_method)
        )

    rewrite_manifests_async = asynchronous(rewrite_manifests)

    def garbage_collect(
        self,
        delete_object_older_than: datetime,
        *,
        dry_run: bool = False,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * _MEBIBYTE,
        max_decoded_manifest_mem_bytes: int = 4096 * _MEBIBYTE,
        max_concurrent_manifest_fetches: int = 500,
        max_concurrent_deletes: int = 10,
        max_consecutive_delete_failures: int = 50,
        max_concurrent_listings: int | None = None,
    ) -> GCSummary:
        """Delete what no branch or tag leads to, if it was written before a time.

        That time must be before the start of every session that is still to be committed: nothing
        else protects what they have written. A dry run counts what would be deleted.
        """
        walk = reachability.WalkLimits(
            max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches,
        )
        sweep = reachability.SweepLimits(
            max_concurrent_deletes, max_consecutive_delete_failures, max_concurrent_listings
        )
        cutoff = require_zone(delete_object_older_than, "delete_object_older_than")
        return gc.collect_garbage(
            self._protocol, gc.CollectionOptions(cutoff, walk, sweep, dry_run)
        )

    garbage_collect_async = asynchronous(garbage_collect)

    def chunk_storage_stats(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * _MEBIBYTE,
        max_decoded_manifest_mem_bytes: int = 4096 * _MEBIBYTE,
        max_concurrent_manifest_fetches: int = 500,
    ) -> ChunkStorageStats:
        """How many bytes the chunks have that branches and tags lead to, each chunk counted once."""
        limits = reachability.WalkLimits(
            max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches,
        )
        return stats.measure_chunks(self._protocol, limits)

    chunk_storage_stats_async = asynchronous(chunk_storage_stats)

    def total_chunks_storage(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * _MEBIBYTE,
        max_decoded_manifest_mem_bytes: int = 4096 * _MEBIBYTE,
        max_concurrent_manifest_fetches: int = 500,
    ) -> int:
        """Return the bytes of native chunks; deprecated in favour of `chunk_storage_stats`."""
        warnings.warn(
            "total_chunks_storage and total_chunks_storage_async are deprecated: use"
            " chunk_storage_stats().native_bytes",
            DeprecationWarning,
            stacklevel=2,
        )
        measured = self.chunk_storage_stats(
            max_snapshots_in_memory=max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes=max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes=max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches=max_concurrent_manifest_fetches,
        )
        return measured.native_bytes

    total_chunks_storage_async = asynchronous(total_chunks_storage)


def _policy(
    older_than: datetime, deletes_branches: bool, deletes_tags: bool
) -> "expire.ExpiryPolicy":
    return expire.ExpiryPolicy(
        from_datetime(require_zone(older_than, "older_than")),
        deletes_branches=deletes_branches,
        deletes_tags=deletes_tags,
    )
