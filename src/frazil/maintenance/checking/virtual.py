"""Virtual references: whether a container holds them, and whether their sources are what they were."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from frazil.errors import InvalidInputError, ObjectNotFoundError, ObjectRangeError, StorageError
from frazil.format.chunks import ChunkTable
from frazil.format.dialect import Dialect
from frazil.format.references import Checksum, ChunkKind, VirtualRef
from frazil.maintenance.checking.chunks import Place
from frazil.maintenance.checking.pacing import Pace
from frazil.maintenance.checking.problems import Problem, Problems, Severity, error, few, note
from frazil.virtual.access import VirtualChunkAccess
from frazil.virtual.locations import ContainerIndex

_NO_CONTAINER = "no-container-for-virtual-chunk"


@dataclass(frozen=True, slots=True)
class Source:
    """A file outside of the repository, as references want it to be."""

    location: str
    checksum: Checksum | None


@dataclass(frozen=True, slots=True)
class Need:
    """How many bytes of a source are needed, and which chunk needs the last."""

    end: int
    key: str
    path: str
    coordinate: tuple[int, ...]


Sources = Mapping[Source, Need]


def check_locations(
    table: ChunkTable, place: Place, containers: ContainerIndex | None, dialect: Dialect
) -> Problems:
    """Every location can be understood and belongs to a container of the configuration."""
    if containers is None:
        return
    used = np.unique(table.location[table.kind == ChunkKind.VIRTUAL]).tolist()
    unheld, wrong = find_bad_locations((table.locations[each] for each in used), containers)
    problems = (error(place.key, what, path=place.path) for what in wrong)
    whole = error(place.key, "locations of virtual chunks are none", path=place.path)
    yield from few(problems, len(wrong), whole)
    if unheld:
        # Who opens the repository may bring containers along; V2 has a place for all of them.
        severity = Severity.WARNING if dialect is Dialect.V2 else Severity.NOTE
        what = f"no container of the configuration holds {len(unheld)} locations, as {unheld[0]!r}"
        yield Problem(severity, place.key, what, path=place.path)


def find_bad_locations(
    locations: Iterable[str], containers: ContainerIndex
) -> tuple[list[str], list[str]]:
    """The locations that are in no container, and what is wrong with those that are none."""
    unheld, wrong = list[str](), list[str]()
    for location in locations:
        try:
            containers.locate(location)
        except InvalidInputError as failure:
            if failure.kind == _NO_CONTAINER:
                unheld.append(location)
            else:
                wrong.append(failure.message)
    return unheld, wrong


def collect_sources(tables: Iterable[tuple[ChunkTable, Place]]) -> dict[Source, Need]:
    """The distinct sources of virtual chunks, and how much of each is needed."""
    found: dict[Source, Need] = {}
    for table, place in tables:
        for row in _last_rows(table):
            ref = table.ref(row)
            assert isinstance(ref, VirtualRef)
            coordinate = tuple(table.coordinates[row].tolist())
            need = Need(ref.offset + ref.length, place.key, place.path, coordinate)
            add_need(found, Source(ref.location, ref.checksum), need)
    return found


def add_need(found: dict[Source, Need], source: Source, need: Need) -> None:
    """Remember the chunk that needs the most of a source."""
    known = found.get(source)
    if known is None or known.end < need.end:
        found[source] = need


def _last_rows(table: ChunkTable) -> list[int]:
    """For each distinct source the row that reaches furthest into it."""
    rows = np.flatnonzero(table.kind == ChunkKind.VIRTUAL)
    if not rows.size:
        return []
    columns = (table.location[rows], table.etag[rows], table.last_modified[rows].astype(np.int64))
    ends = table.offset[rows] + table.length[rows]
    order = np.lexsort((ends, *columns))
    keys = np.stack([column[order] for column in columns])
    is_last = np.append(np.any(keys[:, 1:] != keys[:, :-1], axis=0), True)
    last: list[int] = rows[order[is_last]].tolist()
    return last


@dataclass(frozen=True, slots=True)
class AskSources:
    """Asks for the files that virtual chunks are in, so often a second."""

    access: VirtualChunkAccess
    per_second: float | None

    def __call__(
        self, pool: ThreadPoolExecutor, wanted: Sequence[tuple[Source, Need]]
    ) -> list[Problem]:
        """What is wrong with them, each told once."""
        pace = Pace(self.per_second)

        def ask(source: Source, need: Need) -> Problem | None:
            pace.wait()
            return check_source(self.access, source, need)

        answers = pool.map(lambda each: ask(*each), wanted)
        return list(dict.fromkeys(answer for answer in answers if answer is not None))


def check_source(access: VirtualChunkAccess, source: Source, need: Need) -> Problem | None:
    """Ask a source for the last byte that is needed of it, which tells all that matters."""
    ref = VirtualRef(source.location, max(0, need.end - 1), min(1, need.end), source.checksum)
    try:
        access.read(ref, 0, ref.length)
    except ObjectNotFoundError:
        what = "the file that virtual chunks are in is gone"
    except ObjectRangeError:
        what = f"the file is too short: {need.end} bytes of it are needed"
    except StorageError as failure:
        what = failure.message
    except InvalidInputError as failure:
        if failure.kind == _NO_CONTAINER:
            return None  # told for the manifest
        return note(need.key, f"its virtual chunks were not looked at: {failure.message}")
    else:
        return None
    return error(source.location, what, path=need.path, coordinate=need.coordinate)
