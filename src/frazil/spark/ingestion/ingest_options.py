"""Options of an ingest, and the chunks and codecs of arrays whose values are rewritten."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import gcd, prod
from typing import Any, Literal, get_args

import numpy as np
import zarr
from zarr.core.metadata import ArrayV3Metadata
from zarr.storage import MemoryStore

from frazil.display import list_known
from frazil.errors import InvalidInputError
from frazil.spark.audit import AnyCheck
from frazil.spark.checks import SamplesEqualSource
from frazil.spark.ingestion.ledger import RESERVED, WHOLE_TREE, SourceNames
from frazil.spark.ingestion.source_data import (
    Eras,
    OnBadFile,
    OnFailedCheck,
    ParsedSource,
    Reading,
)
from frazil.virtual.combine_axes import suggest_coordinate
from frazil.virtual.combine_plan import join
from frazil.virtual.containers import VirtualChunkContainer
from frazil.virtual.conversions import EVERY_VARIABLE
from frazil.virtual.source import ArrayHeader

Chunks = Mapping[str, int | Mapping[str, int]]
"""Chunk length by dimension, or by variable and dimension; -1 is the whole dimension."""
Encoding = Mapping[str, Mapping[str, Any]]
"""Arguments of `zarr.create_array`, by variable."""

SETTINGS = frozenset({"chunks", "compressors", "filters", "serializer", "shards", "fill_value"})

KIB, MIB = 1 << 10, 1 << 20
LEAST_CHUNK_BYTES = 256 * KIB
MOST_CHUNK_BYTES = 256 * MIB
"""Chunks of a source are kept if their size is between these limits."""
PLANNED_CHUNK_BYTES = 16 * MIB
GROWING_CHUNK_BYTES = MIB
"""Maximum size of a chunk that appends may rewrite, because it doesn't end where files do."""
_GUESSED_ITEM_BYTES = 16


@dataclass(frozen=True, slots=True)
class EncodingOptions:
    """Requested chunks and encoding of arrays whose values are rewritten.

    Parameters
    ----------
    chunks
        Chunk length by dimension, or by variable and dimension; -1 is the whole dimension.
    encoding
        Arguments of `zarr.create_array`, by variable.

    Raises
    ------
    InvalidInputError
        If a setting is unknown, or a chunk length is neither positive nor -1.
    """

    chunks: Chunks = field(default_factory=dict)
    encoding: Encoding = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, settings in self.encoding.items():
            if not isinstance(settings, Mapping):
                raise InvalidInputError(
                    f"invalid encoding {settings!r} of {name!r}: it must be a dict of settings"
                )
            unknown = sorted(settings.keys() - SETTINGS)
            if unknown:
                raise InvalidInputError(
                    f"invalid encoding {unknown[0]!r} of {name!r}: there are "
                    f"{list_known(unknown[0], sorted(SETTINGS), 'settings')}"
                )
        sizes = [each for value in self.chunks.values() for each in _values(value)]
        if any(not isinstance(size, int) or size == 0 or size < -1 for size in sizes):
            raise InvalidInputError(f"chunks={dict(self.chunks)!r}: a length is 1 or more, or -1")

    def __bool__(self) -> bool:
        return bool(self.chunks or self.encoding)

    def names(self, variable: str) -> bool:
        """Return whether an option names this variable."""
        return variable in self.encoding or isinstance(self.chunks.get(variable), Mapping)

    def chunks_of(self, variable: str, dims: Sequence[str]) -> dict[str, int]:
        """Return the requested chunk lengths of a variable, by dimension."""
        common = {dim: size for dim, size in self.chunks.items() if isinstance(size, int)}
        own = self.chunks.get(variable)
        given = self.encoding.get(variable, {}).get("chunks")
        if isinstance(given, Sequence):
            if len(given) != len(dims):
                raise InvalidInputError(
                    f"invalid chunks {given!r} of {variable}: its dimensions are {list(dims)}"
                )
            given = dict(zip(dims, given, strict=True))
        named = {**(own if isinstance(own, Mapping) else {}), **(given or {})}
        unknown = sorted(named.keys() - set(dims))
        if unknown:
            raise InvalidInputError(
                f"invalid chunks of {variable!r} along {unknown[0]!r}: it has "
                f"{list_known(unknown[0], dims, 'dimensions')}"
            )
        return {dim: size for dim, size in {**common, **named}.items() if dim in dims}


def plan_metadata(
    header: ArrayHeader,
    shape: Sequence[int],
    append_dim: str | None,
    encoding_options: EncodingOptions,
    lengths: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, Any]:
    """Return the `zarr.json` of a new array for the values of sources with this header.

    `lengths` are those of the files along each dimension that grows.
    """
    settings = {
        k: v for k, v in encoding_options.encoding.get(header.name, {}).items() if k != "chunks"
    }
    whole = ArrayV3Metadata.from_dict({**header.metadata, "storage_transformers": ()})
    axis = header.dims.index(append_dim) if append_dim in header.dims else None
    chunks = choose_chunks(shape, header.chunk_shape, item_bytes(header), axis)
    growing = {header.dims.index(dim): each for dim, each in (lengths or {}).items()}
    chunks = end_with_files(chunks, item_bytes(header), growing)
    asked = encoding_options.chunks_of(header.name, header.dims)
    for number, dim in enumerate(header.dims):
        if dim in asked:
            chunks[number] = asked[dim] if asked[dim] > 0 else max(1, shape[number])
    made = zarr.create_array(
        MemoryStore(),
        shape=tuple(shape),
        dtype=whole.data_type,
        chunks=_fit_shards(chunks, settings.get("shards")),
        **{"fill_value": whole.fill_value, **settings},
    )
    stored = json.loads(json.dumps(made.metadata.to_dict()))
    kept = ("fill_value", "chunk_grid", "codecs", "data_type")
    return {**header.metadata, "shape": list(shape), **{name: stored[name] for name in kept}}


def choose_chunks(
    shape: Sequence[int], source_chunks: Sequence[int], itemsize: int, axis: int | None
) -> list[int]:
    """Return the chunk shape of the source, unless its chunks are very small or very large.

    Otherwise return whole steps along the axis, as many as make about 16 MiB, or a part of a step
    if one step is larger than that.
    """
    if LEAST_CHUNK_BYTES <= prod(source_chunks) * itemsize <= MOST_CHUNK_BYTES:
        return list(source_chunks)
    sizes = [max(1, each) for each in shape]
    growing = axis if axis is not None else 0
    if sizes:
        sizes[growing] = 1
    most = max(1, PLANNED_CHUNK_BYTES // itemsize)
    while prod(sizes) > most:
        largest = sizes.index(max(sizes))
        sizes[largest] = -(-sizes[largest] // 2)
    if sizes:
        steps = max(1, most // prod(sizes))
        sizes[growing] = steps if axis is not None else max(1, min(steps, shape[0]))
    return sizes


def end_with_files(
    chunks: Sequence[int], itemsize: int, lengths: Mapping[int, Sequence[int]]
) -> list[int]:
    """Return chunks that end where files do, or are small, so that appends rewrite no large chunk.

    `lengths` are those of the files along each axis that grows. One file that is longer than a chunk
    doesn't show how the archive grows.
    """
    found = list(chunks)
    for axis, files in lengths.items():
        step, own = gcd(*files), found[axis]
        row = prod(found) // own * itemsize
        is_unknown = not step or (len(files) == 1 and step > own)
        if is_unknown or step % own == 0 or row * own <= GROWING_CHUNK_BYTES:
            continue
        longest = next(each for each in range(min(own, step), 0, -1) if step % each == 0)
        found[axis] = max(longest, min(own, GROWING_CHUNK_BYTES // row))
    return found


_known_item_bytes: dict[str, int] = {}
"""By data type: an archive has as many headers as files, and parsing one is slow."""


def item_bytes(header: ArrayHeader) -> int:
    """Return the bytes of an element in memory; an estimate for strings."""
    data_type = json.dumps(header.metadata["data_type"], sort_keys=True)
    if data_type not in _known_item_bytes:
        try:
            dtype = ArrayV3Metadata.from_dict(
                {**header.metadata, "storage_transformers": ()}
            ).dtype.to_native_dtype()
        except (AttributeError, TypeError):
            return _GUESSED_ITEM_BYTES
        _known_item_bytes[data_type] = int(np.dtype(dtype).itemsize)
    return _known_item_bytes[data_type]


def find_unit(metadata: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of what is stored as one object: a chunk or a shard."""
    return tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"])


def can_encode(metadata: Mapping[str, Any]) -> bool:
    """Return whether the codecs of an array can encode as well as decode."""
    ones = [1] * len(metadata["shape"])
    small = {
        **metadata,
        "shape": ones,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": ones}},
    }
    if any(each["name"] == "sharding_indexed" for each in metadata["codecs"]):
        return True
    try:
        node = ArrayV3Metadata.from_dict({**small, "storage_transformers": ()})
        for _, array in zarr.create_hierarchy(store=MemoryStore(), nodes={"a": node}):
            if isinstance(array, zarr.Array):
                array[...] = np.ones((), array.dtype) if array.dtype.kind in "biufc" else array[...]
    except Exception:
        # Codecs are third-party code and may raise any exception for what they don't support.
        return False
    return True


def _fit_shards(chunks: Sequence[int], shards: Any) -> tuple[int, ...]:
    """Return chunk lengths that divide the shard lengths."""
    if not isinstance(shards, Sequence) or len(shards) != len(chunks):
        return tuple(chunks)
    return tuple(
        size
        if shard % size == 0
        else next(s for s in range(min(size, shard), 0, -1) if shard % s == 0)
        for size, shard in zip(chunks, shards, strict=True)
    )


def _values(size: Any) -> list[Any]:
    return list(size.values()) if isinstance(size, Mapping) else [size]


RegionOption = Mapping[str, slice | tuple[int, int] | Literal["auto"]] | Literal["auto"]
"""Region by dimension, or `auto` for the region given by the values of coordinates."""

Mode = Literal["auto", "virtual", "native"]
OnOverlap = Literal["refuse", "replace"]
OnLate = Literal["insert", "set_aside", "refuse"]

_ALTERNATIVES = {
    "mode": get_args(Mode), "on_overlap": get_args(OnOverlap), "on_bad_file": get_args(OnBadFile),
    "on_failed_check": get_args(OnFailedCheck), "on_late": get_args(OnLate),
    "eras": get_args(Eras),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """Options of an ingest."""

    branch: str
    group: str
    """Path without leading and trailing slashes; empty for the root."""
    dims: tuple[str, ...]
    """Concatenation dimensions, outermost first."""
    on_overlap: OnOverlap
    mode: Mode
    message: str | None
    dry_run: bool
    checks: tuple[AnyCheck, ...] = ()
    encoding_options: EncodingOptions = field(default_factory=EncodingOptions)
    region: RegionOption | None = None
    statistics: bool = False
    on_late: OnLate = "insert"
    eras: Eras = "merge"
    expected: Mapping[str, Any] = field(default_factory=dict)
    """Values that a dimension has even where no file brings them."""
    tops: tuple[str, ...] = ()
    """Folders that the sources were named by."""
    is_tree: bool = False
    """True if every group of the files is ingested, into the group of its path."""

    @property
    def is_replacing(self) -> bool:
        """Return whether files replace the data at their place."""
        return self.on_overlap == "replace"

    @property
    def is_split(self) -> bool:
        """Return whether files are ingested into groups below the group."""
        return self.is_tree or self.eras == "groups"

    @property
    def ledger_group(self) -> str:
        """Return the group that the ledger knows a file by."""
        return join(self.group, WHOLE_TREE) if self.is_split else self.group


def refuse_invalid_choices(**given: str) -> None:
    """Raise InvalidInputError for an unknown value of an option."""
    for name, value in given.items():
        if value not in _ALTERNATIVES[name]:
            known = ", ".join(map(repr, _ALTERNATIVES[name]))
            raise InvalidInputError(f"{name}={value!r} is none of {known}")


def refuse_mistyped(**given: object) -> None:
    """Raise InvalidInputError for an option of the wrong type, before anything is read."""
    for name, value in given.items():
        is_right, wanted = _SHAPES[name]
        if not is_right(value):
            raise InvalidInputError(f"invalid {name} {value!r}: it must be {wanted}")


def refuse_unnamed(
    option: str, names: Iterable[str], known: Collection[str], what: str, whose: str = "the files"
) -> None:
    """Raise InvalidInputError for a name that doesn't exist, and list the known names."""
    for name in names:
        if name not in known:
            raise InvalidInputError(
                f"invalid {option} {name!r}: {whose} have {list_known(name, known, what)}"
            )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _are_names(value: Any) -> bool:
    is_several = isinstance(value, Collection) and not isinstance(value, str | bytes)
    return is_several and all(map(_is_name, value))


def _are_dims(value: Any) -> bool:
    is_list = isinstance(value, list | tuple) and bool(value) and _are_names(value)
    return is_list and len(set(value)) == len(value)


def _maps_names(value: Any) -> bool:
    is_mapping = value is None or isinstance(value, Mapping)
    return is_mapping and all(map(_is_name, value or ()))


_NAMES = (_are_names, "a list of names of arrays")
_SHAPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "append_dim": (
        lambda value: value is None or _is_name(value) or _are_dims(value),
        "the name of a dimension, a list of names, or None for a single file",
    ),
    "group": (
        lambda value: isinstance(value, str) and value.strip("/").partition("/")[0] != RESERVED,
        f"the path of a group, and {RESERVED!r} has the ledger",
    ),
    "coords": (_maps_names, "a dict of from_path(…), from_attribute(…) or functions by dimension"),
    "containers": (
        lambda value: all(isinstance(each, VirtualChunkContainer) for each in value),
        "a list of virtual chunk containers",
    ),
    "source_group": (lambda value: isinstance(value, str), "the path of a group"),
    "skip": _NAMES,
    "load": _NAMES,
    "take": _NAMES,
    "rename": (
        lambda value: _maps_names(value) and all(map(_is_name, (value or {}).values())),
        "a dict of new names by old ones",
    ),
    "chunks": (_maps_names, "a dict by dimension, or by variable and dimension"),
    "encoding": (_maps_names, "a dict of settings by variable"),
    "convert": (_maps_names, "a dict of conversions by variable, or '*' for all"),
}


def refuse_contradictions(
    options: Options, conversions: Mapping[str, object], coords: Mapping[str, object]
) -> None:
    """Raise InvalidInputError for options that exclude each other."""
    if options.mode == "virtual" and options.encoding_options:
        raise InvalidInputError("chunks= and encoding= need mode='native' or 'auto'")
    if conversions and options.mode == "virtual":
        raise InvalidInputError(
            "convert= changes values, and mode='virtual' refers to them: use mode='auto' or 'native'"
        )
    if conversions and options.region is not None:
        raise InvalidInputError("convert= changes whole files, not the parts that region= fills")
    compares = [each for each in options.checks if isinstance(each, SamplesEqualSource)]
    if options.region is not None and compares:
        raise InvalidInputError(
            "samples_equal_source compares all there is beside a file's place along append_dim, and "
            "not the parts that region= fills: leave it out"
        )
    if options.region is not None and options.is_tree:
        raise InvalidInputError(
            "region= fills the arrays of one group: name the group with source_group= instead of '*'"
        )
    for option, by_dim in (("coords", coords), ("expected", options.expected)):
        for dim in [each for each in by_dim if each not in options.dims]:
            known = options.dims[0] if len(options.dims) == 1 else list(options.dims) or None
            raise InvalidInputError(f"invalid {option} of {dim!r}: append_dim={known!r} lacks it")
    for dim, function in coords.items():
        if not callable(function):
            raise InvalidInputError(
                f"invalid coords {function!r} of {dim!r}: expected from_path(…), from_attribute(…) or "
                "a function"
            )
    for each in compares:
        if _compares(each, conversions):
            raise InvalidInputError(
                "samples_equal_source compares values with those in the files, which convert= changes: "
                "name other variables with variables="
            )


def _compares(check: SamplesEqualSource, conversions: Mapping[str, object]) -> bool:
    """Return whether a check compares variables that are converted."""
    names = conversions.keys()
    return bool(names) and (
        check.variables is None or EVERY_VARIABLE in names or bool(names & set(check.variables))
    )


def name_sources(sources: Iterable[ParsedSource], group: str) -> SourceNames:
    """Return the names in some files, of which a group is read."""
    inside = {(each.arrays, each.dims) for each in sources}
    arrays = dict.fromkeys(name for names, _ in sorted(inside) for name in names)
    dims = dict.fromkeys(dim for _, names in sorted(inside) for dim in names)
    return SourceNames(tuple(arrays), tuple(dims), (group.strip("/"),))


def refuse_unknown_names(
    sources: Sequence[ParsedSource],
    known: SourceNames,
    list_there: Callable[[], Mapping[str, Sequence[str]]],
    reading: Reading,
    options: Options,
) -> None:
    """Raise InvalidInputError if an option names an unknown array or dimension.

    `known` are the names in the files that were ingested before; `list_there` returns the dimensions of
    each array of the repository.
    """
    there = {} if sources else list_there()
    if not sources and not there:
        return
    if sources or known.arrays:
        given = known if not sources else name_sources(sources, reading.source_group) | known
        _refuse_unknown_in_files(sources, given, list_there, reading)
    if not sources and known.groups and reading.source_group.strip("/") not in known.groups:
        read = ", ".join(repr(each) if each else "the root group" for each in known.groups)
        raise InvalidInputError(
            f"invalid source_group {reading.source_group!r}: the files were ingested before, from "
            f"{read}; another one of their groups needs another group="
        )
    headers = [each.header for each in sources]
    arrays = dict.fromkeys([*there, *(name for each in headers for name in each.arrays)])
    dims = dict.fromkeys(chain(*there.values(), *(each.dims for each in headers)))
    # A coordinate without a dimension of its name has its own error message.
    unknown = [dim for dim in options.dims if dim not in arrays and dim not in dims]
    for dim in unknown:
        hint = suggest_coordinate(headers, dim) if headers else ""
        raise InvalidInputError(
            f"invalid append_dim {dim!r}: the {'files' if headers else 'arrays that they made'} have "
            f"{list_known(dim, dims, 'dimensions')}{hint}"
        )
    chunks, encoding = options.encoding_options.chunks, options.encoding_options.encoding
    named = [name for name, size in chunks.items() if isinstance(size, Mapping)]
    plain = [name for name in chunks if name not in named]
    if {*named, *encoding} - arrays.keys() or set(plain) - dims.keys():
        existing = list_there()
        arrays |= dict.fromkeys(existing)
        dims |= dict.fromkeys(chain(*existing.values()))
    refuse_unnamed("chunks", plain, dims, "dimensions")
    refuse_unnamed("chunks", named, arrays, "arrays")
    refuse_unnamed("encoding", encoding, arrays, "arrays")
    refuse_unnamed(
        "convert", [each for each in reading.convert if each != EVERY_VARIABLE], arrays, "arrays"
    )
    if not sources and isinstance(options.region, Mapping):
        refuse_unnamed("region", options.region, dims, "dimensions")


def _refuse_unknown_in_files(
    sources: Sequence[ParsedSource],
    known: SourceNames,
    list_there: Callable[[], Mapping[str, Sequence[str]]],
    reading: Reading,
) -> None:
    """Raise InvalidInputError if an option has a name that no file has."""
    arrays, dims = dict.fromkeys(known.arrays), dict.fromkeys(known.dims)
    refuse_unnamed("skip", reading.skip, arrays, "arrays")
    refuse_unnamed("load", reading.load, arrays, "arrays")
    refuse_unnamed("rename", reading.rename, {**arrays, **dims}, "arrays and dimensions")
    for names in {each.arrays for each in sources}:
        _refuse_same_names([each for each in names if each not in reading.skip], reading.rename)
    taken = {reading.rename.get(name, name) for name in arrays}
    # Some files may lack some of the variables to take, and all files none of them.
    if reading.take and not (taken | list_there().keys()) & set(reading.take):
        refuse_unnamed("take", reading.take, sorted(taken), "arrays")


def _refuse_same_names(names: Iterable[str], rename: Mapping[str, str]) -> None:
    counts = Counter(rename.get(name, name) for name in names)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise InvalidInputError(f"invalid rename: it gives several arrays the name {twice[0]!r}")
