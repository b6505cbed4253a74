"""A virtual dataset, written through a session.

VirtualiZarr's own `to_icechunk` takes none but the official store. This writes the same, and notes for
each file what it is, not the time of writing.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import xarray as xr
import zarr
from virtualizarr.manifests import ManifestArray
from xarray.backends.zarr import encode_zarr_attr_value

from frazil.errors import InvalidInputError
from frazil.virtual.combining import Problem, ProblemKind, Report
from frazil.virtual.combining.agreement import compare, compare_meaning, compare_storage
from frazil.virtual.containers import VirtualChunkContainer
from frazil.virtual.locations import normalize_location
from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.readers.manifests import columns_of, metadata_of
from frazil.virtual.readers.observing import observe_all
from frazil.virtual.readers.stores import Credentials, SourceStores, escape_url, key_url
from frazil.virtual.sources import ArrayHeader, ReferenceColumns
from frazil.virtual.writing import (
    VirtualStore,
    as_zarr,
    create_array,
    create_group,
    join,
    set_references,
)

# What Xarray may have moved from the attributes of a variable to its encoding.
_ENCODING = ("_FillValue", "missing_value", "scale_factor", "add_offset")


def write_dataset(
    dataset: xr.Dataset,
    store: VirtualStore,
    *,
    group: str = "",
    append_dim: str | None = None,
    containers: Iterable[VirtualChunkContainer] = (),
    credentials: Credentials | None = None,
    validate_containers: bool = True,
) -> None:
    """Write a dataset whose variables are `ManifestArray`s or in memory; nothing is committed.

    With `append_dim` the variables that have it are there already, and grow; the others stay as
    they are. Files are asked for etag and time through `containers` and `credentials`, as `open` does.

    Raises InvalidInputError, with all that is wrong, for variables that do not fit those they follow.
    """
    path = group.strip("/")
    if append_dim is not None and append_dim not in dataset.dims:
        raise InvalidInputError(f"the dataset has no dimension {append_dim!r} to append along")
    virtual = {
        str(name): variable
        for name, variable in dataset.variables.items()
        if isinstance(variable.data, ManifestArray)
    }
    headers = {name: _header_of(name, variable) for name, variable in virtual.items()}
    columns = {name: _columns_of(variable.data) for name, variable in virtual.items()}
    columns = _note_versions(columns, SourceStores(containers, credentials))
    with without_codec_warnings():
        places = _make_room(store, path, headers, append_dim)
        _write_loaded(dataset.drop_vars(list(virtual)), store, path, append_dim)
        if append_dim is None:
            create_group(store, path, _group_attributes(dataset))
    for name, place in places.items():
        set_references(
            store,
            join(path, name),
            columns[name].shift(place),
            validate_containers=validate_containers,
        )


def _header_of(name: str, variable: xr.Variable) -> ArrayHeader:
    kept = {key: variable.encoding[key] for key in _ENCODING if key in variable.encoding}
    attributes = {
        str(key): encode_zarr_attr_value(value)  # type: ignore[no-untyped-call]
        for key, value in {**kept, **variable.attrs}.items()
    }
    metadata = metadata_of(variable.data)
    dims = [str(each) for each in variable.dims]
    return ArrayHeader(name, {**metadata, "attributes": attributes, "dimension_names": dims})


def _columns_of(array: ManifestArray) -> ReferenceColumns:
    return columns_of(array.manifest, len(array.shape), _spell)


def _spell(path: str) -> str:
    """The location of a path of VirtualiZarr's, which has its key as it is, or escaped already."""
    return normalize_location(path) if "%" in path else escape_url(path)


def _note_versions(
    columns: Mapping[str, ReferenceColumns], stores: SourceStores
) -> dict[str, ReferenceColumns]:
    locations = {text for each in columns.values() for text in each.locations}
    urls = {text: key_url(text) for text in locations}
    found = observe_all(stores, set(urls.values()))
    return {
        name: replace(each, versions=tuple(found[urls[text]] for text in each.locations))
        for name, each in columns.items()
    }


def _make_room(
    store: VirtualStore, path: str, headers: Mapping[str, ArrayHeader], append_dim: str | None
) -> dict[str, list[int]]:
    """Make arrays, or let them grow; gives the first chunk of each that gets references."""
    if append_dim is None:
        create_group(store, path, {})
        for name, header in headers.items():
            create_array(store, join(path, name), header.metadata)
        return {name: [0] * len(header.shape) for name, header in headers.items()}
    growing = {name: each for name, each in headers.items() if append_dim in each.dims}
    there = {name: _open_array(store, join(path, name)) for name in growing}
    problems = [
        problem
        for name, header in growing.items()
        for problem in _find_misfits(_existing_header(name, there[name]), header, append_dim)
    ]
    if problems:
        raise InvalidInputError(f"the dataset can't be appended:\n{Report(tuple(problems))}")
    return {name: _grow(there[name], header, append_dim) for name, header in growing.items()}


def _open_array(store: VirtualStore, path: str) -> zarr.Array[Any]:
    return zarr.open_array(as_zarr(store), path=path, mode="r+", zarr_format=3)


def _existing_header(name: str, array: zarr.Array[Any]) -> ArrayHeader:
    return ArrayHeader(name, json.loads(json.dumps(array.metadata.to_dict())))


def _find_misfits(there: ArrayHeader, new: ArrayHeader, append_dim: str) -> list[Problem]:
    both = [("the repository", there), ("the dataset", new)]

    def fixed(header: ArrayHeader) -> list[int]:
        pairs = zip(header.dims, header.shape, strict=True)
        return [extent for dim, extent in pairs if dim != append_dim]

    problems = [
        *compare(both, ProblemKind.DIMENSIONS, "dimensions", lambda each: each.dims),
        *compare(both, ProblemKind.LENGTH, "length of its other axes", fixed),
        *compare_meaning(both),
        *compare_storage(both),
    ]
    if not problems:
        axis = there.dims.index(append_dim)
        step = there.chunk_shape[axis]
        if there.shape[axis] % step:
            text = f"its chunks of {step} along {append_dim} don't end where the array does"
            problems.append(Problem(ProblemKind.RAGGED, there.name, text, ("the repository",)))
    return problems


def _grow(array: zarr.Array[Any], header: ArrayHeader, append_dim: str) -> list[int]:
    axis = header.dims.index(append_dim)
    place = [0] * len(header.shape)
    place[axis] = array.shape[axis] // header.chunk_shape[axis]
    shape = list(array.shape)
    shape[axis] += header.shape[axis]
    array.resize(tuple(shape))
    return place


def _write_loaded(
    loaded: xr.Dataset, store: VirtualStore, path: str, append_dim: str | None
) -> None:
    """Write the variables that are in memory as Xarray does."""
    if append_dim is None:
        loaded.to_zarr(as_zarr(store), group=path, mode="a", zarr_format=3, consolidated=False)
        return
    growing = [name for name, each in loaded.variables.items() if append_dim in each.dims]
    if growing:
        loaded[growing].to_zarr(
            as_zarr(store), group=path, append_dim=append_dim, zarr_format=3, consolidated=False
        )


def _group_attributes(dataset: xr.Dataset) -> dict[str, Any]:
    """Attributes of the dataset, and which of its variables are coordinates of no dimension."""
    attributes = {
        str(key): encode_zarr_attr_value(value)  # type: ignore[no-untyped-call]
        for key, value in dataset.attrs.items()
    }
    named = [str(name) for name in dataset.coords if name not in dataset.dims]
    return {**attributes, **({"coordinates": " ".join(named)} if named else {})}
