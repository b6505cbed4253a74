"""One group of a source, as VirtualiZarr's parsers find it."""

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from obstore.exceptions import BaseError
from virtualizarr.manifests import ManifestStore

from frazil.errors import IcechunkError, InvalidInputError
from frazil.virtual.readers import hdf5_gaps
from frazil.virtual.readers.formats import HDF5, Format
from frazil.virtual.readers.found import INTERRUPTIONS
from frazil.virtual.readers.stores import SourceStores

# What parsers raise for what they can't represent in Zarr.
_REFUSALS = (ValueError, TypeError, KeyError, NotImplementedError)


@dataclass(frozen=True, slots=True, eq=False)
class ParsedGroup:
    """What a parser found, and what it could not."""

    store: ManifestStore
    groups: tuple[str, ...]
    obstacles: Mapping[str, str] = field(default_factory=dict)
    """Why the bytes of an array can't be referred to, by its name."""
    compact: Mapping[str, Any] = field(default_factory=dict)
    """Values that are part of the header."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes of arrays that the parser refused."""


def parse_group(stores: SourceStores, url: str, format: Format, group: str) -> ParsedGroup:
    """The arrays of a group; raises InvalidInputError where the file or the group can't be parsed."""
    try:
        make_parser = _import_parser(format)
        if format == HDF5:
            return _parse_hdf5(make_parser, stores, url, group)
        store = make_parser(**({"group": group} if group else {}))(url, stores)
    except ImportError as error:
        raise InvalidInputError(
            f"files of the format {format.name} are parsed by {format.parser}, which can't be "
            f"imported ({str(error).partition(chr(10))[0]}): pip install {format.install}"
        ) from error
    except (IcechunkError, BaseError, *INTERRUPTIONS):
        raise  # the file is not to blame
    except BaseException as error:
        # Parsers are others' code, and raise whatever they like for a file they don't understand:
        # panics of a foreign runtime are no exceptions of Python's own kind.
        raise InvalidInputError(
            f"{url} can't be parsed as {format.name}: {type(error).__name__}: {error}"
        ) from error
    return ParsedGroup(store, tuple(store._group.groups))


def _parse_hdf5(make_parser: Any, stores: SourceStores, url: str, group: str) -> ParsedGroup:
    members = hdf5_gaps.inspect_group(stores, url, group)

    def parse(without: Iterable[str]) -> ManifestStore:
        dropped = [*members.groups, *members.dims, *without]
        parsed: ManifestStore = make_parser(group=group or None, drop_variables=dropped)(
            url, stores
        )
        return parsed

    refused: dict[str, str] = {}
    try:
        store = parse(())
    except _REFUSALS:
        # It tells not which of the datasets it means, so each is tried alone.
        for name in members.datasets:
            try:
                parse(members.datasets.keys() - {name})
            except _REFUSALS as error:
                known = members.datasets[name].obstacle
                refused[name] = known or f"VirtualiZarr can't represent it: {error}"
        store = parse(refused)
    parsed = {name: each for name, each in members.datasets.items() if name not in refused}
    return ParsedGroup(
        store,
        members.groups,
        refused | {name: each.obstacle for name, each in parsed.items() if each.obstacle},
        {n: each.compact_values for n, each in parsed.items() if each.compact_values is not None},
        {name: members.datasets[name].shape for name in refused},
    )


def _import_parser(format: Format) -> Any:
    module, _, name = format.parser.partition(":")
    return getattr(importlib.import_module(module), name)
