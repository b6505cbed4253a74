"""Source files of an ingest: containers, parsing, and direct reads of their values."""

import io
import json
import pickle
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from io import RawIOBase
from pathlib import Path
from posixpath import commonpath
from typing import Any, Literal, TypeVar

import numpy as np
import obstore
import xarray as xr
import zarr
import zstandard
from obstore.exceptions import BaseError
from obstore.store import LocalStore
from xarray.backends.zarr import FillValueCoder, encode_zarr_attr_value
from zarr.storage import MemoryStore

from frazil import virtual
from frazil.arguments import named_options
from frazil.config.conditions import SplitSizes
from frazil.config.settings import RepositoryConfig
from frazil.credentials import AnyCredential
from frazil.errors import (
    IcechunkError,
    InvalidInputError,
    ObjectNotFoundError,
    ObjectRangeError,
    StorageError,
)
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.spark.checks import decode_climatologies
from frazil.spark.ingestion.ledger import WHOLE_TREE
from frazil.spark.regions import add_rules
from frazil.storage.constructors import in_memory_storage
from frazil.storage.ranges import BlockFile
from frazil.storage.store_config import AnyObjectStoreConfig, ObjectStoreConfig, S3Options
from frazil.virtual import source_formats
from frazil.virtual.access import default_credential
from frazil.virtual.combine_axes import are_equal, find_values
from frazil.virtual.combine_plan import join
from frazil.virtual.containers import VirtualChunkContainer, index_containers, parse_address
from frazil.virtual.conversions import Conversion, Conversions
from frazil.virtual.grib import find_aliases
from frazil.virtual.new_dimensions import Coordinate, add_dimensions
from frazil.virtual.source import (
    PHONY,
    ArrayHeader,
    FileVersion,
    HeaderPool,
    ReferenceColumns,
    Source,
    SourceHeader,
)
from frazil.virtual.source_files import SMALL_BYTES, add_digests, find_groups, open_from
from frazil.virtual.source_formats import (
    GRIB,
    HDF5,
    INTERRUPTIONS,
    Credentials,
    Loading,
    SourceStores,
    find_uncertain,
    key_url,
    recognise_file,
    without_codec_warnings,
)


def open_file(
    stores: SourceStores, location: str, size_bytes: int, *, is_whole: bool = False
) -> Any:
    """Return a local path, or a file object for a remote file: fetched whole, or read by range."""
    address = parse_address(location)
    if address.scheme == "file":
        return f"/{address.key}"
    store, key = stores.resolve(key_url(location))
    if is_whole:
        return io.BytesIO(bytes(obstore.get(store, key).bytes()))

    def read_range(start: int, end: int) -> bytes:
        return bytes(obstore.get_range(store, key, start=start, end=end))

    return BlockFile(read_range, size_bytes)


_FILL = "_FillValue"


def describe_opaque(
    source: Source, containers: Iterable[VirtualChunkContainer], credentials: Credentials
) -> Source:
    """Return the source with metadata of the arrays whose parser found only the shape."""
    opaque = [name for name, each in source.arrays.items() if "data_type" not in each.metadata]
    if not opaque or source.header.format != HDF5.name:
        return source
    arrays = dict(source.arrays)
    stores = SourceStores(containers, credentials)
    file = open_file(stores, source.location, source.version.size_bytes)
    # Arrays that the NetCDF library can't read either keep their obstacle.
    with (
        suppress(ValueError, TypeError, KeyError, NotImplementedError),
        xr.open_dataset(
            file,
            engine="h5netcdf",
            group=source.header.group or None,
            decode_cf=False,
            phony_dims="access",
            cache=False,
        ) as dataset,
    ):
        for name in opaque:
            if name in dataset.variables:
                metadata = _describe(dataset.variables[name], source.arrays)
                arrays[name] = replace(arrays[name], metadata=metadata)
    return replace(source, header=replace(source.header, arrays=arrays))


def _describe(variable: xr.Variable, others: Mapping[str, ArrayHeader]) -> dict[str, Any]:
    dtype = variable.dtype
    attributes = {str(k): v for k, v in variable.attrs.items()}
    fill = attributes.pop(_FILL, None)
    made = zarr.create_array(
        MemoryStore(),
        shape=variable.shape,
        chunks=tuple(variable.encoding.get("chunksizes") or map(_at_least_one, variable.shape)),
        dtype=str if dtype.kind == "O" else dtype.newbyteorder("="),
        fill_value=fill,
        compressors=None,
        dimension_names=_name_dims(variable, others),
    )
    plain = {
        key: _as_json(encode_zarr_attr_value(value))  # type: ignore[no-untyped-call]
        for key, value in attributes.items()
    }
    if fill is not None:
        plain[_FILL] = FillValueCoder.encode(np.asarray(fill).reshape(-1)[0], dtype)
    found: dict[str, Any] = json.loads(json.dumps(made.metadata.to_dict()))
    return {**found, "attributes": plain}


def _as_json(value: Any) -> Any:
    """Return a value of an attribute as JSON can hold it: a complex number as its two parts."""
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    return [value.real, value.imag] if isinstance(value, complex) else value


def _name_dims(variable: xr.Variable, others: Mapping[str, ArrayHeader]) -> list[str]:
    """Return dimension names; axes without a name in the file are named as in the other arrays."""
    known = {
        place: dim
        for each in others.values()
        if each.metadata.get("dimension_names")
        for place, dim in zip(_places(each.shape), each.dims, strict=True)
        if dim.startswith(PHONY)
    }
    names = []
    for place, dim in zip(_places(variable.shape), map(str, variable.dims), strict=True):
        if dim.startswith(PHONY):
            dim = known.setdefault(place, f"{PHONY}{len(set(known.values()))}")
        names.append(dim)
    return names


def _places(shape: Sequence[int]) -> list[tuple[int, int]]:
    """Return the length of each axis, and its index among the axes of equal length."""
    seen: Counter[int] = Counter()
    places = []
    for length in shape:
        places.append((length, seen[length]))
        seen[length] += 1
    return places


def _at_least_one(length: int) -> int:
    return max(1, length)


_PLAIN_STORES: Mapping[str, AnyObjectStoreConfig] = {
    "file": ObjectStoreConfig.LocalFileSystem("/"),
    "s3": ObjectStoreConfig.S3(S3Options()),
    "gs": ObjectStoreConfig.Gcs({}),
    "gcs": ObjectStoreConfig.Gcs({}),
    "http": ObjectStoreConfig.Http({}),
    "https": ObjectStoreConfig.Http({}),
}


def common_folders(locations: Iterable[str]) -> tuple[str, ...]:
    """Return the deepest folders that contain all locations, one per store."""
    folders: dict[str, list[str]] = {}
    for location in locations:
        scheme, _, rest = location.partition("://")
        host, _, key = rest.partition("/")
        folders.setdefault(f"{scheme}://{host}", []).append("/" + key.rpartition("/")[0])
    return tuple(
        f"{store}{commonpath(paths).rstrip('/')}/" for store, paths in sorted(folders.items())
    )


def plan_containers(
    folders: Sequence[str],
    existing: Mapping[str, VirtualChunkContainer],
    given: Sequence[VirtualChunkContainer],
    tops: Sequence[str] = (),
) -> tuple[VirtualChunkContainer, ...]:
    """Return containers for folders that no existing one covers: the given ones, or one per store.

    `tops` are the folders that the caller named, which later files will be in as well.
    """
    present = index_containers(existing)
    offered = index_containers({each.url_prefix: each for each in given})
    missing = [folder for folder in folders if not present.has_container(folder)]
    plain = [folder for folder in missing if not offered.has_container(folder)]
    used = [offered.find_container(folder) for folder in missing if offered.has_container(folder)]
    prefixes = _find_prefixes(plain, tops)
    containers = [*used, *(VirtualChunkContainer(each, _plain_store(each)) for each in prefixes)]
    return tuple({each.url_prefix: each for each in sorted(containers, key=_prefix)}.values())


_PLAIN_NAME = re.compile(r"[A-Za-z0-9._~-]+")


def _prefix(container: VirtualChunkContainer) -> str:
    return container.url_prefix


def _find_prefixes(folders: Sequence[str], tops: Sequence[str]) -> list[str]:
    """Return one prefix per store that covers all its folders, where that is not a whole disk.

    Names are plain: the official library does not find what is below a name with other characters.
    """
    stores: dict[str, list[str]] = {}
    for folder in folders:
        stores.setdefault(_store_of(folder), []).append(folder)
    prefixes: list[str] = []
    for store, inside in stores.items():
        named = [top for top in tops if _store_of(top) == store]
        wide = _cut_to_plain(*common_folders([*inside, *named]))
        is_whole_disk = wide == "file:///"
        prefixes += [_cut_to_plain(each) for each in inside] if is_whole_disk else [wide]
    return [each for each in prefixes if each != "file:///"] or list(folders)


def _store_of(folder: str) -> str:
    scheme, _, rest = folder.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _cut_to_plain(folder: str) -> str:
    """Return the deepest folder at or above a folder that has only plain names in its path."""
    store = _store_of(folder)
    kept = []
    for name in folder.removeprefix(store).strip("/").split("/"):
        if not _PLAIN_NAME.fullmatch(name):
            break
        kept.append(name)
    return "/".join([store, *kept, ""])


def _plain_store(folder: str) -> AnyObjectStoreConfig:
    scheme = folder.partition("://")[0]
    if scheme not in _PLAIN_STORES:
        raise InvalidInputError(
            f"there is no container for {folder}: give one with containers=",
            kind="no-container-for-virtual-chunk",
        )
    return _PLAIN_STORES[scheme]


_MOST_TASKS_A_SLOT = 64
_NAMING = ("bounds", "climatology", "coordinates", "ancillary_variables", "grid_mapping")
"""CF attributes that hold names of arrays."""


_MOST_GROUPS = 10_000
"""Maximum groups of a file, which may lead in circles."""

OnBadFile = Literal["fail", "skip"]
Eras = Literal["merge", "groups"]
OnFailedCheck = Literal["fail", "quarantine"]


@named_options
@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of an ingest for its source files.

    Parameters
    ----------
    source_group
        Group inside each file; `"*"` takes all groups, each into the group of its path.
    load
        Arrays whose values are written into the repository.
    skip
        Arrays to leave out, by their name in the file.
    rename
        New names of arrays and dimensions, by their name in the file.
    take
        Variables to take, by their new name. Others are left out, but for coordinates, scalars and what
        the taken variables refer to. Default: all.
    convert
        Conversions of values, by variable, or `"*"` for all floating-point variables: `deaccumulate`,
        `to_units`, `round_bits`, a function of a block of values, `per_file` for one of the variable of
        a file, or a list of these. Converted variables are decoded and written.
    eras
        `"groups"` puts files whose variables have other types, codecs, chunks or fill values into
        groups `era_1`, `era_2` and so on below the group; `"merge"` puts all into one.
    containers, credentials
        Access to the files, as for `frazil.virtual.open`.
    on_bad_file
        `"skip"` leaves out files that can't be read; `"fail"` raises.
    on_failed_check
        `"quarantine"` leaves out the files that checks blame; the next ingest tries them again.
    """

    source_group: str = ""
    load: Collection[str] = ()
    skip: Collection[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    take: Collection[str] = ()
    convert: Conversions = field(default_factory=dict)
    eras: Eras = "merge"
    containers: Sequence[VirtualChunkContainer] = ()
    credentials: Credentials = field(default_factory=dict, repr=False)
    on_bad_file: OnBadFile = "fail"
    on_failed_check: OnFailedCheck = "fail"


@dataclass(frozen=True, slots=True)
class Reading(SourceOptions):
    """Options for opening source files, with the dimensions along which they are concatenated."""

    dims: tuple[str, ...] = ()
    """Concatenation dimensions, by their new names."""
    coords: Mapping[str, Coordinate] = field(default_factory=dict)
    """Function that returns the coordinate of a file, by dimension."""
    convert: Mapping[str, tuple[Conversion, ...]] = field(default_factory=dict)
    """Conversions of values, by variable."""

    @property
    def is_tree(self) -> bool:
        """Return whether all groups of the files are read."""
        return self.source_group == WHOLE_TREE

    def find_names(self, format: str) -> Mapping[str, str]:
        """Return the new names of arrays and dimensions of a file, by their names in the file."""
        return {**find_aliases(self.dims), **self.rename} if format == GRIB.name else self.rename

    def wants(self, name: str) -> bool:
        """Return whether an array is wanted of known files; of those with groups none is."""
        is_taken = not self.take or self.rename.get(name, name) in self.take
        return is_taken and name not in self.skip and self.eras != "groups" and not self.is_tree

    def open_stores(self) -> SourceStores:
        """Return the stores of the sources, with connections shared by all files."""
        return SourceStores(self.containers, self.credentials)


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """Parsed source without its references."""

    location: str
    header: SourceHeader
    folders: tuple[str, ...]
    """Folders that its references point to, one per store."""
    arrays: tuple[str, ...] = ()
    """Names of its arrays in the file."""
    dims: tuple[str, ...] = ()
    """Names of its dimensions in the file."""
    digest: str | None = None
    """Digest of its content, if its version doesn't identify it."""
    left_out: frozenset[str] = frozenset()
    """Names of its arrays in the file that options leave out."""

    @property
    def version(self) -> FileVersion:
        """Return the version that the ledger knows the file by."""
        version = self.header.version
        return version if self.digest is None else replace(version, e_tag=self.digest)


@dataclass(frozen=True, slots=True)
class BadFile:
    """File that can't be read as data, and the reason."""

    location: str
    reason: str
    is_empty: bool = False
    """True if the file has nothing to ingest: no arrays, or no such group."""
    rival: str | None = None
    """File for the same place that was taken instead."""


FileT = TypeVar("FileT")
Outcome = ParsedSource | BadFile


def parse(
    location: str, reading: Reading, stores: SourceStores | None = None
) -> list[tuple[Outcome, Source | None]]:
    """Parse the groups of one file that are read; raise StorageError if its store does not respond.

    A file with a group that can't be read is a bad one. `stores` may be shared by files that are read
    with the same options.
    """
    stores = stores or reading.open_stores()
    try:
        # Computed before anything is read, so that a later change can't be missed.
        digest = find_uncertain(stores, location, None)
        found = _parse(location, reading, stores)
        versions = [each.header.version for each, _ in found if isinstance(each, ParsedSource)]
        if digest is None and versions:
            digest = find_uncertain(stores, location, versions[0])
            found = found if digest is None else _parse(location, reading, stores)
        return [
            (replace(each, digest=digest) if isinstance(each, ParsedSource) else each, source)
            for each, source in found
        ]
    except (ObjectNotFoundError, ObjectRangeError) as error:
        return [(BadFile(location, error.message), None)]
    except (StorageError, BaseError, *INTERRUPTIONS):
        raise
    except IcechunkError as error:
        return [(BadFile(location, error.message, error.kind == "node-not-found"), None)]
    except BaseException as error:
        # Values are decoded by third-party code, which may raise any exception.
        text = str(error).strip().partition("\n")[0]
        return [(BadFile(location, f"it can't be read: {type(error).__name__}: {text}"), None)]


def _parse(
    location: str, reading: Reading, stores: SourceStores
) -> list[tuple[Outcome, Source | None]]:
    opened = list(_open_groups(location, reading, stores))
    if not any(each.arrays for each in opened):
        return [(BadFile(location, _explain_empty(location, reading, stores), is_empty=True), None)]
    above: dict[str, Source] = {}
    dims = [dim for dim in reading.dims if dim not in reading.coords]
    for source in opened:
        described = describe_opaque(source, reading.containers, reading.credentials)
        outer = _find_outer_dims(source) if reading.is_tree else {}
        names = {**outer, **reading.find_names(source.header.format)}
        renamed = rename(leave_out(described, reading.skip), names)
        renamed = leave_out(renamed, find_untaken(renamed, reading.take) if reading.take else ())
        above[source.header.group] = _inherit(renamed, above, dims)
    made = (add_dimensions(e.with_whole(), reading.dims, reading.coords) for e in above.values())
    parsed = [add_digests(each, reading.dims, stores) for each in made]
    if not any(each.arrays for each in parsed):
        known = ", ".join(name for each in opened for name in each.arrays)
        reason = f"skip= leaves none of its arrays {known}"
        return [(BadFile(location, reason, is_empty=True), None)]
    pairs = zip(opened, parsed, strict=True)
    return [(_without_references(location, *each, reading), each[1]) for each in pairs]


def _without_references(
    location: str, opened: Source, parsed: Source, reading: Reading
) -> ParsedSource:
    targets = {text for each in parsed.references.values() for text in each.locations}
    folders = common_folders([location, *targets])
    names = list(opened.arrays)
    if reading.is_tree:
        # Options name what is in a group by its path as well, and whole groups.
        names += [join(opened.header.group, each) for each in (*opened.arrays, *opened.groups)]
    new = reading.find_names(opened.header.format)
    there = {each for each in opened.arrays if {each, new.get(each, each)} & parsed.arrays.keys()}
    left = frozenset(each for each in {*opened.arrays} - there if not reading.wants(each))
    found = tuple(dict.fromkeys(names)), tuple(opened.dims)
    return ParsedSource(location, parsed.header, folders, *found, left_out=left)


def _open_groups(location: str, reading: Reading, stores: SourceStores) -> Iterator[Source]:
    """Yield the group that is read, or each group of a tree after the one it is in."""
    loading = Loading(frozenset(reading.load), SMALL_BYTES)
    waiting = [""] if reading.is_tree else [reading.source_group]
    for _ in range(_MOST_GROUPS):
        if not waiting:
            return
        group = waiting.pop(0)
        if reading.is_tree and group in reading.skip:
            continue
        source = open_from(stores, location, group=group, loading=loading)
        yield source
        if reading.is_tree:
            waiting += [f"{group}/{each}".strip("/") for each in source.groups]
    raise InvalidInputError(f"it has more than {_MOST_GROUPS} groups: name one with source_group=")


def _find_outer_dims(source: Source) -> dict[str, str]:
    """Return plain names for the dimensions of groups that a group is in."""
    inside = f"{source.header.group}/"
    pairs = ((dim, *dim.rpartition("/")) for dim in source.dims)
    return {
        dim: plain for dim, outer, _, plain in pairs if outer and inside.startswith(f"{outer}/")
    }


def _inherit(source: Source, above: Mapping[str, Source], dims: Iterable[str]) -> Source:
    """Return the source with the coordinates that it lacks of the groups that it is in."""
    arrays = dict(source.arrays)
    path = source.header.group
    while path and arrays:
        path = path.rpartition("/")[0]
        for dim in dims:
            index = above[path].arrays.get(dim) if path in above else None
            if index is None or index.values is None or dim in arrays:
                continue
            length = source.dims.get(dim)
            if index.shape == (() if length is None else (length,)):
                arrays[dim] = index
    return Source(replace(source.header, arrays=arrays), source.references)


def _explain_empty(location: str, reading: Reading, stores: SourceStores) -> str:
    if reading.is_tree:
        return "none of its groups has arrays"
    where = f"group {reading.source_group!r}" if reading.source_group.strip("/") else "root group"
    groups = find_groups(stores, location, reading.source_group)
    if not groups:
        return f"its {where} has no arrays, and neither has any group below"
    known = ", ".join(groups)
    return f"its {where} has no arrays: source_group= takes one of {known}, or all with '*'"


def leave_out(source: Source, names: Collection[str]) -> Source:
    """Return the source without some of its arrays."""
    group = source.header.group
    kept = {each for each in source.arrays if not {each, join(group, each)} & set(names)}
    arrays = {name: each for name, each in source.arrays.items() if name in kept}
    references = {name: each for name, each in source.references.items() if name in kept}
    return Source(replace(source.header, arrays=arrays), references)


def find_untaken(source: Source, taken: Collection[str]) -> set[str]:
    """Return the variables that are neither taken nor needed to understand those that are."""
    arrays = source.arrays
    kept = {
        name for name, each in arrays.items() if name in taken or each.is_index or not each.dims
    }
    waiting = list(kept)
    while waiting:
        attributes = arrays[waiting.pop()].attributes
        words = {
            word
            for name in _NAMING
            for word in re.split(r"[:\s]+", str(attributes.get(name, "")))
            if word in arrays
        }
        waiting += words - kept
        kept |= words
    return arrays.keys() - kept


def rename(source: Source, names: Mapping[str, str]) -> Source:
    """Return the source with some arrays and dimensions renamed."""
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
    """Rename arrays in the CF attributes that refer to them."""
    found = dict(attributes)
    for each in _NAMING:
        if isinstance(found.get(each), str):
            found[each] = " ".join(names.get(word, word) for word in found[each].split())
    return found


def add_lacking(
    groups: dict[str, dict[str, ParsedSource]],
    there: Mapping[str, SourceHeader],
    locations: Sequence[str],
    dims: Sequence[str],
) -> None:
    """Add the coordinates of files without a group whose coordinates are those of one above it.

    Its variables read as fill values for these files, and groups stay aligned. `there` are the groups
    of the repository.
    """
    for inside in dict.fromkeys([*groups, *there]):
        sources = groups.get(inside, {})
        headers = [each.header for each in sources.values()]
        headers += [there[inside]] if inside in there else []
        having = [dim for dim in dims if any(dim in each.arrays for each in headers)]
        above = inside
        while above and having:
            above = above.rpartition("/")[0]
            upper = groups.get(above, {})
            others = [upper[each].header if each in upper else None for each in sources]
            others += [there.get(above)] if inside in there else []
            pairs = list(zip(headers, others, strict=True))
            if not all(_share(*pair, dim) for pair in pairs for dim in having):
                continue
            for location in [each for each in locations if each in upper and each not in sources]:
                other = upper[location]
                arrays = {dim: other.header.arrays[dim] for dim in having}
                header = replace(other.header, group=inside, arrays=arrays)
                added = replace(other, header=header, arrays=(), dims=())
                groups.setdefault(inside, {})[location] = added
            break


def _share(one: SourceHeader, other: SourceHeader | None, dim: str) -> bool:
    """Return whether two groups have equal coordinates of a dimension."""
    mine, theirs = find_values(one, dim), None if other is None else find_values(other, dim)
    return mine is not None and theirs is not None and are_equal(mine, theirs)


def share_equal(outcomes: Iterable[Outcome], pool: HeaderPool) -> list[Outcome]:
    """Return outcomes that share what is equal in their headers, which is then pickled once."""
    return [
        _share_source(each, pool) if isinstance(each, ParsedSource) else each for each in outcomes
    ]


def _share_source(source: ParsedSource, pool: HeaderPool) -> ParsedSource:
    header = pool.share_header(source.header)
    location = header.location if header.location == source.location else source.location
    names = {name: pool.share(getattr(source, name)) for name in ("folders", "arrays", "dims")}
    return replace(source, location=location, header=header, **names)


def pack(source: Source) -> bytes:
    """Compress the references of a source, to be kept for later."""
    content = (source.header.version, dict(source.references))
    return zstandard.compress(pickle.dumps(content, pickle.HIGHEST_PROTOCOL), 1)


def unpack(data: bytes) -> tuple[virtual.FileVersion, Mapping[str, ReferenceColumns]]:
    """Return the references of a source, and the file version they were parsed from."""
    version, references = pickle.loads(zstandard.decompress(data))
    return version, references


def group_files(files: Sequence[FileT], slots: int, most: int) -> list[Sequence[FileT]]:
    """Group files by task: at most `most`, fewer if there would be less than three tasks per slot.

    Groups are larger if there would be so many tasks that their overhead dominates.
    """
    slots = max(1, slots)
    size = max(1, min(most, -(-len(files) // (3 * slots))))
    size = max(size, -(-len(files) // (_MOST_TASKS_A_SLOT * slots)))
    return [files[start : start + size] for start in range(0, len(files), size)]


def bad_files(outcomes: Iterable[Outcome]) -> tuple[BadFile, ...]:
    """Return the files that could not be read."""
    return tuple(each for each in outcomes if isinstance(each, BadFile))


def current_config(repository: Repository) -> RepositoryConfig:
    """Return the saved configuration, overridden by the one the repository was opened with."""
    saved = Repository.fetch_config(repository.storage)
    return repository.config if saved is None else saved.merge(repository.config)


def add_to(
    config: RepositoryConfig, containers: Sequence[VirtualChunkContainer], rules: SplitSizes
) -> RepositoryConfig:
    """Return a configuration with the missing containers, and the missing rules after its own."""
    added = add_rules(config, rules)
    for container in containers:
        if container.url_prefix not in (added.virtual_chunk_containers or {}):
            added.set_virtual_chunk_container(container)
    return added


def find_by_prefix(credentials: Credentials, prefix: str) -> AnyCredential | None:
    """Return the credentials of the longest URL prefix that a container is below."""
    fitting = [each for each in credentials if prefix.startswith(each)]
    return credentials[max(fitting, key=len)] if fitting else None


def configure(
    repository: Repository,
    config: RepositoryConfig,
    folders: Sequence[str],
    credentials: Credentials,
) -> Repository:
    """Reopen the repository with a configuration and authorized access to some folders."""
    index = index_containers(config.virtual_chunk_containers or {})
    needed = {each.url_prefix: each for each in map(index.find_container, folders)}
    access = {
        prefix: find_by_prefix(credentials, prefix) or default_credential(container)
        for prefix, container in needed.items()
        if prefix not in repository.authorized_virtual_container_prefixes
    }
    return repository.reopen(config).authorize(access)


def save(
    repository: Repository, containers: Sequence[VirtualChunkContainer], rules: SplitSizes
) -> None:
    """Save the added containers and rules, and no other setting this repository was opened with."""
    saved = Repository.open(repository.storage)
    wanted = add_to(saved.config, containers, rules)
    if wanted != saved.config:
        saved.reopen(wanted).save_config()


@dataclass(frozen=True, slots=True)
class SourceData:
    """Opens source files as Xarray datasets.

    HDF5 is read with its own library, independently of the references; other formats are read
    through references that are created anew.
    """

    reading: Reading

    def __call__(self, location: str) -> xr.Dataset:
        stores = SourceStores(self.reading.containers, self.reading.credentials)
        with without_codec_warnings():
            file = _find_hdf5(stores, key_url(location)) if find_spec("h5netcdf") else None
            return self._open_references(location) if file is None else self._open_hdf5(file)

    def _open_hdf5(self, file: Path | RawIOBase) -> xr.Dataset:
        # Unnamed dimensions get phony names, which are not used.
        found: xr.Dataset = xr.open_dataset(
            file,  # type: ignore[arg-type]
            engine="h5netcdf",
            group=self.reading.source_group or None,
            phony_dims="access",
        )
        names = {old: new for old, new in self.reading.rename.items() if old in found.variables}
        return decode_climatologies(found).reset_coords().rename_vars(names)

    def _open_references(self, location: str) -> xr.Dataset:
        store: Any = refer_to(location, self.reading).store
        found: xr.Dataset = xr.open_zarr(store, consolidated=False, chunks=None)
        return found


def refer_to(location: str, reading: Reading) -> Session:
    """Return a session of an in-memory repository with references to a source file."""
    found = virtual.open(
        location,
        group=reading.source_group,
        containers=reading.containers,
        credentials=reading.credentials,
    )
    source = rename(found, reading.find_names(found.header.format))
    plan = virtual.combine([source.header])
    targets = {text for each in source.references.values() for text in each.locations}
    folders = common_folders([location, *targets])
    repository = Repository.create(in_memory_storage())
    known = {each.url_prefix: each for each in reading.containers}
    config = add_to(repository.config, reading.containers, ())
    config = add_to(config, plan_containers(folders, known, ()), ())
    session = configure(repository, config, folders, reading.credentials).writable_session("main")
    virtual.write(plan.without([each.name for each in plan.reencoded]), session.store, [source])
    return session


def _find_hdf5(stores: SourceStores, url: str) -> Path | RawIOBase | None:
    """Return the file at a URL if it is HDF5, or None."""
    try:
        size = source_formats.observe(stores, url).size_bytes
    except ObjectNotFoundError:
        return None
    head = source_formats.read_head(stores, url, size)
    if recognise_file(url, head) != HDF5:
        return None
    store, key = stores.resolve(url)
    if isinstance(store, LocalStore):
        return Path("/", key)

    def read_range(start: int, end: int) -> bytes:
        return bytes(obstore.get_range(store, key, start=start, end=end))

    return BlockFile(read_range, size, head)
