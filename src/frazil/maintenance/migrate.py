"""Migrate a repository to V2: read the old files, write `repo`, delete the files it replaces."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NoReturn

from frazil.config.saved_config import decode_config, encode_config
from frazil.errors import (
    ConflictError,
    FormatError,
    InvalidInputError,
    ObjectNotFoundError,
    SessionStateError,
)
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.metadata import JsonValue, Nanoseconds, Value
from frazil.format.repo_info import (
    BranchCreated,
    NewCommit,
    RepoInfo,
    RepoInitialized,
    RepoMigrated,
    RepoStatus,
    SnapshotInfo,
    TagCreated,
    TagDeleted,
    Update,
)
from frazil.maintenance.expire import Snapshots, ancestors_of
from frazil.maintenance.migrate_legacy import (
    ALPHA_PLACES,
    DRAFT_PLACES,
    Files,
    HistoryWriter,
    OldPlaces,
    OldRefs,
    check_history,
    delete_old_files,
    find_origin,
    has_old_files,
    name_snapshot,
    read_history,
    read_refs,
)
from frazil.maintenance.reachability import uncached
from frazil.progress import track
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import (
    MAIN,
    MICROSECOND,
    CommitProtocol,
    UpdatePolicy,
    read_clock,
    time_after,
)
from frazil.protocols.sequence_protocol import SequenceProtocol
from frazil.protocols.v1_protocol import KEY as CONFIG_KEY
from frazil.protocols.v1_protocol import (
    MAIN_KEY,
    delete_files,
    describe_snapshot,
    read_snapshot_anew,
)
from frazil.protocols.v2_protocol import RepoFile
from frazil.repository.context import open_repository
from frazil.repository.repository import Repository
from frazil.storage.interface import Storage

_MILLISECOND = 1000 * MICROSECOND

Refs = Mapping[str, SnapshotId]


@dataclass(frozen=True, slots=True)
class OldRepository:
    """Refs, history and configuration of a repository before V2."""

    branches: Refs
    tags: Refs
    deleted_tags: Refs
    snapshots: Snapshots
    """Snapshots that are reachable from branches and tags."""
    config: Mapping[str, JsonValue] | None
    """Saved configuration."""

    @property
    def root(self) -> SnapshotInfo:
        """First snapshot of the repository."""
        *_, first = self.line(MAIN)
        return first

    def line(self, branch: str) -> Iterator[SnapshotInfo]:
        """Yield the snapshots of a branch, newest first."""
        tip = self.snapshots[self.branches[branch]]
        yield tip
        yield from ancestors_of(self.snapshots, tip)

    def find_time(self, id: SnapshotId) -> Nanoseconds:
        """Return the time of a snapshot; the root's time if only a deleted tag refers to it."""
        found = self.snapshots.get(id)
        return self.root.flushed_at if found is None else found.flushed_at


def plan_migration(old: OldRepository, now: Nanoseconds) -> RepoInfo:
    """Return the V2 repo info of an older repository."""
    past = _spread([Update(RepoInitialized(), old.root.flushed_at), *_invent_updates(old)])
    # Always 1: the official library refuses an ops log with versions before 1.
    migrated = Update(RepoMigrated(1, 2), time_after(past[-1].updated_at, now))
    return RepoInfo(
        branches=dict(old.branches),
        tags=dict(old.tags),
        deleted_tags=frozenset(old.deleted_tags),
        snapshots={
            id: replace(each, flushed_at=each.flushed_at // MICROSECOND * MICROSECOND)
            for id, each in old.snapshots.items()
        },
        status=RepoStatus(set_at=old.root.flushed_at),
        latest_updates=(migrated, *reversed(past)),
        config=None if old.config is None else Value(dict(old.config)),
    )


# Ops log


def _invent_updates(old: OldRepository) -> Iterator[Update]:
    yield from _invent_commits(old)
    for name, tip in sorted(old.branches.items()):
        if name != MAIN:
            yield Update(BranchCreated(name), old.find_time(tip) + _MILLISECOND)
    for name, tip in sorted(old.tags.items()):
        yield Update(TagCreated(name), old.find_time(tip) + _MILLISECOND)
    for name, tip in sorted(old.deleted_tags.items()):
        time = old.find_time(tip)
        yield Update(TagCreated(name), time + _MILLISECOND)
        yield Update(TagDeleted(name, tip), time + 2 * _MILLISECOND)


def _invent_commits(old: OldRepository) -> Iterator[Update]:
    """Yield a commit update for each snapshot of a branch, attributed to `main` if it has it."""
    seen: set[SnapshotId] = set()
    names = sorted(old.branches, key=lambda name: (name != MAIN, name))
    for name in names:
        for each in old.line(name):
            if each.id in seen:
                break
            seen.add(each.id)
            if each.parent_id is not None:
                yield Update(NewCommit(name, each.id), each.flushed_at)


def _spread(updates: Iterable[Update]) -> list[Update]:
    """Return the updates ordered by time, with distinct times."""
    spread: list[Update] = []
    for update in sorted(updates, key=lambda each: each.updated_at):
        time = update.updated_at // MICROSECOND * MICROSECOND
        if spread:
            time = max(time, spread[-1].updated_at + MICROSECOND)
        spread.append(replace(update, updated_at=time))
    return spread


_DRAFT_ID_SIZE = 16


@dataclass(frozen=True, slots=True)
class LegacyMigration:
    """Migration of a draft or alpha repository; uncached, because it reads everything once."""

    protocol: SequenceProtocol

    @classmethod
    def of(cls, protocol: SequenceProtocol) -> "LegacyMigration":
        """Return the migration of a repository."""
        return cls(SequenceProtocol(uncached(protocol.assets)))

    @property
    def _old(self) -> Assets:
        return self.protocol.assets

    def check(self) -> None:
        """Read everything a migration reads, without writing; raises what a migration would raise."""
        refs = read_refs(self.protocol)
        check_history(self._old, read_history(self.protocol, refs.tips).values())

    def perform(self, config: Mapping[str, JsonValue] | None) -> None:
        """Write the V2 repository; raises ConflictError if a ref changed meanwhile."""
        new = Assets(self._old.storage, Dialect.V2, self._old.options)
        refs = read_refs(self.protocol)
        writer = HistoryWriter(Files(self._old, new))
        writer.write_all(read_history(self.protocol, refs.tips).values())
        info = plan_migration(_describe(refs, writer, config), read_clock())
        new.storage.flush()
        self._refuse_if_moved(refs)
        file = RepoFile(new, UpdatePolicy())
        file.create(info)
        file.read()

    def delete_old_files(self) -> None:
        """Delete the files that `repo` replaces."""
        is_draft = self.protocol.dialect is Dialect.DRAFT
        delete_old_files(self._old.storage, DRAFT_PLACES if is_draft else ALPHA_PLACES)

    def _refuse_if_moved(self, refs: OldRefs) -> None:
        if read_refs(self.protocol) != refs:
            raise ConflictError(
                message="a branch or a tag was changed while the repository was migrated: migrate"
                " it again",
                kind="branch-update-conflict",
            )


def _describe(
    refs: OldRefs, writer: HistoryWriter, config: Mapping[str, JsonValue] | None
) -> OldRepository:
    """Return the old repository with its new snapshot ids."""

    def translate(names: Mapping[str, SnapshotId]) -> dict[str, SnapshotId]:
        return {name: writer.ids.get(id) or name_snapshot(id) for name, id in names.items()}

    return OldRepository(
        branches=translate(refs.branches),
        tags=translate(refs.tags),
        deleted_tags=translate(refs.deleted_tags),
        snapshots=writer.infos,
        config=config,
    )


def find_places_left(storage: Storage, info: RepoInfo) -> OldPlaces | None:
    """Return where a migrated V2 repository still has old files; None if there are none."""
    roots = (each for each in info.snapshots.values() if each.parent_id is None)
    origin = next((id for id in (find_origin(each.metadata) for each in roots) if id), None)
    if origin is None:
        return None
    is_draft = len(SnapshotId.parse(origin)) == _DRAFT_ID_SIZE
    places = DRAFT_PLACES if is_draft else ALPHA_PLACES
    return places if has_old_files(storage, places) else None


_REFS = "refs/"


@dataclass(frozen=True, slots=True)
class MigrationOptions:
    """Options of a migration."""

    is_dry_run: bool
    deletes_old_files: bool = True
    max_concurrent_snapshots: int = 64


def migrate_to_v2(protocol: CommitProtocol, options: MigrationOptions) -> None:
    """Migrate an older repository to V2; a dry run only checks that it is possible.

    Parameters
    ----------
    protocol
        The commit protocol of the repository.
    options
        Dry run, deletion of old files, and concurrency.

    Raises
    ------
    SessionStateError
        If the repository is V2 already, unless an interrupted migration left old files to delete.
    ConflictError
        If another writer was first.
    """
    if protocol.has_repo_info:
        _finish(protocol, options)
    elif isinstance(protocol, SequenceProtocol):
        _migrate_legacy(protocol, options)
    else:
        _migrate_v1(protocol, options)


def _migrate_v1(protocol: CommitProtocol, options: MigrationOptions) -> None:
    info = plan_migration(_read_repository(protocol, options), read_clock())
    if options.is_dry_run:
        return
    before = protocol.assets
    file = RepoFile(Assets(before.storage, Dialect.V2, before.options), UpdatePolicy())
    file.create(info)
    file.read()
    if options.deletes_old_files:
        _delete_old_files(before.storage)


def _migrate_legacy(protocol: SequenceProtocol, options: MigrationOptions) -> None:
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
            "a repository of the generation 2 can't be migrated: it already has the newest format",
            kind="invalid-repository-migration",
        )
    if not options.is_dry_run:
        # The process that created `repo` may have failed to make it durable.
        storage.flush_all()
        delete_old_files(storage, places)


def _read_repository(protocol: CommitProtocol, options: MigrationOptions) -> OldRepository:
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
    """Return the saved configuration with all current keys."""
    tree = protocol.read_config()
    return None if tree is None else encode_config(decode_config(tree))


def _read_history(
    assets: Assets, tips: Iterable[SnapshotId], concurrency: int
) -> dict[SnapshotId, SnapshotInfo]:
    """Return all snapshots reachable from tips; raises SnapshotNotFoundError for a missing one."""
    read = _read_all(assets, concurrency)
    found: dict[SnapshotId, SnapshotInfo] = {}
    for tip in tips:
        id: SnapshotId | None = tip
        while id is not None and id not in found:
            found[id] = read.get(id) or describe_snapshot(read_snapshot_anew(assets, id))
            id = found[id].parent_id
    return found


def _read_all(assets: Assets, concurrency: int) -> dict[SnapshotId, SnapshotInfo]:
    """Read all snapshot files concurrently: following parent ids would read one after the other."""
    folder = f"{assets.layout.snapshots}/"
    names = [info.key.removeprefix(folder) for info in assets.storage.list(folder)]
    with ThreadPoolExecutor(concurrency) as pool:
        infos = pool.map(lambda name: _find_info(assets, name), names)
        counted = track(infos, "reading snapshots", "snapshots", total=len(names))
        return {info.id: info for info in counted if info is not None}


def _find_info(assets: Assets, name: str) -> SnapshotInfo | None:
    try:
        return describe_snapshot(read_snapshot_anew(assets, SnapshotId.parse(name)))
    except (FormatError, InvalidInputError, ObjectNotFoundError):
        # It may be unreachable, and then it does not matter.
        return None


def _delete_old_files(storage: Storage) -> None:
    # The file of `main` first: without it the repository is no longer detected as V1.
    delete_files(storage, [MAIN_KEY])
    delete_files(storage, [*(info.key for info in storage.list(_REFS)), CONFIG_KEY])


class _Outdated:
    """Placeholder for the contents of a repository object whose repository was migrated."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(
            "this Repository was invalidated by upgrade_icechunk_repository: use the object that it"
            " returned"
        )


def upgrade_icechunk_repository(
    repo: Repository,
    *,
    dry_run: bool,
    delete_unused_v1_files: bool = True,
    prefetch_concurrency: int | None = None,
) -> Repository:
    """Migrate a repository of any older generation to V2 while nobody else uses it, and reopen it.

    For V1 only refs and the saved configuration are rewritten, which takes seconds unless the history
    is very long. For older generations all metadata is rewritten: commits get new ids, with the old
    ones in their metadata. Chunks stay where they are, except those of the draft, which are copied.

    An interrupted migration leaves a repository that can be opened, as what it was or as V2. A second
    call continues it, and deletes old files that were left.

    Parameters
    ----------
    repo
        The repository; the object can't be used afterwards.
    dry_run
        Whether to only check that a migration is possible.
    delete_unused_v1_files
        Whether to delete the files that `repo` replaces.
    prefetch_concurrency
        Maximum number of snapshots read at once.

    Returns
    -------
    Repository
        The migrated repository, with its saved configuration and without credentials.

    Raises
    ------
    SessionStateError
        If there is nothing to migrate.
    """
    opened = repo._repository
    concurrency = 64 if prefetch_concurrency is None else prefetch_concurrency
    if concurrency < 1:
        raise InvalidInputError(
            f"invalid prefetch_concurrency {concurrency}: it must be at least 1"
        )
    migrate_to_v2(opened.protocol, MigrationOptions(dry_run, delete_unused_v1_files, concurrency))
    if not dry_run:
        repo._repository = _Outdated()  # type: ignore[assignment]  # whose use is an error
    return Repository(open_repository(opened.storage, attribution=opened.attribution))
