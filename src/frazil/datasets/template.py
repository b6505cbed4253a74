"""Write a declaration from sample files."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from os import PathLike
from posixpath import commonprefix
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from frazil.datasets.guards import show_moment
from frazil.errors import InvalidInputError
from frazil.spark.ingestion.discovery import discover
from frazil.virtual.source import ArrayHeader, Source, is_time
from frazil.virtual.source_files import open_from
from frazil.virtual.source_formats import Loading, SourceStores

_MOST_FILES = 20
_DATES = (
    (r"\d{10}", "%Y%m%d%H"), (r"\d{8}T\d{6}", "%Y%m%dT%H%M%S"), (r"\d{8}T\d{4}", "%Y%m%dT%H%M"),
    (r"\d{4}-\d{2}-\d{2}", "%Y-%m-%d"), (r"\d{8}", "%Y%m%d"), (r"\d{7}", "%Y%j"),
    (r"\d{6}", "%Y%m"),
)  # fmt: skip
"""Dates that file names have, the more exact first."""


def make_template(files: Sequence[str | PathLike[str]], repository: str, *, group: str = "") -> str:
    """Return the text of a declaration for files like some samples.

    The dimensions along which the samples differ become those that files are placed along. A regular
    step of time is found if three or more times have one. What can't be known is a comment.

    Parameters
    ----------
    files
        Paths, URLs or patterns of a few sample files.
    repository
        Path or URL of the repository to declare.
    group
        Group inside the files.

    Returns
    -------
    str
        TOML, to be read and changed by a person.

    Raises
    ------
    InvalidInputError
        If there is no file, or none that can be read.
    """
    stores = SourceStores((), {})
    locations = discover(files, stores)["source"].to_pylist()
    shown = locations[:: max(1, len(locations) // _MOST_FILES)][:_MOST_FILES]
    loading = Loading(frozenset(), 1 << 20)
    sources = [open_from(stores, each, group=group, loading=loading) for each in shown]
    if not any(each.arrays for each in sources):
        raise InvalidInputError(f"the files have no arrays: {shown[0]}")
    return "\n".join(_write(sources, locations, files, repository, group)) + "\n"


def _write(
    sources: Sequence[Source],
    locations: Sequence[str],
    files: Sequence[str | PathLike[str]],
    repository: str,
    group: str,
) -> Iterator[str]:
    dims = dict(_find_dims(sources))
    scalars = _find_scalar_times(sources) if not any(map(_is_clock, dims.values())) else {}
    yield "# A dataset that `frazil run` keeps up to date: see docs/how-to/operate-a-dataset.md."
    yield f"repository = {_quote(repository)}"
    yield ""
    yield "[sources]"
    given = [str(each) for each in files]
    patterns = given if len(given) == 1 else [_generalize(locations)]
    yield f"files = [{', '.join(map(_quote, patterns))}]"
    if group:
        yield f"group = {_quote(group)}"
    date = _find_date(locations) if not dims and not scalars else None
    if date is not None:
        yield from ("", "[dimensions.time]")
        yield f"coordinate = {{ path = '({date[0]})', format = {_quote(date[1])} }}"
        yield "# start = 2026-01-01T00:00:00Z"
        yield '# step = "1d"'
    ordered = sorted({**scalars, **dims}.items(), key=lambda each: not _is_clock(each[1]))
    for number, (name, values) in enumerate(ordered):
        yield from ("", f"[dimensions.{name}]")
        yield from _describe_axis(values, is_first=number == 0)
    for name, array in _list_variables(sources, dims):
        yield from ("", f"[variables.{_bare(name)}]")
        dtype = array.metadata.get("data_type")
        if isinstance(dtype, str):
            yield f"dtype = {_quote(dtype)}"
        units = array.attributes.get("units")
        if isinstance(units, str):
            yield f"units = {_quote(units)}"
        yield "# between = [lowest, highest]"
    yield from ("", "[guards]", 'newest = "complete"', '# freshness = "1d"')


Values = NDArray[Any] | tuple[datetime, ...]


def _is_clock(values: Values) -> bool:
    return isinstance(values, tuple)


def _find_dims(sources: Sequence[Source]) -> Iterator[tuple[str, Values]]:
    """Yield the dimensions of time, and those whose coordinates differ between files."""
    names = [name for name, each in sources[0].arrays.items() if each.is_index]
    for name in names:
        arrays = [each.arrays[name] for each in sources if name in each.arrays]
        values = [each.values for each in arrays if each.values is not None]
        differs = any(not np.array_equal(values[0], each) for each in values[1:])
        if values and (differs or is_time(arrays[0].attributes)):
            yield name, _read_values(arrays)


def _find_scalar_times(sources: Sequence[Source]) -> dict[str, Values]:
    found = {}
    for name, each in sources[0].arrays.items():
        if not each.dims and each.values is not None and is_time(each.attributes):
            found[name] = _read_values([s.arrays[name] for s in sources if name in s.arrays])
    return dict(list(found.items())[:1])


def _read_values(arrays: Sequence[ArrayHeader]) -> Values:
    parts = []
    for each in arrays:
        if each.values is None:
            continue
        values = np.atleast_1d(each.values)
        if is_time(each.attributes):
            own = {k: each.attributes[k] for k in ("units", "calendar") if k in each.attributes}
            values = xr.decode_cf(xr.Dataset({"x": ("x", values, own)}))["x"].values
        parts.append(values)
    values = np.unique(np.concatenate(parts))
    if values.dtype.kind == "M":
        return tuple(each.replace(tzinfo=UTC) for each in values.astype("M8[us]").tolist())
    return values


def _describe_axis(values: Values, *, is_first: bool) -> Iterator[str]:
    if isinstance(values, tuple):
        step = _find_step(values)
        if not is_first:
            yield "# only the first dimension can grow"
        elif step is None:
            yield f"# start = {show_moment(values[0]).replace('Z', ':00Z')}"
            yield '# step = "6h"'
        else:
            yield f"start = {values[0]:%Y-%m-%dT%H:%M:%SZ}"
            yield f"step = {_quote(step)}"
        yield '# delay = "4h"'
        return
    listed = values.tolist()
    steps: Any = (
        np.unique(np.diff(values)) if values.dtype.kind in "iuf" and len(values) > 2 else []
    )
    if len(steps) == 1:
        first, last, step = (f"{float(each):g}" for each in (listed[0], listed[-1], steps[0]))
        yield f"values = {{ first = {first}, last = {last}, step = {step} }}"
    else:
        yield f"values = [{', '.join(_quote(e) if isinstance(e, str) else f'{e:g}' for e in listed)}]"


def _find_step(moments: Sequence[datetime]) -> str | None:
    """Return the regular step of some times, as a declaration writes it."""
    apart = {b - a for a, b in pairwise(moments)}
    if len(moments) < 3:
        return None
    if all(each.day == 1 and each.hour == 0 for each in moments):
        months = {(b.year - a.year) * 12 + b.month - a.month for a, b in pairwise(moments)}
        return f"{months.pop()} month" if len(months) == 1 else None
    if len(apart) != 1:
        return None
    step = apart.pop()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if step % timedelta(seconds=size) == timedelta():
            return f"{step // timedelta(seconds=size)}{unit}"
    return f"{int(step.total_seconds())}s"


def _list_variables(
    sources: Sequence[Source], dims: dict[str, Values]
) -> Iterator[tuple[str, ArrayHeader]]:
    """Yield the data variables of all files, each once."""
    seen = set(dims)
    for source in sources:
        named = {
            word
            for each in source.arrays.values()
            for key in ("coordinates", "bounds", "grid_mapping", "climatology")
            for word in str(each.attributes.get(key, "")).split()
        }
        for name, each in source.arrays.items():
            if name not in seen and not each.is_index and each.dims and name not in named:
                seen.add(name)
                yield name, each


def _find_date(locations: Sequence[str]) -> tuple[str, str] | None:
    """Return the expression and the format of a date that all names have."""
    names = [each.rpartition("/")[2] for each in locations]
    for pattern, format in _DATES:
        found = [re.search(rf"(?<!\d){pattern}(?!\d)", each) for each in names]
        try:
            if all(each and datetime.strptime(each.group(), format) for each in found):
                return pattern, format
        except ValueError:
            continue
    return None


def _generalize(locations: Sequence[str]) -> str:
    """Return a pattern for files in one folder, or below it."""
    folder = commonprefix([each.rpartition("/")[0] + "/" for each in locations])
    folder = folder.rpartition("/")[0]
    endings = {each.rpartition(".")[2] for each in locations}
    ending = f".{endings.pop()}" if len(endings) == 1 else ""
    is_flat = all(each.rpartition("/")[0] == folder for each in locations)
    return f"{folder.removeprefix('file://')}/{'*' if is_flat else '**/*'}{ending}"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _bare(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else _quote(name)
