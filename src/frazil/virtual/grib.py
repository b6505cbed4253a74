"""Read GRIB files, with NOAA's `.idx` and ECMWF's `.index` beside them or without.

One rule leads from messages to arrays, with a reference to each message. The name of an array depends
only on the metadata of its messages, so that all files of an archive have the same names;
`docs/virtual.md` states the rule.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import product as multiply
from pathlib import Path
from typing import Any

import numpy as np
import obstore
from numpy.typing import NDArray
from obstore.store import LocalStore

from frazil.errors import InvalidInputError, ObjectNotFoundError, PermissionDeniedError
from frazil.virtual import grib_messages as messages
from frazil.virtual.grib_messages import (
    DamagedError,
    Field,
    FieldHeader,
    Grid,
    GridKey,
    IndexEntry,
    StaleIndexError,
    Window,
    parse_date,
    parse_index,
    parse_level,
    parse_others,
    parse_step,
    place_noaa,
    read_message,
    seconds_of,
)
from frazil.virtual.source import ArrayHeader, ReferenceColumns, no_references
from frazil.virtual.source_formats import (
    FoundGroup,
    Loading,
    SourceStores,
    escape_url,
    reading,
)

_UNIFORM = frozenset((0, 2, 3))
"""Templates that are readable whatever their number of bits."""


def read_by_index(entries: Sequence[IndexEntry], window: Window) -> list[Field]:
    """Return the fields of an index; raise StaleIndexError if it does not fit to the file.

    One header is read per kind of field, if it is where its line says, and the last one; of other
    kinds, and where packing may vary, all headers.
    """
    kinds: dict[tuple[str, ...], list[int]] = {}
    for row, entry in enumerate(entries):
        kinds.setdefault((str(entry.number), *entry.kind), []).append(row)
    last = max(range(len(entries)), key=lambda row: entries[row].offset)
    headers = _read_headers(entries, {last, *(rows[0] for rows in kinds.values())}, window)
    found = {row: Field.of(header) for row, header in headers.items()}
    moved: dict[int, Field] = {}
    for rows in kinds.values():
        first = found[rows[0]]
        if _move(first, entries[rows[0]]) == first:
            places = {row: _move(first, entries[row]) for row in rows if row not in found}
            moved.update({row: each for row, each in places.items() if each is not None})
    found.update({r: each for r, each in moved.items() if each.header.packing in _UNIFORM})
    unread = [row for row in range(len(entries)) if row not in found]
    for row, header in _read_headers(entries, unread, window).items():
        found[row] = replace(moved[row], header=header) if row in moved else Field.of(header)
    return [found[row] for row in range(len(entries))]


def _read_headers(
    entries: Sequence[IndexEntry] | Mapping[int, IndexEntry], rows: Iterable[int], window: Window
) -> dict[int, FieldHeader]:
    wanted = sorted(rows)
    window.fetch(dict.fromkeys(entries[row].offset for row in wanted))
    found = {}
    for row in wanted:
        entry = entries[row]
        window.choose(entry.offset)
        try:
            fields = read_message(window, entry.offset, entry.number + 1)
        except DamagedError as error:
            raise StaleIndexError(str(error)) from error
        if fields[0].length > entry.length or entry.number >= len(fields):
            raise StaleIndexError(f"it has other messages than the file at byte {entry.offset}")
        found[row] = fields[entry.number]
    return found


def _move(known: Field, entry: IndexEntry) -> Field | None:
    """Return the field of an entry by another field of its kind, or None if that says too little."""
    product, cell = known.product, entry.cell
    if cell is None:
        return None
    start = cell.start
    if start is None:
        start = cell.end if product.step_type == "instant" else product.start
        if product.step_type != "instant" and start != 0:
            return None
    header = known.header
    if entry.offset != header.offset:
        header = replace(header, offset=entry.offset, length=entry.length)
    moved = replace(
        product,
        start=start,
        end=cell.end,
        level=product.level if cell.level is None else cell.level,
        member=product.member if cell.member is None else cell.member,
    )
    return Field(header, moved, cell.time)


# Parameters of the air, which are plain on pressure levels and have a suffix at the surface.
_OF_THE_AIR = frozenset(
    (
        "t", "u", "v", "w", "wz", "q", "r", "z", "gh", "d", "vo", "pv", "pt", "pres", "absv", "strf",
        "vp", "clwc", "ciwc", "crwc", "cswc", "cc", "o3", "tke",
    )
)  # fmt: skip
_PLAIN_LEVELS = ("surface", "meanSea")
_PRESSURE = "isobaricInhPa"
# Short names that say their level: 2t, 10u, swvl1.
_NAMED_LEVEL = re.compile(r"\d+[a-z]\w*|(swvl|stl|istl|mx2t|mn2t|max_2t|min_2t|i10fg)\d*")
# Short names that say how they are accumulated.
_NAMED_STATISTIC = re.compile(
    r"(?P<accum>tp|cp|lsp|sf|csf|lsf|ssrd?c?|strd?c?|tsrc?|ttrc?|sshf|slhf|ewss|nsss|e|pev|s?s?ro"
    r"|acpcp|ncpcp|fdir|cdir|uvb|es|smlt|tisr|sund)"
    r"|(?P<max>mx\w+|max\w+|tmax|\d*i?10fg\d*)|(?P<min>mn\w+|min\w+|tmin)"
)
_LONGER = "_since_start"
_CODEC = {"name": "gribberish", "configuration": {"var": "values"}}
_MOST_LOADED_BYTES = 1 << 20
_BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
_KEYS = {"name": "default", "configuration": {"separator": "/"}}

Box = Sequence[tuple[int, int]]
ReadMessage = Callable[[Field], bytes]
"""Function that returns the whole message of a field."""


Cells = dict[tuple[float, ...], Field]


@dataclass(slots=True)
class Variable:
    """Array of a file: its fields by place."""

    name: str
    grid: Grid
    level_type: str
    dims: tuple[str, ...]
    """Dimensions before those of the grid."""
    fields: Cells = field(default_factory=dict)
    """Fields by coordinates along the dimensions."""
    conflict: str | None = None
    """Reason why the messages contradict each other, or None."""

    @property
    def kinds(self) -> Sequence[Field]:
        """Fields among which is one of each kind; the first describes the array."""
        return tuple(self.fields.values())

    def columns(self) -> tuple[NDArray[np.float64], NDArray[np.uint64], NDArray[np.uint64]]:
        """Return coordinates along the dimensions, offset and length of each message."""
        headers = [each.header for each in self.fields.values()]
        return (
            np.array(list(self.fields), np.float64).reshape(len(headers), len(self.dims)),
            np.array([each.offset for each in headers], np.uint64),
            np.array([each.length for each in headers], np.uint64),
        )

    def find(self, cell: tuple[float, ...]) -> Field | None:
        """Return the field at a place, or None."""
        return self.fields.get(cell)


@dataclass(slots=True)
class IndexedVariable(Variable):
    """Array whose fields are columns of an index; they are made one by one if they are needed."""

    described: tuple[Field, ...] = ()
    cells: NDArray[np.float64] = field(kw_only=True)
    offsets: NDArray[np.uint64] = field(kw_only=True)
    lengths: NDArray[np.uint64] = field(kw_only=True)
    make: Callable[[], Mapping[str, Variable]] = field(kw_only=True)

    @property
    def kinds(self) -> Sequence[Field]:
        """Fields among which is one of each kind; the first describes the array."""
        return self.described

    def columns(self) -> tuple[NDArray[np.float64], NDArray[np.uint64], NDArray[np.uint64]]:
        """Return coordinates along the dimensions, offset and length of each message."""
        return self.cells, self.offsets, self.lengths

    def find(self, cell: tuple[float, ...]) -> Field | None:
        """Return the field at a place, or None."""
        if not self.fields:
            self.fields = self.make()[self.name].fields
        return self.fields.get(cell)


_LEAST_MESSAGES = 100
"""Messages of a file from which columns are worth it."""


def arrange_index(
    text: str, window: Window, make: Callable[[], Mapping[str, Variable]]
) -> dict[str, Variable] | None:
    """Return the arrays of a NOAA index by columns; `make` returns them with their fields.

    None where lines and one header per kind may not be enough: several grids, or fields of a message,
    or two fields for one place, packings that vary, lines that can't be interpreted.
    """
    lines = [stripped for line in text.splitlines() if (stripped := line.strip())]
    count = lines[0].count(":") + 1 if lines else 0
    if len(lines) < _LEAST_MESSAGES or count < 7 or any(e.count(":") + 1 != count for e in lines):
        return None
    words = ":".join(lines).split(":")
    _, places, dates, names, levels, steps, *others = (words[at::count] for at in range(count))
    starts = np.fromiter(map(int, places), np.int64, len(lines))
    lengths = np.diff(starts, append=window.size_bytes)
    date_of, moments = _parse_distinct(dates, parse_date)
    step_of, intervals = _parse_distinct(steps, parse_step)
    level_of, layers = _parse_distinct(levels, parse_level)
    rest_of, members = _parse_distinct(list(zip(*others, strict=True)), parse_others)
    if (lengths <= 0).any() or None in moments or None in intervals:
        return None
    parts = [
        _parse_distinct(names, str)[0],
        _parse_distinct([each[1] for each in layers], str)[0][level_of],
        _parse_distinct([each[2] for each in intervals], str)[0][step_of],
        _parse_distinct([each[1] for each in members], str)[0][rest_of],
    ]
    kinds = np.ravel_multi_index(parts, [int(each.max()) + 1 for each in parts])
    _, firsts, kind_of = np.unique(kinds, return_index=True, return_inverse=True)
    if len(firsts) * 4 > len(lines):
        return None
    last, chosen = len(lines) - 1, firsts.tolist()
    entries = {
        row: IndexEntry(
            int(starts[row]), int(lengths[row]), 0, *place_noaa(lines[row].split(":")[2:])
        )
        for row in {last, *chosen}
    }
    headers = _read_headers(entries, entries, window)
    fields = {row: Field.of(header) for row, header in headers.items()}
    owner = fields[chosen[int(kind_of[last])]]
    if not all(_is_plain(fields[row], entries[row], owner) for row in entries):
        return None
    moved = _move(owner, entries[last])
    if moved is None or replace(moved, header=headers[last]) != fields[last]:
        return None
    for row, header in headers.items():
        lengths[row] = header.length
    spans = np.array([end - start for start, end, _ in intervals])[step_of]
    said = {
        "time": np.array([seconds_of(each) for each in moments], float)[date_of],
        "step": np.array([end for _, end, _ in intervals], float)[step_of],
        "number": np.array([each[0] for each in members], float)[rest_of],
        "": np.array([each[0] for each in layers], float)[level_of],
    }
    grid = messages.read_grid(GridKey.of(owner.header))
    by_name: dict[str, list[int]] = {}
    for number, row in enumerate(chosen):
        by_name.setdefault(name_field(fields[row]), []).append(number)
    found: dict[str, Variable] = {}
    for name, own in sorted(by_name.items()):
        where = np.flatnonzero(np.isin(kind_of, own))
        where = where[np.argsort(spans[where], kind="stable")]
        order = list(dict.fromkeys(kind_of[where].tolist()))
        described = tuple(fields[chosen[each]] for each in order)
        defaults = [_place(each) for each in described]
        layouts = {(each.product.level_type, *_place(each)) for each in described}
        if len(layouts) > 1:
            return None
        ((level_type, *dims),) = layouts
        cells = np.empty((len(where), len(dims)))
        for axis, dim in enumerate(dims):
            column = said["" if dim == level_type else dim][where] if (
                dim == level_type or dim in said) else np.full(len(where), np.nan)  # fmt: skip
            own_values = np.empty(len(chosen))
            own_values[order] = [each[dim] for each in defaults]
            cells[:, axis] = np.where(np.isnan(column), own_values[kind_of[where]], column)
        if _has_repeated(cells):
            return None
        found[name] = IndexedVariable(
            name, grid, level_type, tuple(dims), described=described, cells=cells, make=make,
            offsets=starts[where].astype(np.uint64), lengths=lengths[where].astype(np.uint64),
        )  # fmt: skip
    return found


def _is_plain(found: Field, entry: IndexEntry, other: Field) -> bool:
    """Return whether a field is where its line says, on the grid of another, and readable."""
    header = found.header
    return (
        header.is_readable
        and header.packing in _UNIFORM
        and header.grid_section == other.header.grid_section
        and _move(found, entry) == found
    )


def _parse_distinct(
    words: Sequence[Any], parse: Callable[[Any], Any]
) -> tuple[NDArray[np.int64], list[Any]]:
    """Return the code of each word, and what distinct words are parsed to, by code."""
    codes = {word: code for code, word in enumerate(dict.fromkeys(words))}
    found = np.fromiter(map(codes.__getitem__, words), np.int64, len(words))
    return found, [parse(each) for each in codes]


def _has_repeated(cells: NDArray[np.float64]) -> bool:
    keys = np.zeros(len(cells), np.int64)
    for column in cells.T:
        values, codes = np.unique(column, return_inverse=True)
        keys = np.unique(keys * len(values) + codes, return_inverse=True)[1]
    return int(keys.max()) + 1 < len(cells)


_ALIASES = {
    "init_time": "time", "reference_time": "time", "lead_time": "step", "member": "number",
    "ensemble_member": "number", "realization": "number",
}  # fmt: skip


def find_aliases(dims: Iterable[str]) -> dict[str, str]:
    """Return the names that a user has for dimensions of GRIB files, by the names of this module."""
    return {_ALIASES[dim]: dim for dim in dims if dim in _ALIASES}


def name_field(found: Field) -> str:
    """Return the name of a field's array, from its own metadata alone."""
    product = found.product
    name, short = product.parameter.name, product.parameter.short_name
    parts = [name]
    is_plain = product.level_type == _PRESSURE or (
        product.level_type in _PLAIN_LEVELS and short not in _OF_THE_AIR
    )
    if not is_plain and not _NAMED_LEVEL.fullmatch(short):
        parts.append(product.level_type)
    said = _NAMED_STATISTIC.fullmatch(short)
    is_said = said is not None and said.lastgroup == product.step_type
    is_said = is_said or short.startswith(f"{product.step_type}_")  # avg_t
    # Step 0 of a sum and sums of old editions come as instants.
    if product.step_type != "instant" and not is_said:
        parts.append(product.step_type)
    if product.kind:
        parts.append(product.kind)
    return "_".join(parts)


def _place(found: Field) -> dict[str, float]:
    """Return the coordinates of a field by dimension, in the order of the dimensions."""
    product = found.product
    places: dict[str, float] = {"time": seconds_of(found.time), "step": product.end}
    if product.member is not None:
        places["number"] = product.member
    places.update(product.extra)
    if product.level is not None and not _NAMED_LEVEL.fullmatch(product.parameter.short_name):
        places[product.level_type] = product.level
    return places


def arrange_fields(fields: Sequence[Field], read: ReadMessage) -> dict[str, Variable]:
    """Return the arrays of fields by name.

    Fields of one name on several grids, on several types of level, or with several intervals that
    end at once become several arrays.
    """
    sections: dict[bytes, int] = {}
    grids: list[Grid] = []
    for each in fields:
        number = sections.setdefault(each.header.grid_section, len(sections))
        if number == len(grids):
            grids.append(_on_grid(messages.read_grid(GridKey.of(each.header)), number))
    found: dict[str, Variable] = {}
    for each in sorted(fields, key=_rank):
        number = sections[each.header.grid_section]
        _put(found, each, grids[number], number, read)
    return dict(sorted(found.items()))


def _rank(each: Field) -> tuple[bool, bool, int]:
    """Return the order in which fields get the plain name."""
    kind, product = each.product.level_type, each.product
    # Of intervals that end at once, the shortest is first.
    return kind != _PRESSURE, kind != _PLAIN_LEVELS[0], product.end - product.start


def _on_grid(grid: Grid, number: int) -> Grid:
    if number == 0:
        return grid
    return replace(grid, dims=tuple(f"{dim}_grid{number + 1}" for dim in grid.dims))


def _put(
    found: dict[str, Variable], each: Field, grid: Grid, number: int, read: ReadMessage
) -> None:
    """Put a field into the first array that has a place for it."""
    product, places = each.product, _place(each)
    dims, cell = tuple(places), tuple(places.values())
    on_grid = f"_grid{number + 1}" if number else ""
    plain = name_field(each)
    endings = ("", _LONGER) if product.start == 0 < product.end else ("",)
    taken: list[Field] = []
    for name in (plain, f"{plain}_{product.level_type}"):
        for ending in endings:
            whole = f"{name}{ending}{on_grid}"
            variable = found.setdefault(whole, Variable(whole, grid, product.level_type, dims))
            if (variable.level_type, variable.dims) != (product.level_type, dims):
                break
            if cell not in variable.fields:
                variable.fields[cell] = each
                return
            taken.append(variable.fields[cell])
        if taken:
            break
    if not any(other.product == product and read(other) == read(each) for other in taken):
        variable.conflict = (
            f"its message at byte {each.header.offset} has a place that another message has taken"
        )


@dataclass(slots=True)
class GribFile:
    """GRIB file: its arrays, their coordinates, and their values."""

    url: str
    variables: Mapping[str, Variable]
    read: ReadMessage
    attributes: Mapping[str, Any]
    coordinates: dict[str, NDArray[Any]] = field(init=False)
    """Values of each dimension."""

    def __post_init__(self) -> None:
        values: dict[str, set[float]] = {}
        for each in self.variables.values():
            cells, _, _ = each.columns()
            for axis, dim in enumerate(each.dims):
                values.setdefault(dim, set()).update(np.unique(cells[:, axis]).tolist())
        self.coordinates = {
            # As usual, pressure levels begin at the ground.
            dim: np.array(sorted(found, reverse=dim == _PRESSURE), _dtype_of(dim))
            for dim, found in values.items()
        }

    def describe(self, loading: Loading) -> FoundGroup:
        """Return headers and references of all arrays."""
        arrays = {
            dim: _describe_values(dim, (dim,), values, _attributes_of(dim))
            for dim, values in self.coordinates.items()
        }
        references: dict[str, ReferenceColumns] = {dim: no_references(1) for dim in arrays}
        for name, (dims, values) in self._find_points().items():
            header = _describe_values(name, dims, values, _attributes_of(name))
            if values.nbytes > _MOST_LOADED_BYTES and name not in loading.names:
                why = f"it is computed from the grid; load=[{name!r}] keeps its values with the header"
                header = replace(header, values=None, obstacle=why)
            arrays[name], references[name] = header, no_references(len(dims))
        has_codec = find_spec("gribberish") is not None
        for name, each in self.variables.items():
            obstacle = each.conflict or _find_obstacle(each, has_codec)
            metadata = self._describe(each)
            if each.conflict:
                # Without codecs an array can't be read, and the file is left out or refused.
                metadata = {n: e for n, e in metadata.items() if n not in ("codecs", "data_type")}
            arrays[name] = ArrayHeader(name, metadata, None, obstacle)
            axes = len(each.dims) + len(each.grid.dims)
            references[name] = no_references(axes) if obstacle else self._refer(each)
        return FoundGroup(self.attributes, arrays, references, ())

    def count_axes(self, name: str) -> int:
        """Return the number of axes of an array."""
        if name in self.coordinates:
            return int(self.coordinates[name].ndim)
        points = self._find_points()
        if name in points:
            return int(points[name][1].ndim)
        variable = self.variables[name]
        return len(variable.dims) + len(variable.grid.dims)

    def read_box(self, name: str, box: Box) -> NDArray[Any]:
        """Return a box of an array, decoded with eccodes; NaN where there is no message."""
        inside = tuple(slice(*each) for each in box)
        if name in self.coordinates:
            return self.coordinates[name][inside]
        points = self._find_points()
        if name in points:
            return points[name][1][inside]
        variable = self.variables[name]
        if variable.conflict is not None:
            raise InvalidInputError(f"{name} of {escape_url(self.url)}: {variable.conflict}")
        outer = len(variable.dims)
        found = np.full([stop - start for start, stop in box], np.nan)
        axes = [self.coordinates[dim].tolist() for dim in variable.dims]
        for place in multiply(*(range(*each) for each in box[:outer])):
            cell = tuple(axis[at] for axis, at in zip(axes, place, strict=True))
            each = variable.find(cell)
            if each is not None:
                at = tuple(p - start for p, (start, _) in zip(place, box[:outer], strict=True))
                found[at] = self._decode(variable, each)[inside[outer:]]
        return found

    def _decode(self, variable: Variable, each: Field) -> NDArray[np.float64]:
        try:
            values = messages.decode(self.read(each), each.header.number)
            if values.size != variable.grid.size:
                raise DamagedError(f"it has {values.size} values for {variable.grid.size} points")
        except DamagedError as error:
            where = f"{escape_url(self.url)}, message at byte {each.header.offset}"
            raise InvalidInputError(f"{where}: {error}") from error
        return messages.arrange(values, variable.grid)

    def _find_points(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """Return dimensions and values of latitudes and longitudes, by name."""
        found = {}
        for each in self.variables.values():
            grid = each.grid
            # The suffix of further grids.
            ending = grid.dims[0].partition("_")[1] + grid.dims[0].partition("_")[2]
            for name, values in (("latitude", grid.latitude), ("longitude", grid.longitude)):
                if values is not None:
                    whole = name + ending
                    found[whole] = ((whole,) if grid.is_regular else grid.dims, values)
        return found

    def _describe(self, variable: Variable) -> dict[str, Any]:
        shape = (*(len(self.coordinates[dim]) for dim in variable.dims), *variable.grid.shape)
        first = variable.kinds[0]
        attributes = _describe_product(first, variable)
        if not variable.grid.is_regular and variable.grid.latitude is not None:
            ending = variable.grid.dims[0].partition("_")[1:]
            attributes["coordinates"] = f"latitude{''.join(ending)} longitude{''.join(ending)}"
        chunks = (*(1 for _ in variable.dims), *variable.grid.shape)
        dims = (*variable.dims, *variable.grid.dims)
        return _metadata(shape, chunks, "float64", "NaN", _CODEC, attributes, dims)

    def _refer(self, variable: Variable) -> ReferenceColumns:
        cells, offsets, lengths = variable.columns()
        places = np.zeros((len(cells), len(variable.dims) + len(variable.grid.dims)), np.int64)
        for axis, dim in enumerate(variable.dims):
            values = self.coordinates[dim]
            order = np.argsort(values)
            places[:, axis] = order[np.searchsorted(values, cells[:, axis], sorter=order)]
        rows = np.lexsort(places.T[::-1])
        return ReferenceColumns(
            coordinates=places[rows],
            location_codes=np.zeros(len(rows), np.int32),
            locations=(escape_url(self.url),),
            offsets=offsets[rows],
            lengths=lengths[rows],
            inline_coordinates=np.empty((0, places.shape[1]), np.int64),
        )


def _find_obstacle(variable: Variable, has_codec: bool) -> str | None:
    if variable.grid.alternates:
        return "every second row of its grid runs backwards"
    for each in variable.kinds:
        header = each.header
        if header.edition == 1:
            return "its codec is for GRIB2, and it is GRIB1"
        if not header.is_readable:
            return f"its codec does not read its packing (template 5.{header.packing})"
        if header.number > 0:
            return "it is not the first field of its messages"
    return None if has_codec else "its codec is not installed: pip install 'frazil[grib]'"


def _dtype_of(dim: str) -> str:
    return "int64" if dim in ("time", "step", "number") else "float64"


_TIME_UNITS = "seconds since 1970-01-01"
_ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    "time": {
        "standard_name": "forecast_reference_time", "units": _TIME_UNITS,
        "calendar": "proleptic_gregorian",
    },
    "step": {
        "standard_name": "forecast_period", "units": "seconds", "dtype": "timedelta64[s]",
    },
    "number": {"standard_name": "realization", "units": "1"},
    "latitude": {"standard_name": "latitude", "units": "degrees_north"},
    "longitude": {"standard_name": "longitude", "units": "degrees_east"},
    _PRESSURE: {"standard_name": "air_pressure", "units": "hPa", "positive": "down"},
}  # fmt: skip


def _attributes_of(name: str) -> Mapping[str, str]:
    return _ATTRIBUTES.get(name.partition("_grid")[0], {"long_name": name})


def _describe_values(
    name: str, dims: tuple[str, ...], values: NDArray[Any], attributes: Mapping[str, str]
) -> ArrayHeader:
    shape = values.shape
    fill = 0 if values.dtype.kind == "i" else "NaN"
    metadata = _metadata(shape, shape, values.dtype.name, fill, _BYTES, attributes, dims)
    return ArrayHeader(name, metadata, values)


def _metadata(
    shape: Sequence[int],
    chunks: Sequence[int],
    data_type: str,
    fill_value: Any,
    codec: Mapping[str, Any],
    attributes: Mapping[str, Any],
    dims: Sequence[str],
) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": _KEYS,
        "fill_value": fill_value,
        "codecs": [dict(codec)],
        "attributes": dict(attributes),
        "dimension_names": list(dims),
        "storage_transformers": [],
    }


def _describe_product(first: Field, variable: Variable) -> dict[str, Any]:
    product, parameter = first.product, first.product.parameter
    found: dict[str, Any] = {
        "long_name": parameter.long_name,
        "standard_name": parameter.standard_name,
        "units": parameter.units,
        "GRIB_shortName": parameter.short_name,
        "GRIB_paramId": parameter.id,
        "GRIB_typeOfLevel": product.level_type,
        "GRIB_stepType": product.step_type,
        "GRIB_gridType": variable.grid.kind,
    }
    if product.level is not None and product.level_type not in variable.dims:
        found["GRIB_level"] = product.level
    layers = sorted({e.product.layer for e in variable.kinds if e.product.layer})
    if layers:
        found["GRIB_layers"] = [list(each) for each in layers]
    return {key: value for key, value in found.items() if value != ""}


def open_grib(stores: SourceStores, url: str, size_bytes: int, head: bytes = b"") -> GribFile:
    """Find the messages of a file; raise InvalidInputError if it is damaged.

    They are located by the index beside the file, if there is one that fits, or else by their lengths.
    """
    messages.load_eccodes()
    store, key = stores.resolve(url)

    def read_ranges(starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
        with reading(stores, url):
            if isinstance(store, LocalStore):
                with Path("/", key).open("rb", buffering=0) as file:
                    return [_read_local(file, *each) for each in zip(starts, ends, strict=True)]
            found = obstore.get_ranges(store, key, starts=starts, ends=ends, coalesce=_GAP_BYTES)
            return [bytes(each) for each in found]

    def read(each: Field) -> bytes:
        start = each.header.offset
        return read_ranges([start], [start + each.header.length])[0]

    try:
        window = Window(read_ranges, size_bytes, head)
        variables = _find_by_index(stores, url, window, read)
        if variables is None:
            fields = [Field.of(each) for each in messages.scan(window)]
            variables = arrange_fields(fields, read)
    except DamagedError as error:
        raise InvalidInputError(f"{escape_url(url)} can't be parsed as grib: {error}") from error
    return GribFile(url, variables, read, _ROOT_ATTRIBUTES)


_GAP_BYTES = 4 << 10
_ROOT_ATTRIBUTES = {"Conventions": "CF-1.8"}


def _read_local(file: Any, start: int, end: int) -> bytes:
    file.seek(start)
    found = b""
    while len(found) < end - start and (part := file.read(end - start - len(found))):
        found += part
    return found


def _find_by_index(
    stores: SourceStores, url: str, window: Window, read: ReadMessage
) -> dict[str, Variable] | None:
    """Return the arrays by the index beside a file, or None if there is none that fits."""
    stem, dot, _ = url.rpartition(".")
    for name in (f"{url}.idx", *([f"{stem}.index"] if dot else [])):
        store, key = stores.resolve(name)
        try:
            with reading(stores, name):
                text = bytes(obstore.get(store, key).bytes()).decode("utf-8", "replace")
        except (ObjectNotFoundError, PermissionDeniedError):
            continue  # stores that may not be listed forbid to read what is not there

        def arrange(text: str = text) -> dict[str, Variable]:
            fields = read_by_index(parse_index(text, window.size_bytes), window)
            return arrange_fields(fields, read)

        try:
            found = arrange_index(text, window, arrange)
        except (ValueError, OverflowError):  # one by one, it is known which line is wrong
            found = None
        try:
            return found or arrange()
        except StaleIndexError:
            continue
    return None


def read_grib(
    stores: SourceStores, url: str, size_bytes: int, head: bytes, group: str, loading: Loading
) -> FoundGroup:
    """Return headers and references of a GRIB file, which has no groups."""
    if group:
        raise InvalidInputError(
            f"{escape_url(url)} has no group {group!r}: GRIB has no groups", kind="node-not-found"
        )
    return open_grib(stores, url, size_bytes, head).describe(loading)
