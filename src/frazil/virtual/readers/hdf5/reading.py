"""One group of an HDF5 file."""

from dataclasses import replace
from typing import Any

from h5py import h5, h5d, h5g, h5l, h5o, h5p

from frazil.errors import InvalidInputError
from frazil.virtual.readers.found import FoundGroup
from frazil.virtual.readers.hdf5.attributes import NotPlainError, read_attributes
from frazil.virtual.readers.hdf5.datasets import Surroundings, describe
from frazil.virtual.readers.hdf5.refusals import NotReadable
from frazil.virtual.readers.loading import find_unread_bounds
from frazil.virtual.readers.phony_dims import is_dimension_only, name_phony_dims
from frazil.virtual.sources import ArrayHeader, ReferenceColumns
from frazil.virtual.sources.columns import no_references


def read_group(file: Any, around: Surroundings) -> FoundGroup:
    """The arrays of a group; raises NotReadable for what another reader has to do."""
    group = _open(file, around)
    headers: dict[str, ArrayHeader] = {}
    references: dict[str, ReferenceColumns] = {}
    groups: list[str] = []
    for key, link in _list_links(group):
        name = key.decode("utf-8", "surrogateescape")
        try:
            member = h5o.open(group, key)
        except KeyError:
            continue  # a link that leads nowhere
        if isinstance(member, h5g.GroupID):
            groups.append(name)
        elif isinstance(member, h5d.DatasetID) and not is_dimension_only(member):
            headers[name], references[name] = describe(member, name, around)
            if link == h5l.TYPE_EXTERNAL:
                obstacle = "it is a link of HDF5 into another file"
                headers[name] = replace(headers[name], obstacle=obstacle, values=None)
                references[name] = no_references(len(headers[name].shape))
    bounds = find_unread_bounds(headers)
    for name in bounds:
        again = replace(around, loading=replace(around.loading, names=frozenset(bounds)))
        member = h5o.open(group, name.encode("utf-8", "surrogateescape"))
        headers[name], references[name] = describe(member, name, again)
    try:
        attributes = read_attributes(group)
    except (NotPlainError, UnicodeDecodeError) as error:
        raise NotReadable(str(error)) from error
    return FoundGroup(attributes, _name_axes(headers), references, tuple(groups))


def _list_links(group: Any) -> list[tuple[bytes, int]]:
    """Names and kinds of links, in the order of their making where the group knows it."""
    found: list[tuple[bytes, int]] = []
    is_tracked = group.get_create_plist().get_link_creation_order() & h5p.CRT_ORDER_TRACKED
    order = h5.INDEX_CRT_ORDER if is_tracked else h5.INDEX_NAME
    group.links.iterate(
        lambda name, info: found.append((name, info.type)), idx_type=order, info=True
    )
    return found


def _open(file: Any, around: Surroundings) -> Any:
    path = around.group.encode("utf-8", "surrogateescape") or b"/"
    try:
        found = h5o.open(file, path)
    except KeyError:
        found = None
    if not isinstance(found, h5g.GroupID):
        raise InvalidInputError(f"{around.location} has no group {around.group!r}")
    return found


def _name_axes(headers: dict[str, ArrayHeader]) -> dict[str, ArrayHeader]:
    named = name_phony_dims({name: each.metadata for name, each in headers.items()})
    return {
        name: each if named[name] is each.metadata else replace(each, metadata=named[name])
        for name, each in headers.items()
    }
