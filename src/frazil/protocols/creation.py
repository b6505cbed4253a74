"""Making a repository of any generation: one empty snapshot, and `main` that points to it."""

from collections.abc import Mapping
from typing import TypeVar

from frazil.assets import AssetOptions, Assets, new_snapshot_id
from frazil.errors import InvalidInputError
from frazil.format.dialect import Dialect
from frazil.format.files import encode_snapshot
from frazil.format.ids import FIRST_SNAPSHOT_ID, SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.metadata import NO_METADATA, Metadata
from frazil.format.snapshot import Snapshot
from frazil.protocols.clock import read_clock
from frazil.protocols.file_protocol import FileProtocol
from frazil.protocols.history import first_history
from frazil.protocols.interface import CommitProtocol, UpdatePolicy
from frazil.protocols.sequences import SequenceFiles
from frazil.protocols.v1 import RefFiles
from frazil.protocols.v2 import create_v2
from frazil.storage.interface import Storage

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
        return _create(RefFiles(assets), config)
    return _create(SequenceFiles(assets), config)


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
