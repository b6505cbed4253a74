"""Detect the generation of a repository, or create one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from frazil.errors import InvalidInputError, RepositoryNotFoundError, StorageError
from frazil.format.files import (
    decode_manifest,
    decode_snapshot,
    decode_transaction_log,
    encode_snapshot,
)
from frazil.format.header import Decoded, Dialect
from frazil.format.ids import FIRST_SNAPSHOT_ID, SnapshotId
from frazil.format.metadata import NO_METADATA, JsonValue, Metadata
from frazil.format.refs import Ref
from frazil.format.snapshot import Snapshot
from frazil.protocols.assets import AssetOptions, Assets, Layout, new_snapshot_id
from frazil.protocols.history import first_history
from frazil.protocols.protocol import MAIN, CommitProtocol, UpdatePolicy, read_clock
from frazil.protocols.ref_files import FileProtocol, Tip, find_object
from frazil.protocols.sequence_protocol import (
    ALPHA_BRANCHES,
    DRAFT_BRANCHES,
    BranchLayout,
    SequencedBranches,
    SequenceFile,
    SequenceProtocol,
)
from frazil.protocols.v1_protocol import MAIN_KEY, V1Protocol
from frazil.protocols.v2_protocol import REPO, V2Protocol, create_v2
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
    newest = V2Protocol(Assets(storage, Dialect.V2, asset_options), policy or UpdatePolicy())
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
        return _Found(Dialect.V1, V1Protocol)
    tip = _find_main(storage, ALPHA_BRANCHES)
    if tip is not None:
        return _Found(_detect_alpha(storage, tip.snapshot_id), SequenceProtocol)
    if _find_main(storage, DRAFT_BRANCHES) is not None:
        return _Found(Dialect.DRAFT, SequenceProtocol)
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


At = TypeVar("At")

FIRST_MESSAGE = "Repository initialized"

_FIRST_METADATA = {
    Dialect.ALPHA_H: Metadata({"__root": True}),
    Dialect.V1: Metadata({"__icechunk": {"is_root": True}}),
}
"""In the older generations the first snapshot has none."""


def create_repository(
    storage: Storage,
    dialect: Dialect = Dialect.V2,
    asset_options: AssetOptions | None = None,
    policy: UpdatePolicy | None = None,
    config: Mapping[str, JsonValue] | None = None,
    check_clean_root: bool = True,
) -> CommitProtocol:
    """Make a repository, and give its protocol.

    Raises InvalidInputError where the storage is a whole bucket or, if asked to look, has anything in
    it; ConflictError where there is a repository of this generation; FormatError for a configuration
    that the generation has no place for.
    """
    if storage.is_bucket_root:
        raise InvalidInputError(
            "creating a repository at an empty prefix (the object store bucket root) is not supported:"
            " use a prefix of its own",
            kind="empty-prefix-creation",
        )
    if check_clean_root:
        _refuse_unless_clean(storage)
    assets = Assets(storage, dialect, asset_options)
    if dialect is Dialect.V2:
        return create_v2(assets, config, policy or UpdatePolicy())
    if dialect is Dialect.V1:
        return _create(V1Protocol(assets), config)
    return _create(SequenceProtocol(assets), config)


def _refuse_unless_clean(storage: Storage) -> None:
    for found in storage.list():
        raise InvalidInputError(
            f"a repository can only be created where nothing is, and here is {found.key!r}",
            kind="parent-directory-not-clean",
        )


def _create(protocol: FileProtocol[At], config: Mapping[str, JsonValue] | None) -> CommitProtocol:
    protocol.refuse_if_begun()
    if config is not None:
        protocol.write_config(config)
    protocol.begin(_write_first_snapshot(protocol.assets))
    return protocol


def _write_first_snapshot(assets: Assets) -> SnapshotId:
    """The name of the first snapshot's file."""
    snapshot = _first_snapshot(assets.dialect)
    if assets.dialect is not Dialect.ALPHA_A:
        assets.write_snapshot(snapshot)
        return snapshot.id
    # The first alphas named the file otherwise than the snapshot: that is how they are recognised.
    name = new_snapshot_id(assets.dialect)
    data = encode_snapshot(snapshot, assets.dialect, assets.options.encoding)
    assets.storage.put(assets.layout.snapshot_key(name), data, assets.describe("snapshot"))
    return name


def _first_snapshot(dialect: Dialect) -> Snapshot:
    now = read_clock()
    return Snapshot(
        id=FIRST_SNAPSHOT_ID if dialect is Dialect.V1 else new_snapshot_id(dialect),
        parent_id=None,
        flushed_at=now,
        message=FIRST_MESSAGE,
        metadata=_FIRST_METADATA.get(dialect, NO_METADATA),
        history=first_history(dialect, now),
    )
