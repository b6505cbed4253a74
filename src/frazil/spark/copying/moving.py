"""Moving objects as a plan says: chunks first, then the files that name them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from frazil.assets import Assets
from frazil.errors import StorageError
from frazil.format.dialect import Dialect
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.batches import pack
from frazil.maintenance.checking.rebuilding import rebuild_log
from frazil.maintenance.walking import uncached
from frazil.spark.arrays.regions import LEAST_TASK_BYTES, choose_task_bytes
from frazil.spark.arrays.runner import Runner, count_slots
from frazil.spark.copying.chunk_lists import ChunkList, CopyChunks, ListChunks, cut_slices
from frazil.spark.copying.objects import CopyFiles, Passage
from frazil.spark.copying.planning import LIMITS, CopyPlan, count_references
from frazil.spark.copying.report import Copied

ChooseRunner = Callable[[bool], Runner]
"""Where to run what is small, or is not."""

_REFERENCES_PER_TASK = 1_000_000
_FILES_PER_TASK = 500
_MOST_CHUNKS_PER_TASK = 20_000


@dataclass(frozen=True, slots=True)
class Moved:
    """What became of a plan."""

    copied: Copied
    ran_on: str


def move_objects(choose: ChooseRunner, passage: Passage, plan: CopyPlan) -> Moved:
    """Copy what a plan names; again, if need be."""
    runner = choose(plan.is_small)
    lists: list[ChunkList] = []
    known: list[ChunkList] = []
    try:
        lists = _list_chunks(runner, passage, passage.source, plan.manifests)
        known = _list_chunks(runner, passage, passage.target, plan.replaced)
        size = sum(each.bytes for each in lists)
        runner = choose(plan.is_small and size <= LEAST_TASK_BYTES)
        copied = _copy_chunks(runner, CopyChunks(passage, tuple(lists), tuple(known)))
    finally:
        _forget(passage, [*lists, *known])
    copied += _copy_files(runner, passage, plan)
    _write_files(passage, plan)
    return Moved(copied, runner.name)


def _copy_chunks(runner: Runner, task: CopyChunks) -> Copied:
    slices = cut_slices(task.lists, _chunks_per_task(task.lists, count_slots(runner.spark)))
    size = sum(each.bytes for each in task.lists)
    runner.job.expect("copying chunks", chunks=sum(map(len, task.lists)), bytes=size)
    return sum(runner.run("copying chunks", task, slices), Copied())


def _list_chunks(
    runner: Runner, passage: Passage, assets: Assets, manifests: Sequence[ManifestFileInfo]
) -> list[ChunkList]:
    groups = pack(manifests, list(map(count_references, manifests)), _REFERENCES_PER_TASK)
    most = runner.returned_references // max(len(groups), 1)
    id_size = 16 if assets.dialect is Dialect.DRAFT else 12
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
    """Write the snapshots that the source has no file for."""
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
