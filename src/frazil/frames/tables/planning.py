"""Which manifests a task reads, planned by how many references they have."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from frazil.engine.lookup import manifests_of
from frazil.errors import InvalidInputError
from frazil.format.chunks import ChunkTable
from frazil.format.ids import ManifestId
from frazil.format.snapshot import Node
from frazil.frames.source import Source
from frazil.session import Session

DEFAULT_REFERENCES = 1_000_000
"""Of a task."""
_ASSUMED = 10_000
"""References of a manifest, where the generation does not record how many."""
_COST = 1_000
"""Of a file, in references, besides those that it has: a request takes its time."""
_READ_AHEAD = 4
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the references of a manifest, of some arrays of a version."""

    manifest_id: ManifestId
    paths: tuple[str, ...]
    """Of the arrays."""
    part: int = 0
    parts: int = 1


def plan_pieces(session: Session, most: int = DEFAULT_REFERENCES) -> list[list[Piece]]:
    """All references of a version, by task; manifests with more than a task reads are cut."""
    snapshot = session.state.view.snapshot
    arrays = [node for node in snapshot.nodes.values() if node.array is not None]
    paths: dict[ManifestId, dict[str, None]] = {}
    for node in sorted(arrays, key=lambda node: node.path):
        for id in manifest_ids(session, node):
            paths.setdefault(id, {})[node.path] = None
    counts = count_references(session)
    pieces: list[tuple[Piece, int]] = []
    for id, own in paths.items():
        parts = max(-(-counts[id] // most), 1)
        weight = counts[id] // parts + _COST
        pieces += [(Piece(id, tuple(own), part, parts), weight) for part in range(parts)]
    return list(pack(pieces, most))


def plan_arrays(session: Session, most: int = DEFAULT_REFERENCES) -> list[list[str]]:
    """The paths of all arrays of a version, by task; the references of an array are not cut."""
    counts = count_references(session)
    nodes = [node for node in session.state.view.nodes() if node.array is not None]
    weights = [sum(counts[id] + _COST for id in manifest_ids(session, node)) for node in nodes]
    return list(pack([(n.path, w) for n, w in zip(nodes, weights, strict=True)], most))


def pack(weighed: Sequence[tuple[T, int]], most: int) -> Iterator[list[T]]:
    """Things in their order, together as long as they weigh no more; each weighs one at least."""
    group: list[T] = []
    weight = 0
    for thing, own in weighed:
        if group and weight + own > most:
            yield group
            group, weight = [], 0
        group.append(thing)
        weight += max(own, 1)
    if group:
        yield group


def count_references(session: Session) -> Mapping[ManifestId, int]:
    """Of each manifest of a version, about, where it is not recorded."""
    files = session.state.view.snapshot.used_manifests()
    return {
        file.id: _ASSUMED if file.num_chunk_refs is None else file.num_chunk_refs for file in files
    }


def manifest_ids(session: Session, node: Node) -> list[ManifestId]:
    """The manifests that can have chunks of an array."""
    assert node.array is not None
    return [ref.id for ref in manifests_of(node.array, session.state.assets.dialect)]


def read_table(session: Session, id: ManifestId, node: Node) -> ChunkTable:
    """The references of an array in a manifest, inside of its grid."""
    assert node.array is not None
    grid = tuple((0, each.num_chunks) for each in node.array.shape)
    table = session.state.assets.read_manifest(id).table(node.id, len(grid))
    return table.select(grid) if len(table) else table


def read_tables(session: Session, node: Node) -> Iterator[ChunkTable]:
    """The references of an array, a manifest at a time; the next ones are read meanwhile."""
    return read_ahead(manifest_ids(session, node), lambda id: read_table(session, id, node))


def read_ahead(items: Iterable[T], read: Callable[[T], R]) -> Iterator[R]:
    """What is read of each, in their order; some are read before they are asked for."""
    with ThreadPoolExecutor(_READ_AHEAD) as pool:
        waiting: deque[Future[R]] = deque()
        for item in items:
            waiting.append(pool.submit(read, item))
            if len(waiting) >= _READ_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def references_of_a_task(source: Source) -> int:
    """As the option `references` says."""
    given = source.options.more.get("references", str(DEFAULT_REFERENCES))
    if not given.isdecimal() or int(given) < 1:
        raise InvalidInputError(f"invalid references {given!r}: give a number of one or more")
    return int(given)
