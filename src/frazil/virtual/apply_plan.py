"""Carry out a plan in a session: metadata, loaded values, and references in columns."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import zarr
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.metadata import ArrayV3Metadata

from frazil.errors import InvalidInputError
from frazil.virtual.combine_plan import Plan, Treatment, VariablePlan
from frazil.virtual.source import ReferenceColumns, Source, concatenate
from frazil.virtual.source_formats import without_codec_warnings


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
            _write_values(array, variable)


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


def _write_values(array: zarr.Array[Any], variable: VariablePlan) -> None:
    if variable.treatment is Treatment.INLINE and variable.values is not None:
        array[...] = variable.values


def as_zarr(store: object) -> Any:
    """Return the store, typed for functions of Zarr and Xarray."""
    return store
