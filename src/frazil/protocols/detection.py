"""Which generation a repository has, and the protocol that goes with it.

Looked for is, in this order: the `repo` object, which is there also where a migration to V2 was left
unfinished; the file of `main`; the sequence of files of `main`, first that of the alphas, then that
of the draft.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from frazil.assets import AssetOptions, Assets, Layout
from frazil.errors import RepositoryNotFoundError, StorageError
from frazil.format.dialect import Decoded, Dialect
from frazil.format.files import decode_manifest, decode_snapshot, decode_transaction_log
from frazil.format.ids import SnapshotId
from frazil.format.refs import Ref
from frazil.format.snapshot import Snapshot
from frazil.protocols.branch_files import Tip
from frazil.protocols.interface import MAIN, CommitProtocol, UpdatePolicy
from frazil.protocols.reading import find_object
from frazil.protocols.repo_file import REPO
from frazil.protocols.sequence_files import (
    ALPHA_BRANCHES,
    DRAFT_BRANCHES,
    BranchLayout,
    SequencedBranches,
    SequenceFile,
)
from frazil.protocols.sequences import SequenceFiles
from frazil.protocols.v1 import MAIN_KEY, RefFiles
from frazil.protocols.v2 import RepoObject
from frazil.storage.interface import Storage

_AGES = list(Dialect)
"""Dialects, oldest first."""

_LOOKALIKES = frozenset((Dialect.ALPHA_A, Dialect.ALPHA_B))
"""What snapshots of newer dialects can look like, too."""


@dataclass(frozen=True, slots=True)
class _Found:
    dialect: Dialect
    open: Callable[[Assets], CommitProtocol]
    """By the files of branches: unreleased builds wrote V1's files beside an alpha's branches."""


def detect_dialect(storage: Storage) -> Dialect | None:
    """The dialect of the repository in a storage, if there is a repository."""
    if find_object(storage, REPO) is not None:
        return Dialect.V2
    found = _find_older(storage)
    return None if found is None else found.dialect


def open_protocol(
    storage: Storage, asset_options: AssetOptions | None = None, policy: UpdatePolicy | None = None
) -> CommitProtocol:
    """The protocol of the repository in a storage; raises RepositoryNotFoundError.

    A V2 repository takes one request, a V1 repository two.
    """
    newest = RepoObject(Assets(storage, Dialect.V2, asset_options), policy or UpdatePolicy())
    try:
        newest.read_repo_info()
    except RepositoryNotFoundError:
        found = _find_older(storage)
        if found is None:
            raise
        return found.open(Assets(storage, found.dialect, asset_options))
    return newest


def _find_older(storage: Storage) -> _Found | None:
    if find_object(storage, MAIN_KEY) is not None:
        return _Found(Dialect.V1, RefFiles)
    tip = _find_main(storage, ALPHA_BRANCHES)
    if tip is not None:
        return _Found(_detect_alpha(storage, tip.snapshot_id), SequenceFiles)
    if _find_main(storage, DRAFT_BRANCHES) is not None:
        return _Found(Dialect.DRAFT, SequenceFiles)
    return None


def _find_main(storage: Storage, layout: BranchLayout) -> Tip[SequenceFile] | None:
    try:
        return SequencedBranches(storage, layout, Ref).find(MAIN)
    except StorageError:
        # What can only be read may be unable to list, and has no sequences for us then.
        if storage.is_read_only:
            return None
        raise


def _detect_alpha(storage: Storage, tip: SnapshotId) -> Dialect:
    """The newest dialect among the files of a snapshot, as far as they tell them apart."""
    layout = Layout.of(Dialect.ALPHA_H)
    decoded = decode_snapshot(bytes(storage.get(layout.snapshot_key(tip))))
    if not _is_ambiguous(decoded):
        return decoded.dialect
    seen = [decoded.dialect, *_look_further(storage, layout, tip, decoded.value)]
    return max(seen, key=_AGES.index)


def _is_ambiguous(decoded: Decoded[Snapshot]) -> bool:
    if decoded.dialect is Dialect.ALPHA_F:
        return not decoded.value.manifest_files
    return decoded.dialect in _LOOKALIKES


def _look_further(
    storage: Storage, layout: Layout, tip: SnapshotId, snapshot: Snapshot
) -> Iterator[Dialect]:
    # Only the first alphas named the first snapshot's file otherwise than the snapshot.
    if snapshot.id == tip and snapshot.parent_id is None:
        yield Dialect.ALPHA_B
    log = find_object(storage, f"{layout.transactions}/{tip}")
    if log is not None:
        yield decode_transaction_log(bytes(log), tip).dialect
    if snapshot.manifest_files:
        keys = [layout.manifest_key(info.id) for info in snapshot.manifest_files]
        yield from _manifest_dialects(storage, keys)
    else:
        yield from islice(_manifest_dialects(storage, _newest_first(storage, layout)), 1)


def _manifest_dialects(storage: Storage, keys: Iterable[str]) -> Iterator[Dialect]:
    for key in keys:
        manifest = find_object(storage, key)
        dialect = None if manifest is None else decode_manifest(bytes(manifest)).dialect
        # Those of V2 were left by a migration that was broken off.
        if dialect is not None and dialect is not Dialect.V2:
            yield dialect


def _newest_first(storage: Storage, layout: Layout) -> list[str]:
    found = storage.list(f"{layout.manifests}/")
    return [info.key for info in sorted(found, key=lambda info: info.created_at, reverse=True)]
