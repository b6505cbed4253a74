"""Performing a migration: read the old files, write the new object, delete what it stands for.

How that goes for repositories from before V1 is in `frazil.maintenance.legacy`. Nobody else may use
the repository meanwhile. Whoever opens it once the new object is there finds a V2 repository, whatever
is left of the old files.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from frazil.assets import Assets
from frazil.config.tree import decode_config, encode_config
from frazil.errors import (
    FormatError,
    InvalidInputError,
    ObjectNotFoundError,
    SessionStateError,
)
from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.repo_info import SnapshotInfo
from frazil.maintenance.legacy.migrating import LegacyMigration, find_places_left
from frazil.maintenance.legacy.old_files import delete_old_files
from frazil.maintenance.migration import OldRepository, plan_migration
from frazil.protocols.clock import read_clock
from frazil.protocols.config_file import KEY as CONFIG_KEY
from frazil.protocols.deleting import delete_files
from frazil.protocols.interface import CommitProtocol, UpdatePolicy
from frazil.protocols.repo_file import RepoFile
from frazil.protocols.sequences import SequenceFiles
from frazil.protocols.snapshot_infos import describe_snapshot, read_snapshot_anew
from frazil.protocols.v1 import MAIN_KEY, RefFiles
from frazil.storage.interface import Storage
from frazil.watching import watch

_REFS = "refs/"


@dataclass(frozen=True, slots=True)
class MigrationOptions:
    """How to go about it."""

    is_dry_run: bool
    deletes_old_files: bool = True
    max_concurrent_snapshots: int = 64


def migrate_to_v2(protocol: CommitProtocol, options: MigrationOptions) -> None:
    """Make a V2 repository of an older one; a dry run only looks whether that can be done.

    Raises SessionStateError for a V2 repository, unless its migration was broken off when only old
    files were left to be deleted; ConflictError if somebody else was faster.
    """
    if isinstance(protocol, RefFiles):
        _migrate_v1(protocol, options)
    elif isinstance(protocol, SequenceFiles):
        _migrate_legacy(protocol, options)
    else:
        _finish(protocol, options)


def _migrate_v1(protocol: RefFiles, options: MigrationOptions) -> None:
    info = plan_migration(_read_repository(protocol, options), read_clock())
    if options.is_dry_run:
        return
    before = protocol.assets
    file = RepoFile(Assets(before.storage, Dialect.V2, before.options), UpdatePolicy())
    file.create(info)
    file.read()
    if options.deletes_old_files:
        _delete_old_files(before.storage)


def _migrate_legacy(protocol: SequenceFiles, options: MigrationOptions) -> None:
    migration = LegacyMigration.of(protocol)
    config = _read_config(protocol)
    if options.is_dry_run:
        migration.check()
        return
    migration.perform(config)
    if options.deletes_old_files:
        migration.delete_old_files()


def _finish(protocol: CommitProtocol, options: MigrationOptions) -> None:
    storage = protocol.assets.storage
    places = find_places_left(storage, protocol.read_repo_info())
    if places is None or not options.deletes_old_files:
        raise SessionStateError(
            "a repository of the generation 2 can't be migrated: it is of the newest",
            kind="invalid-repository-migration",
        )
    if not options.is_dry_run:
        # Whoever created `repo` may have failed to make it durable.
        storage.flush_all()
        delete_old_files(storage, places)


def _read_repository(protocol: RefFiles, options: MigrationOptions) -> OldRepository:
    branches = {name: protocol.lookup_branch(name) for name in protocol.list_branches()}
    tags = {name: protocol.lookup_tag(name) for name in protocol.list_tags()}
    tips = [*branches.values(), *tags.values()]
    return OldRepository(
        branches=branches,
        tags=tags,
        deleted_tags=protocol.list_deleted_tags(),
        snapshots=_read_history(protocol.assets, tips, options.max_concurrent_snapshots),
        config=_read_config(protocol),
    )


def _read_config(protocol: CommitProtocol) -> dict[str, JsonValue] | None:
    """The saved configuration, with all keys that there are today."""
    tree = protocol.read_config()
    return None if tree is None else encode_config(decode_config(tree))


def _read_history(
    assets: Assets, tips: Iterable[SnapshotId], concurrency: int
) -> dict[SnapshotId, SnapshotInfo]:
    """All snapshots that tips lead to; raises SnapshotNotFoundError where the way breaks off."""
    read = _read_all(assets, concurrency)
    found: dict[SnapshotId, SnapshotInfo] = {}
    for tip in tips:
        id: SnapshotId | None = tip
        while id is not None and id not in found:
            found[id] = read.get(id) or describe_snapshot(read_snapshot_anew(assets, id))
            id = found[id].parent_id
    return found


def _read_all(assets: Assets, concurrency: int) -> dict[SnapshotId, SnapshotInfo]:
    """All snapshots that can be read: only their files tell the way, one after the other."""
    folder = f"{assets.layout.snapshots}/"
    names = [info.key.removeprefix(folder) for info in assets.storage.list(folder)]
    with ThreadPoolExecutor(concurrency) as pool:
        infos = pool.map(lambda name: _find_info(assets, name), names)
        told = watch(infos, "reading snapshots", "snapshots", total=len(names))
        return {info.id: info for info in told if info is not None}


def _find_info(assets: Assets, name: str) -> SnapshotInfo | None:
    try:
        return describe_snapshot(read_snapshot_anew(assets, SnapshotId.parse(name)))
    except (FormatError, InvalidInputError, ObjectNotFoundError):
        # No ref may lead here, and then it does not matter.
        return None


def _delete_old_files(storage: Storage) -> None:
    # The file of `main` first: without it nobody takes this for a V1 repository any more.
    delete_files(storage, [MAIN_KEY])
    delete_files(storage, [*(info.key for info in storage.list(_REFS)), CONFIG_KEY])
