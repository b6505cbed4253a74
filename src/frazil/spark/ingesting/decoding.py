"""Native variables of an ingest: which there are in the repository, and tasks that write them."""

from collections.abc import Iterable, Sequence

from frazil.engine.state import SessionState
from frazil.format.references import ChunkKind
from frazil.session import Session
from frazil.spark.arrays.one_commit import count_written, write_regions
from frazil.spark.arrays.runner import Runner, count_slots
from frazil.spark.ingesting.native import Written, plan_tasks
from frazil.spark.ingesting.native_writing import WritePieces
from frazil.spark.ingesting.parsing import Reading
from frazil.spark.ingesting.planning import IngestPlan
from frazil.spark.ingesting.values import SourceToRead
from frazil.virtual import SourceHeader
from frazil.virtual.writing import join


def find_native(state: SessionState, group: str, names: Iterable[str]) -> frozenset[str]:
    """The arrays of a group whose chunks are the repository's own, as the first of them tell."""
    return frozenset(name for name in names if _is_native(state, f"/{join(group, name)}"))


def _is_native(state: SessionState, path: str) -> bool:
    node, _ = state.view.get_array(path)
    for table in state.view.tables(node):
        if len(table):
            return not bool((table.kind == ChunkKind.VIRTUAL).any())
    return False


def write_natives(
    runner: Runner,
    session: Session,
    found: IngestPlan,
    headers: Sequence[SourceHeader],
    reading: Reading,
    group: str,
) -> dict[str, Written]:
    """Decode and write the native variables of a plan."""
    tasks = plan_tasks(list(found.natives.values()), count_slots(runner.spark))
    if not tasks:
        return {}
    used = {each.source for array in found.natives.values() for each in array.parts}
    sources = {each.name: SourceToRead.of(each) for each in headers if each.name in used}
    write_pieces = WritePieces(group, sources, reading)
    write_regions(runner, session, write_pieces, [[each] for each in tasks], "writing values")
    return {name: _measure(session.state, f"/{join(group, name)}") for name in found.natives}


def _measure(state: SessionState, path: str) -> Written:
    node, _ = state.view.get_array(path)
    return Written(*count_written(state.changes, node.id))
