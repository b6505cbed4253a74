"""What a worker does with a source file: open it, and tell what there is in it."""

import pickle
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import zstandard
from obstore.exceptions import BaseError

from frazil import virtual
from frazil.errors import IcechunkError, ObjectNotFoundError, ObjectRangeError, StorageError
from frazil.spark.ingesting.containers import common_folders
from frazil.spark.ingesting.describing import describe_opaque
from frazil.virtual import (
    ArrayHeader,
    ReferenceColumns,
    Source,
    SourceHeader,
    VirtualChunkContainer,
)
from frazil.virtual.readers.found import INTERRUPTIONS, Loading
from frazil.virtual.readers.opening import SMALL_BYTES, find_groups, open_from
from frazil.virtual.readers.stores import Credentials, SourceStores

_MOST_TASKS_A_SLOT = 64
_NAMING = ("bounds", "climatology", "coordinates", "ancillary_variables", "grid_mapping")
"""Attributes of CF that are names of arrays."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How sources are opened."""

    group: str = ""
    """The group inside of each file."""
    load: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    """Arrays that are left out, by their name in the file."""
    rename: Mapping[str, str] = field(default_factory=dict)
    containers: tuple[VirtualChunkContainer, ...] = ()
    credentials: Credentials = field(default_factory=dict, repr=False)

    def open_stores(self) -> SourceStores:
        """The stores that sources are in, with connections that serve all files."""
        return SourceStores(self.containers, self.credentials)


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """A source without its references."""

    location: str
    header: SourceHeader
    folders: tuple[str, ...]
    """The folders that its references lead to, one a store."""
    arrays: tuple[str, ...] = ()
    """The names that its arrays have in the file."""
    dims: tuple[str, ...] = ()
    """The names that its dimensions have in the file."""


@dataclass(frozen=True, slots=True)
class BadFile:
    """A file that can't be read as data, and why."""

    location: str
    reason: str
    is_empty: bool = False
    """Whether there is nothing to ingest in it: no arrays, or no such group."""


Outcome = ParsedSource | BadFile


def parse(
    location: str, reading: Reading, stores: SourceStores | None = None
) -> tuple[Outcome, Source | None]:
    """What one file holds; raises StorageError where its store does not answer.

    `stores` are those of other files that are read in the same way, if there are any.
    """
    try:
        return _parse(location, reading, stores or reading.open_stores())
    except (ObjectNotFoundError, ObjectRangeError) as error:
        return BadFile(location, error.message), None
    except (StorageError, BaseError, *INTERRUPTIONS):
        raise
    except IcechunkError as error:
        return BadFile(location, error.message, error.kind == "node-not-found"), None
    except BaseException as error:
        # Values are decoded by others' code, which raises whatever it likes.
        text = str(error).strip().partition("\n")[0]
        return BadFile(location, f"it can't be read: {type(error).__name__}: {text}"), None


def _parse(location: str, reading: Reading, stores: SourceStores) -> tuple[Outcome, Source | None]:
    loading = Loading(frozenset(reading.load), SMALL_BYTES)
    source = open_from(stores, location, group=reading.group, loading=loading)
    if not source.arrays:
        return BadFile(location, _explain_empty(location, reading, stores), is_empty=True), None
    described = describe_opaque(source, reading.containers, reading.credentials)
    renamed = rename(leave_out(described, reading.skip), reading.rename)
    if not renamed.arrays:
        text = f"skip= leaves none of its arrays {', '.join(source.arrays)}"
        return BadFile(location, text, is_empty=True), None
    targets = {text for each in renamed.references.values() for text in each.locations}
    folders = common_folders([location, *targets])
    names = tuple(source.arrays), tuple(source.dims)
    return ParsedSource(location, renamed.header, folders, *names), renamed


def _explain_empty(location: str, reading: Reading, stores: SourceStores) -> str:
    where = f"group {reading.group!r}" if reading.group.strip("/") else "root group"
    groups = find_groups(stores, location, reading.group)
    if not groups:
        return f"its {where} has no arrays, and neither has any group below"
    return f"its {where} has no arrays: source_group= takes one of {', '.join(groups)}"


def leave_out(source: Source, names: Collection[str]) -> Source:
    """The source without some of its arrays."""
    arrays = {name: each for name, each in source.arrays.items() if name not in names}
    references = {name: each for name, each in source.references.items() if name not in names}
    return Source(replace(source.header, arrays=arrays), references)


def rename(source: Source, names: Mapping[str, str]) -> Source:
    """The source with other names for some of its arrays and dimensions."""
    if not names:
        return source
    arrays = {}
    for name, array in source.arrays.items():
        new = names.get(name, name)
        metadata = dict(array.metadata)
        if metadata.get("dimension_names"):
            metadata["dimension_names"] = [names.get(dim, dim) for dim in array.dims]
        if metadata.get("attributes"):
            metadata["attributes"] = _rename_in(array.attributes, names)
        arrays[new] = replace(array, name=new, metadata=metadata)
    references = {names.get(name, name): each for name, each in source.references.items()}
    attributes = _rename_in(source.attributes, names)
    return Source(replace(source.header, arrays=arrays, attributes=attributes), references)


def _rename_in(attributes: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Attributes that name arrays, with their new names."""
    found = dict(attributes)
    for each in _NAMING:
        if isinstance(found.get(each), str):
            found[each] = " ".join(names.get(word, word) for word in found[each].split())
    return found


def share_equal(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The same with one array in place of equal ones: most files of an archive have the same grid.

    What is shared is pickled once, and takes the driver's memory once.
    """
    seen: dict[bytes, ArrayHeader] = {}
    shared: list[Outcome] = []
    for each in outcomes:
        if isinstance(each, ParsedSource):
            arrays = {
                name: seen.setdefault(pickle.dumps(array), array)
                for name, array in each.header.arrays.items()
            }
            shared.append(replace(each, header=replace(each.header, arrays=arrays)))
        else:
            shared.append(each)
    return shared


def pack(source: Source) -> bytes:
    """The references of a source, small enough to be kept for later."""
    content = (source.header.version, dict(source.references))
    return zstandard.compress(pickle.dumps(content, pickle.HIGHEST_PROTOCOL), 1)


def unpack(data: bytes) -> tuple[virtual.FileVersion, Mapping[str, ReferenceColumns]]:
    """The references of a source, with the version of the file that they were found in."""
    version, references = pickle.loads(zstandard.decompress(data))
    return version, references


def group_files(locations: Sequence[str], slots: int, most: int) -> list[Sequence[str]]:
    """Files by task: up to so many, and fewer where there would be less than three tasks a slot.

    More of them, where there would be so many tasks that each costs more than what it does.
    """
    slots = max(1, slots)
    size = max(1, min(most, -(-len(locations) // (3 * slots))))
    size = max(size, -(-len(locations) // (_MOST_TASKS_A_SLOT * slots)))
    return [locations[start : start + size] for start in range(0, len(locations), size)]


def bad_files(outcomes: Iterable[Outcome]) -> tuple[BadFile, ...]:
    """Those that could not be read."""
    return tuple(each for each in outcomes if isinstance(each, BadFile))
