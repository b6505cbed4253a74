"""Plan of a combination with the problems found by planning, and its execution in a session."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import Any, Protocol, Self

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.metadata import ArrayV3Metadata

from frazil.display import Block, Item, Table
from frazil.errors import InvalidInputError, NotFoundError
from frazil.virtual.source import Metadata, ReferenceColumns, Source, SourceHeader, concatenate
from frazil.virtual.source_formats import without_codec_warnings


class Severity(Enum):
    """Consequence of a problem."""

    STOPS = "stops"
    """Nothing can be written until it is solved."""
    REENCODES = "re-encodes"
    """The variable can't be virtual: its values must be re-encoded."""
    NOTES = "notes"
    """Informational, without consequence."""


class ProblemKind(StrEnum):
    """Kind of a problem."""

    # of a concatenation dimension
    NO_COORDINATE = "no coordinate"
    NOT_MONOTONIC = "not monotonic"
    DUPLICATE = "duplicate"
    OVERLAP = "overlap"
    GAP = "gap"
    # of any dimension
    DIMENSIONS = "dimensions"
    LENGTH = "length"
    COORDINATE = "coordinate"
    # of a variable
    MISSING = "missing"
    DATA_TYPE = "data type"
    CODECS = "codecs"
    CHUNKS = "chunks"
    FILL_VALUE = "fill value"
    ENCODING = "encoding"
    RAGGED = "ragged chunks"
    UNREACHABLE = "unreachable bytes"
    UNREADABLE = "unreadable"
    VALUES = "values"
    NOT_COMPARED = "not compared"
    SUPERSEDED = "superseded"
    ROUNDED = "rounded"

    @property
    def severity(self) -> Severity:
        """Return the severity of problems of this kind."""
        return _SEVERITIES.get(self, Severity.STOPS)


_SEVERITIES = {
    ProblemKind.GAP: Severity.NOTES,
    ProblemKind.MISSING: Severity.NOTES,
    ProblemKind.NOT_COMPARED: Severity.NOTES,
    ProblemKind.SUPERSEDED: Severity.NOTES,
    ProblemKind.ROUNDED: Severity.NOTES,
    ProblemKind.DATA_TYPE: Severity.REENCODES,
    ProblemKind.CODECS: Severity.REENCODES,
    ProblemKind.CHUNKS: Severity.REENCODES,
    ProblemKind.FILL_VALUE: Severity.REENCODES,
    ProblemKind.ENCODING: Severity.REENCODES,
    ProblemKind.RAGGED: Severity.REENCODES,
    ProblemKind.UNREACHABLE: Severity.REENCODES,
    ProblemKind.VALUES: Severity.REENCODES,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem with a variable or dimension, and the files concerned."""

    kind: ProblemKind
    subject: str
    """Variable or dimension."""
    text: str
    files: tuple[str, ...]
    occupants: tuple[str, ...] = ()
    """File that was ingested before, at exactly the place of the files."""

    @property
    def is_rivalry(self) -> bool:
        """Return whether each of the files could be placed without the others."""
        return self.kind in (ProblemKind.DUPLICATE, ProblemKind.OVERLAP) and len(self.files) > 1

    @property
    def severity(self) -> Severity:
        """Return the severity of the problem."""
        return self.kind.severity


_SHOWN_FILES = 3
_HEADINGS = ("what follows", "of", "kind", "what it is", "files")


@dataclass(frozen=True, slots=True)
class Report(Block):
    """Problems of a combination; prints as a table."""

    problems: tuple[Problem, ...] = ()

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def __len__(self) -> int:
        return len(self.problems)

    def of(self, *kinds: ProblemKind) -> tuple[Problem, ...]:
        """Return the problems of some kinds."""
        return tuple(each for each in self.problems if each.kind in kinds)

    def with_severity(self, severity: Severity) -> "Report":
        """Return the problems of one severity."""
        return Report(tuple(each for each in self.problems if each.severity is severity))

    def __str__(self) -> str:
        return str(self._table()) if self.problems else "no problems"

    def shown_items(self) -> Iterator[Item]:
        """Yield the problems."""
        yield Item("problems", self._table() if self.problems else "none")

    def _table(self) -> Table:
        return Table(_HEADINGS, tuple(map(_cells, self.problems)))


def _cells(problem: Problem) -> tuple[str, ...]:
    shown = ", ".join(problem.files[:_SHOWN_FILES])
    more = len(problem.files) - _SHOWN_FILES
    files = f"{shown} and {more} more" if more > 0 else shown
    return problem.severity.value, problem.subject, problem.kind.value, problem.text, files


NOT_PLACED = -1


class Treatment(Enum):
    """Storage of a variable in the repository."""

    VIRTUAL = "virtual"
    INLINE = "inline"
    """Values were loaded with the headers, and are written unchanged."""
    REENCODED = "must be re-encoded"


@dataclass(frozen=True, slots=True, eq=False)
class VariablePlan:
    """Plan of one variable of the combined group."""

    name: str
    treatment: Treatment
    metadata: Metadata
    """`zarr.json` of the combined array."""
    chunk_offsets: NDArray[np.int64]
    """Chunk offset of each source; NOT_PLACED if no chunk of the source can be referenced."""
    values: NDArray[Any] | None = field(default=None, repr=False)
    reasons: tuple[str, ...] = ()
    """Reasons for re-encoding."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive elements of a source that are consecutive in the combined array as well."""

    start: int
    """Position in the combined array."""
    length: int
    first: int = 0
    """Position in the source."""

    @property
    def stop(self) -> int:
        """Return the end in the combined array."""
        return self.start + self.length


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Concatenation dimension with the values of all sources, in order."""

    dim: str
    values: NDArray[Any]
    runs: tuple[tuple[Run, ...], ...]
    """Runs of each source; more than one if values of others lie between its own."""
    regions: NDArray[np.int64]
    """First position and end of each source."""
    moved: NDArray[np.int64]
    """New position of each element that was there before."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of its coordinate, which give the values a meaning."""

    @property
    def is_shifted(self) -> bool:
        """Return whether elements that were there before change their position."""
        return bool(np.any(self.moved != np.arange(len(self.moved))))


@dataclass(frozen=True, slots=True, eq=False)
class Plan(Block):
    """Plan that combines sources into one group."""

    sources: Mapping[str, int]
    """Row of each source in `chunk_offsets`, by name."""
    attributes: Mapping[str, Any]
    variables: Mapping[str, VariablePlan]
    report: Report
    axes: Mapping[str, Axis] = field(default_factory=dict)
    """Concatenation dimensions, with the place of each source."""

    @property
    def reencoded(self) -> tuple[VariablePlan, ...]:
        """Return the variables that can't be virtual."""
        return tuple(
            each for each in self.variables.values() if each.treatment is Treatment.REENCODED
        )

    def without(self, names: Collection[str]) -> Self:
        """Return the plan without some variables; raise NotFoundError for unknown names."""
        absent = set(names) - self.variables.keys()
        if absent:
            raise NotFoundError(f"there are no variables {sorted(absent)}")
        kept = {name: each for name, each in self.variables.items() if name not in names}
        problems = tuple(each for each in self.report if each.subject not in names)
        return replace(self, variables=kept, report=Report(problems))

    def columns_of(self, variable: str, source: Source) -> ReferenceColumns | None:
        """Return the references of a source, shifted to the combined array, or None if it has none."""
        offset = self.variables[variable].chunk_offsets[self._row_of(source.header)]
        if np.any(offset == NOT_PLACED):
            return None
        return source.references[variable].shift(offset)

    def refuse_problems(self) -> None:
        """Raise InvalidInputError if the plan can't be carried out."""
        found: list[Problem] = [
            *self.report.with_severity(Severity.STOPS),
            *(e for e in self.report.with_severity(Severity.REENCODES) if self._concerns(e)),
        ]
        if found:
            raise InvalidInputError(
                "the sources can't be combined as they are; without() leaves variables out that "
                f"must be re-encoded:\n{Report(tuple(found))}"
            )

    def _concerns(self, problem: Problem) -> bool:
        variable = self.variables.get(problem.subject)
        return variable is not None and variable.treatment is Treatment.REENCODED

    def _row_of(self, header: SourceHeader) -> int:
        if header.name not in self.sources:
            raise NotFoundError(f"{header.name} is none of the sources of the plan")
        return self.sources[header.name]

    def __str__(self) -> str:
        lines = [f"{len(self.sources)} sources"]
        for name, shape, treatment, reasons in self._rows():
            why = f": {reasons}" if reasons else ""
            lines.append(f"  {name} ({shape}) {treatment}{why}")
        return "\n".join([*lines, str(self.report)])

    def shown_items(self) -> Iterator[Item]:
        """Yield sources, variables and problems."""
        yield Item("sources", len(self.sources))
        yield Item("variables", Table(("name", "shape", "how", "why"), tuple(self._rows())))
        yield from self.report.shown_items()

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        for each in self.variables.values():
            shape = " × ".join(map(str, each.metadata["shape"])) or "scalar"
            yield each.name, shape, each.treatment.value, "; ".join(each.reasons)


_INLINE_CHUNK_ITEMS = 1 << 19
# Codecs that convert an array to bytes; those before and after are filters and compressors.
_SERIALIZERS = frozenset(("bytes", "vlen-utf8", "vlen-bytes"))
_COMPRESSOR = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}


def with_shape(metadata: Metadata, shape: Sequence[int]) -> dict[str, Any]:
    """Return the metadata of an array with another shape."""
    return {**metadata, "shape": list(shape)}


def for_values(
    metadata: Metadata, shape: Sequence[int], attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the metadata of an array whose values are rewritten: large chunks, one compressor."""
    kept = [each for each in metadata["codecs"] if each["name"] in _SERIALIZERS]
    return {
        **metadata,
        "shape": list(shape),
        "attributes": dict(attributes),
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": _large_chunks(shape)},
        },
        "codecs": [
            *(kept or [{"name": "bytes", "configuration": {"endian": "little"}}]),
            _COMPRESSOR,
        ],
    }


def _large_chunks(shape: Sequence[int]) -> list[int]:
    """Return chunks of limited size, split along the first axis."""
    if not shape:
        return []
    row_items = max(1, int(np.prod(shape[1:], dtype=np.int64)))
    rows = max(1, min(shape[0], _INLINE_CHUNK_ITEMS // row_items))
    return [rows, *(max(1, extent) for extent in shape[1:])]


class VirtualStore(Protocol):
    """Zarr store that accepts virtual references."""

    def set_virtual_columns(
        self,
        array_path: str,
        coordinates: Any,
        locations: Any,
        offsets: Any,
        lengths: Any,
        checksums: Any = None,
        *,
        validate_containers: bool = True,
    ) -> None: ...

    def set_sync(self, key: str, value: Buffer) -> None: ...


def write(
    plan: Plan,
    store: VirtualStore,
    sources: Iterable[Source],
    *,
    group: str = "",
    validate_containers: bool = True,
) -> None:
    """Write the group of a plan, with all its variables, to a writable session, without a commit.

    Parameters
    ----------
    plan
        Plan of `combine`.
    store
        Store of a writable session.
    sources
        Sources of the plan, with their references.
    group
        Group to create.
    validate_containers
        Require a container for each location.

    Raises
    ------
    InvalidInputError
        If the plan has blocking problems or a variable that must be re-encoded, or if a source of the
        plan is not given.
    """
    given = {each.header.name: each for each in sources}
    absent = plan.sources.keys() - given.keys()
    if absent:
        raise InvalidInputError(f"sources of the plan are not given: {', '.join(sorted(absent))}")
    path = group.strip("/")
    create(plan, store, group=path)
    for variable in plan.variables.values():
        if variable.treatment is not Treatment.VIRTUAL:
            continue
        placed = [plan.columns_of(variable.name, given[name]) for name in plan.sources]
        set_references(
            store,
            join(path, variable.name),
            concatenate([each for each in placed if each is not None]),
            validate_containers=validate_containers,
        )


def create(plan: Plan, store: VirtualStore, *, group: str = "") -> None:
    """Create the group and its arrays, with the values that were loaded.

    Raises InvalidInputError if the plan has blocking problems or a variable that must be re-encoded.
    """
    plan.refuse_problems()
    path = group.strip("/")
    with without_codec_warnings():
        create_group(store, path, plan.attributes)
        for variable in plan.variables.values():
            array = create_array(store, join(path, variable.name), variable.metadata)
            if variable.treatment is Treatment.INLINE and variable.values is not None:
                array[...] = variable.values


def create_group(store: VirtualStore, path: str, attributes: Mapping[str, Any]) -> None:
    """Create a group, or add attributes to an existing one."""
    made = zarr.open_group(as_zarr(store), path=path, mode="a", zarr_format=3)
    made.update_attributes(dict(attributes))


def create_array(store: VirtualStore, path: str, metadata: Mapping[str, Any]) -> zarr.Array[Any]:
    """Create an array from its metadata; raise ContainsArrayError if it exists."""
    node = ArrayV3Metadata.from_dict(dict(metadata))
    for _, made in zarr.create_hierarchy(store=as_zarr(store), nodes={path: node}):
        if isinstance(made, zarr.Array):
            return made
    raise InvalidInputError(f"no array was made at {path!r}")


def set_references(
    store: VirtualStore, path: str, columns: ReferenceColumns, *, validate_containers: bool = True
) -> None:
    """Set the chunks of an array: virtual references in columns, inline chunks as bytes."""
    for part, checksums in columns.by_checksum_kind():
        store.set_virtual_columns(
            path,
            part.coordinates,
            (part.location_codes, part.locations),
            part.offsets,
            part.lengths,
            checksums,
            validate_containers=validate_containers,
        )
    make_buffer = default_buffer_prototype().buffer.from_bytes
    for place, data in zip(columns.inline_coordinates.tolist(), columns.inline_chunks, strict=True):
        key = "/".join(["c", *map(str, place)])
        store.set_sync(join(path, key), make_buffer(data))


def join(group: str, name: str) -> str:
    """Return the path of a member of a group."""
    return f"{group}/{name}" if group else name


def as_zarr(store: object) -> Any:
    """Return the store, typed for functions of Zarr and Xarray."""
    return store
