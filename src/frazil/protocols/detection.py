"""Detect the generation of a repository, or create one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

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
from frazil.format.snapshot import Snapshot
from frazil.lazy import dataclass, lazy_modules
from frazil.protocols.assets import AssetOptions, Assets, Layout, new_snapshot_id
from frazil.protocols.protocol import MAIN, CommitProtocol, UpdatePolicy, read_clock
from frazil.protocols.v2_protocol import REPO, V2Protocol, create_v2
from frazil.storage.interface import Storage

if TYPE_CHECKING:
    from frazil.format import text_files
    from frazil.protocols import sequence_protocol, v1_protocol
    from frazil.protocols.sequence_protocol import BranchLayout, SequenceFile
    from frazil.protocols.v1_protocol import FileProtocol, Tip
else:
    text_files, sequence_protocol, v1_protocol = lazy_modules(
        "frazil.format.text_files", "frazil.protocols.sequence_protocol",
        "frazil.protocols.v1_protocol",
    )  # fmt: skip

_LOOKALIKES = frozenset((Dialect.ALPHA_A, Dialect.ALPHA_B))
"""Dialects that can't be distinguished from newer ones by their snapshots alone."""


@dataclass(frozen=True, slots=True)
class _Found:
    dialect: Dialect
    open: Callable[[Assets], CommitProtocol]
    """Chosen by the branch files: unreleased builds wrote V1 files next to the branches of an alpha."""


def detect_dialect(storage: Storage) -> Dialect | None:
    """Return the dialect of the repository in a storage, or None if there is no repository."""
    if v1_protocol.find_object(storage, REPO) is not None:
        return Dialect.V2
    found = _find_older(storage)
    return None if found is None else found.dialect


def open_protocol(
    storage: Storage, asset_options: AssetOptions | None = None, policy: UpdatePolicy | None = None
) -> CommitProtocol:
    """Open the repository in a storage and return its commit protocol.

    Opening a V2 repository takes one request, a V1 repository two.

    Parameters
    ----------
    storage
        The storage of the repository.
    asset_options
        Encoding options and cache capacities.
    policy
        Retries and ops log page size of V2 updates.

    Raises
    ------
    RepositoryNotFoundError
        If there is no repository.
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
    if v1_protocol.find_object(storage, v1_protocol.MAIN_KEY) is not None:
        return _Found(Dialect.V1, v1_protocol.V1Protocol)
    tip = _find_main(storage, sequence_protocol.ALPHA_BRANCHES)
    if tip is not None:
        return _Found(_detect_alpha(storage, tip.snapshot_id), sequence_protocol.SequenceProtocol)
    if _find_main(storage, sequence_protocol.DRAFT_BRANCHES) is not None:
        return _Found(Dialect.DRAFT, sequence_protocol.SequenceProtocol)
    return None


def _find_main(storage: Storage, layout: "BranchLayout") -> "Tip[SequenceFile] | None":
    try:
        return sequence_protocol.SequencedBranches(storage, layout, text_files.Ref).find(MAIN)
    except StorageError:
        # A read-only storage may be unable to list; then we can't find any sequence.
        if storage.is_read_only:
            return None
        raise


def _detect_alpha(storage: Storage, tip: SnapshotId) -> Dialect:
    """Return the newest dialect among the files of a snapshot, as far as they can be distinguished."""
    layout = Layout.of(Dialect.ALPHA_H)
    decoded = decode_snapshot(bytes(storage.get(layout.snapshot_key(tip))))
    if not _is_ambiguous(decoded):
        return decoded.dialect
    seen = [decoded.dialect, *_look_further(storage, layout, tip, decoded.value)]
    return max(seen, key=lambda each: each.age)


def _is_ambiguous(decoded: Decoded[Snapshot]) -> bool:
    if decoded.dialect is Dialect.ALPHA_F:
        return not decoded.value.manifest_files
    return decoded.dialect in _LOOKALIKES


def _look_further(
    storage: Storage, layout: Layout, tip: SnapshotId, snapshot: Snapshot
) -> Iterator[Dialect]:
    # Only the first alphas named the file of the first snapshot differently from its id.
    if snapshot.id == tip and snapshot.parent_id is None:
        yield Dialect.ALPHA_B
    log = v1_protocol.find_object(storage, f"{layout.transactions}/{tip}")
    if log is not None:
        yield decode_transaction_log(bytes(log), tip).dialect
    if snapshot.manifest_files:
        keys = [layout.manifest_key(info.id) for info in snapshot.manifest_files]
        yield from _manifest_dialects(storage, keys)
    else:
        yield from islice(_manifest_dialects(storage, _newest_first(storage, layout)), 1)


def _manifest_dialects(storage: Storage, keys: Iterable[str]) -> Iterator[Dialect]:
    for key in keys:
        manifest = v1_protocol.find_object(storage, key)
        dialect = None if manifest is None else decode_manifest(bytes(manifest)).dialect
        # V2 manifests come from an interrupted migration.
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
"""Metadata of the first snapshot; older generations have none."""


def create_repository(
    storage: Storage,
    dialect: Dialect = Dialect.V2,
    asset_options: AssetOptions | None = None,
    policy: UpdatePolicy | None = None,
    config: Mapping[str, JsonValue] | None = None,
    check_clean_root: bool = True,
) -> CommitProtocol:
    """Create a repository and return its commit protocol.

    Parameters
    ----------
    storage
        An empty storage, not the root of a bucket.
    dialect
        The generation to create.
    asset_options
        Encoding options and cache capacities.
    policy
        Retries and ops log page size of V2 updates.
    config
        A configuration to save.
    check_clean_root
        Whether to refuse a storage that contains any object.

    Raises
    ------
    InvalidInputError
        If the storage is the root of a bucket, or not empty while `check_clean_root` is true.
    ConflictError
        If there is a repository of this generation.
    FormatError
        If the generation can't save a configuration.
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
        return _create(v1_protocol.V1Protocol(assets), config)
    return _create(sequence_protocol.SequenceProtocol(assets), config)


def _refuse_unless_clean(storage: Storage) -> None:
    for found in storage.list():
        raise InvalidInputError(
            f"a repository can only be created where nothing is, and here is {found.key!r}",
            kind="parent-directory-not-clean",
        )


def _create(protocol: "FileProtocol[At]", config: Mapping[str, JsonValue] | None) -> CommitProtocol:
    protocol.refuse_if_begun()
    if config is not None:
        protocol.write_config(config)
    protocol.begin(_write_first_snapshot(protocol.assets))
    return protocol


def _write_first_snapshot(assets: Assets) -> SnapshotId:
    """Write the first snapshot and return the id that names its file."""
    snapshot = _first_snapshot(assets.dialect)
    if assets.dialect is not Dialect.ALPHA_A:
        assets.write_snapshot(snapshot)
        return snapshot.id
    # The first alphas named the file differently from the snapshot id; detection relies on that.
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
        history=v1_protocol.first_history(dialect, now),
    )
