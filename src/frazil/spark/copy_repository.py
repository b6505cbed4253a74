"""Copy a repository object by object under the same names, and write its state last."""

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace

from frazil.arguments import verb
from frazil.errors import ConflictError, DivergedError, InvalidInputError, StorageError
from frazil.format.ids import SnapshotId
from frazil.format.metadata import ROOT, Metadata, Nanoseconds, Value
from frazil.format.repo_info import MetadataChanged, RepoInfo, RepoInitialized, RepoStatus, Update
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.leases import Lease, leased
from frazil.maintenance.reachability import pack, uncached
from frazil.maintenance.repair import rebuild_log
from frazil.protocols.assets import Assets
from frazil.protocols.detection import detect_dialect, open_protocol
from frazil.protocols.protocol import MAIN, CommitProtocol, UpdatePolicy, read_clock
from frazil.protocols.repo_changes import Change
from frazil.protocols.v2_protocol import RepoFile
from frazil.spark.copy_plan import (
    LIMITS,
    AnyPlace,
    Choice,
    ChunkList,
    CopyChunks,
    CopyFiles,
    CopyPlan,
    Guard,
    ListChunks,
    Part,
    Passage,
    count_references,
    cut_slices,
    derive_id,
    find_first,
    find_storage,
    has_nothing,
    is_written,
    name_place,
    newest_collection,
    plan_copy,
    read_state,
    refuse_same_place,
    refuse_target,
    select_refs,
    take_part,
)
from frazil.spark.job import Copied, CopyReport, Job, SparkSession
from frazil.spark.regions import LEAST_TASK_BYTES, choose_task_bytes, path_of
from frazil.spark.runtime import Runner
from frazil.spark.transaction import Run, running
from frazil.storage.interface import Storage
from frazil.storage.memory import MemoryStorage


class CollectedMeanwhileError(Exception):
    """Garbage was collected in the target while it received objects that nothing references yet."""


# V2


def create_repo_info(assets: Assets, wanted: RepoInfo, guard: Guard) -> None:
    """Create a V2 repository over existing objects; raise ConflictError if one exists by now."""
    now = read_clock()
    info = replace(
        wanted,
        status=RepoStatus(set_at=now),
        latest_updates=(Update(RepoInitialized(), now),),
        repo_before_updates=None,
        metadata=Metadata(guard.with_record(wanted)),
    )
    RepoFile(assets, UpdatePolicy()).create(info)


def update_repo_info(
    protocol: CommitProtocol, wanted: RepoInfo, guard: Guard, collected_at: Nanoseconds
) -> bool:
    """Set the state of a V2 repository to that of the source; return True if it changed.

    Raises the errors of the guard, and CollectedMeanwhileError after a concurrent garbage collection.
    """
    if _with_state_of(protocol.read_repo_info(), wanted, guard) == protocol.read_repo_info():
        return False

    def change(info: RepoInfo) -> Change:
        guard.refuse_others(info)
        if newest_collection(info) > collected_at:
            raise CollectedMeanwhileError
        return Change(_with_state_of(info, wanted, guard), MetadataChanged())

    protocol.update(change)
    return True


def _with_state_of(info: RepoInfo, wanted: RepoInfo, guard: Guard) -> RepoInfo:
    """Return a repo info with the contents of another, but its own status and ops log."""
    return replace(
        info,
        branches=dict(wanted.branches),
        tags=dict(wanted.tags),
        deleted_tags=wanted.deleted_tags,
        snapshots=dict(wanted.snapshots),
        metadata=Metadata(guard.with_record(wanted)),
        config=wanted.config,
        enabled_feature_flags=wanted.enabled_feature_flags,
        disabled_feature_flags=wanted.disabled_feature_flags,
    )


# Before V2


def write_refs(
    protocol: CommitProtocol, source: CommitProtocol, wanted: RepoInfo, target: RepoInfo | None
) -> bool:
    """Set the refs of a repository before V2; return True if they changed.

    Raises ConflictError if a ref is moved concurrently.
    """
    before = target or _read_begun(protocol, wanted)
    has_changed = target is None
    has_changed |= _write_config(protocol, wanted, before)
    has_changed |= _write_tags(protocol, source, wanted, before)
    names = sorted({*wanted.branches, *before.branches}, key=lambda name: (name == MAIN, name))
    for name in names:
        has_changed |= _move_branch(protocol, wanted, name, before.branches.get(name))
    return has_changed


def _read_begun(protocol: CommitProtocol, wanted: RepoInfo) -> RepoInfo:
    """Return the refs left by a copy that was interrupted before it created `main`."""
    config = protocol.read_config()
    return replace(
        wanted,
        branches={name: protocol.lookup_branch(name) for name in protocol.list_branches()},
        tags={name: protocol.lookup_tag(name) for name in protocol.list_tags()},
        deleted_tags=frozenset(protocol.list_deleted_tags()),
        config=None if config is None else Value(config),
    )


def _write_config(protocol: CommitProtocol, wanted: RepoInfo, before: RepoInfo) -> bool:
    if wanted.config is None or wanted.config == before.config:
        return False
    tree = wanted.config.get()
    assert isinstance(tree, dict)
    protocol.read_config()
    protocol.write_config(tree)
    return True


def _write_tags(
    protocol: CommitProtocol, source: CommitProtocol, wanted: RepoInfo, before: RepoInfo
) -> bool:
    changed = 0
    for name, id in wanted.tags.items():
        if before.tags.get(name, id) != id:
            raise DivergedError(message=f"the tag {name!r} of the target is at {before.tags[name]}")
        if name not in before.tags:
            protocol.create_tag(name, id)
            changed += 1
    for name in before.tags.keys() - wanted.tags.keys():
        protocol.delete_tag(name)
        changed += 1
    for name, id in source.list_deleted_tags().items():
        if name not in before.deleted_tags and name not in before.tags:
            protocol.reserve_tag(name, id)
            changed += 1
    return changed > 0


def _move_branch(
    protocol: CommitProtocol, wanted: RepoInfo, name: str, before: SnapshotId | None
) -> bool:
    after = wanted.branches.get(name)
    if before == after:
        return False
    if after is None:
        protocol.delete_branch(name)
    elif before is not None:
        protocol.reset_branch(name, after, before)
    elif name == MAIN:
        protocol.begin(find_first(wanted).id, after)
    else:
        protocol.create_branch(name, after)
    return True


_REFERENCES_PER_TASK = 1_000_000
_FILES_PER_TASK = 500
_MOST_CHUNKS_PER_TASK = 20_000


def move_objects(run: Run, passage: Passage, plan: CopyPlan) -> Copied:
    """Copy the objects of a plan; safe to repeat."""
    runner = run.choose_runner(is_small=plan.is_small)
    lists: list[ChunkList] = []
    known: list[ChunkList] = []
    try:
        lists = _list_chunks(runner, passage, passage.source, plan.manifests)
        known = _list_chunks(runner, passage, passage.target, plan.replaced)
        size = sum(each.bytes for each in lists)
        runner = run.choose_runner(is_small=plan.is_small and size <= LEAST_TASK_BYTES)
        copied = _copy_chunks(runner, CopyChunks(passage, tuple(lists), tuple(known)), run.slots)
    finally:
        _forget(passage, [*lists, *known])
    copied += _copy_files(runner, passage, plan)
    _write_files(passage, plan)
    return copied


def _copy_chunks(runner: Runner, task: CopyChunks, slots: int) -> Copied:
    slices = cut_slices(task.lists, _chunks_per_task(task.lists, slots))
    size = sum(each.bytes for each in task.lists)
    runner.job.expect("copying chunks", chunks=sum(map(len, task.lists)), bytes=size)
    return sum(runner.run("copying chunks", task, slices), Copied())


def _list_chunks(
    runner: Runner, passage: Passage, assets: Assets, manifests: Sequence[ManifestFileInfo]
) -> list[ChunkList]:
    groups = pack(manifests, list(map(count_references, manifests)), _REFERENCES_PER_TASK)
    most = runner.returned_references // max(len(groups), 1)
    id_size = assets.dialect.id_size
    task = ListChunks(assets, passage.target, LIMITS, id_size, most)
    return runner.run("listing chunks", task, groups)


def _chunks_per_task(lists: Sequence[ChunkList], slots: int) -> int:
    count, size = sum(map(len, lists)), sum(each.bytes for each in lists)
    if not size:
        return _MOST_CHUNKS_PER_TASK
    return max(1, min(_MOST_CHUNKS_PER_TASK, choose_task_bytes(size, slots) * count // size))


def _copy_files(runner: Runner, passage: Passage, plan: CopyPlan) -> Copied:
    copied = Copied()
    for keys, is_always in ((plan.files, False), (plan.changing_files, True)):
        groups = pack(keys, [1] * len(keys), _FILES_PER_TASK)
        done = runner.run("copying metadata", CopyFiles(passage, is_always), groups)
        copied += sum(done, Copied())
    return copied


def _write_files(passage: Passage, plan: CopyPlan) -> None:
    """Write the snapshots that have no object in the source."""
    target = passage.target
    for key, data in plan.written.items():
        target.storage.put(key, data, target.describe("snapshot"))
    for snapshot in plan.made:
        first = passage.source.read_snapshot(plan.first_id)
        log = rebuild_log(uncached(passage.source), first, snapshot)
        target.write_transaction_log(log)
        target.write_snapshot(snapshot)
    target.storage.flush()


def _forget(passage: Passage, lists: Sequence[ChunkList]) -> None:
    keys = [passage.target.layout.chunk_key(each.file) for each in lists if each.file is not None]
    if keys:
        with suppress(StorageError):
            passage.target.storage.delete_many(keys)


_DAY = 24 * 3600 * 10**9
"""In nanoseconds; upper bound for the duration of a garbage sweep."""


@dataclass(frozen=True, slots=True)
class Start:
    """Request of a copy."""

    source: Storage
    target: Storage
    choice: Choice
    group: str
    run: Run


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a copy attempt."""

    copied: Copied
    new_snapshots: int
    has_changed: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to copy: objects first, then the state."""

    start: Start
    protocol: CommitProtocol
    part: Part
    guard: Guard

    def run(self) -> Outcome:
        """Copy the missing objects, then update the state of the target."""
        target = self._open_target()
        before = None if target is None else read_state(target)
        if before is not None:
            self.guard.refuse_others(before)
        assets = Assets(self.start.target, self.protocol.dialect)
        passage = Passage(self.protocol.assets, assets, has_nothing(assets))
        # Without a repository there is no garbage collection, and no lease is needed.
        storage, id = self.start.target, self.start.run.job.id
        with nullcontext() if target is None else leased(storage, id, "copy") as lease:
            if target is not None:
                refuse_same_place(self.start.source, storage, id)
            return self._move(passage, target, before, lease)

    def _move(
        self,
        passage: Passage,
        target: CommitProtocol | None,
        before: RepoInfo | None,
        lease: Lease | None,
    ) -> Outcome:
        plan = plan_copy(passage, self.part, before)
        copied = move_objects(self.start.run, passage, plan)
        collected_at = 0 if before is None else newest_collection(before)
        if before is not None and collected_at > read_clock() - _DAY:
            # Its sweep may still have been running when the objects were listed.
            passage = replace(passage, is_empty=False)
            copied += move_objects(self.start.run, passage, plan)
        self.start.run.job.refuse_if_cancelled()
        if lease is not None:
            lease.refuse_if_lost()
        has_changed = self._land(passage.target, target, before, collected_at)
        return Outcome(copied, len(plan.new_snapshots), has_changed)

    def _open_target(self) -> CommitProtocol | None:
        if detect_dialect(self.start.target) is None:
            return None
        return open_protocol(self.start.target)

    def _land(
        self,
        assets: Assets,
        target: CommitProtocol | None,
        before: RepoInfo | None,
        collected_at: int,
    ) -> bool:
        wanted = self.part.info
        if not self.protocol.has_repo_info:
            landing = target or self.protocol.at(assets)
            return write_refs(landing, self.protocol, wanted, before)
        if target is None:
            create_repo_info(assets, wanted, self.guard)
            return True
        return update_repo_info(target, wanted, self.guard, collected_at)


_MOST_ATTEMPTS = 5


@verb(job=Job)
def copy(
    source: AnyPlace,
    target: AnyPlace,
    *,
    branches: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    group: str | None = None,
    last: int | None = None,
    shallow: bool = False,
    incremental: bool = True,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> CopyReport:
    """Copy a repository to another location, or bring an earlier copy up to date.

    Snapshots, manifests, transaction logs and chunks keep their names and bytes.

    Parameters
    ----------
    source
        Repository, storage or location to copy from.
    target
        Repository, storage or location to copy to.
    branches
        Branches to copy. Default: all.
    tags
        Tags to copy. Default: all, or none if `shallow`.
    group
        Path of a group to copy. Each branch becomes one snapshot.
    last
        Number of snapshots to keep of each branch. Default: all.
    shallow
        Keep only the tips of branches, and only the tags that are named.
    incremental
        If False, refuse a target that has a repository.

    Returns
    -------
    CopyReport

    Raises
    ------
    AlreadyExistsError
        If the target holds another repository.
    ConflictError
        If the copy was written to by others, or changes concurrently.
    InvalidInputError
        If the target holds other objects, the generations differ, or options contradict each other.
    RefNotFoundError
        If a branch or tag does not exist.

    Examples
    --------
    >>> copy("s3://bucket/weather", "gs://backup/weather")
    """
    if shallow and last is not None:
        raise InvalidInputError("a shallow copy has one snapshot of each branch: leave last= out")
    if group is not None and (tags or last is not None):
        raise InvalidInputError("a part has one snapshot of each branch: leave last= and tags= out")
    kept_tags = () if tags is None and shallow else tags
    choice = Choice(
        None if branches is None else tuple(branches),
        None if kept_tags is None else tuple(kept_tags),
        1 if shallow else last,
    )
    storages = find_storage(source), find_storage(target)
    # Tasks on other hosts must reach both storages.
    near = next((each for each in storages if isinstance(each, MemoryStorage)), storages[0])
    with running("copy", near, job, spark) as run:
        return _copy(Start(*storages, choice, path_of(group or ROOT), run), incremental=incremental)


def _copy(start: Start, *, incremental: bool) -> CopyReport:
    protocol = open_protocol(start.source)
    state = read_state(protocol)
    wanted = select_refs(state, start.choice)
    part = Part(wanted, {})
    if start.group != ROOT:
        is_named = start.choice.branches is not None
        part = take_part(protocol.assets, wanted, start.group, is_named=is_named)
    refuse_target(start.target, protocol.dialect, incremental=incremental)
    guard = Guard(
        state, name_place(start.source), start.group, _Known(protocol, state, start.group)
    )
    outcome = _try(Attempt(start, protocol, part, guard))
    copied = outcome.copied
    return CopyReport(
        has_changed=outcome.has_changed, branches=tuple(sorted(part.info.branches)),
        tags=tuple(sorted(part.info.tags)), snapshots=len(part.info.snapshots),
        new_snapshots=outcome.new_snapshots, objects=copied.objects, bytes_copied=copied.bytes,
        present=copied.present, **start.run.describe(),
    )  # fmt: skip


def _try(attempt: Attempt) -> Outcome:
    for _ in range(_MOST_ATTEMPTS):
        try:
            return attempt.run()
        except CollectedMeanwhileError:
            continue
    raise ConflictError(
        message=f"garbage was collected at the target {_MOST_ATTEMPTS} times while it was copied to",
        kind="update-attempts-exhausted",
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """Test whether the source has a snapshot, or derived it for the copied group."""

    protocol: CommitProtocol
    state: RepoInfo
    group: str

    def __call__(self, id: SnapshotId) -> bool:
        if self.group != ROOT:
            return id in self.state.snapshots or any(
                derive_id(each, self.group) == id for each in self.state.snapshots
            )
        return id in self.state.snapshots or is_written(self.protocol, id)
