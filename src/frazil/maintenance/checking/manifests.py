"""Manifest files: pure checks of one, against what snapshots expect of it and what is there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from frazil.errors import FormatError
from frazil.format.chunks import ChunkTable
from frazil.format.coordinates import Extents, bounding_box, rows_inside
from frazil.format.dialect import Dialect
from frazil.format.files import decode_manifest
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import Manifest
from frazil.format.references import ChunkKind
from frazil.format.v2.manifest_reader import EncodedRefs
from frazil.format.v2.orders import is_ascending
from frazil.maintenance.checking.chunks import NeededFiles, Place, check_inline, check_native
from frazil.maintenance.checking.inventory import ChunkFiles
from frazil.maintenance.checking.problems import Problem, Problems, error, warning
from frazil.maintenance.checking.report import Counts
from frazil.maintenance.checking.snapshots import Use, check_header
from frazil.maintenance.checking.virtual import Sources, check_locations, collect_sources
from frazil.maintenance.id_columns import Ids
from frazil.maintenance.marking import distinct_chunk_ids
from frazil.virtual.locations import ContainerIndex


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a manifest of a repository is held against."""

    dialect: Dialect
    chunks: ChunkFiles | None
    """None where they are listed later, and by others."""
    chunk_folder: str
    containers: ContainerIndex | None
    """None where the configuration can't be read."""
    collects_sources: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ManifestFindings:
    """A manifest file without what need not be remembered."""

    id: ManifestId
    size_bytes: int
    num_chunk_refs: int
    chunk_ids: Ids
    """Of its native chunks, each once, sorted."""
    chunk_ends: NDArray[np.uint64] | None
    """How many bytes of each are needed; None where it was known which files there are."""
    sources: Sources
    counts: Counts
    problems: tuple[Problem, ...]


def check_manifest_file(
    data: bytes, id: ManifestId, key: str, uses: Mapping[Use, str], around: Surroundings
) -> ManifestFindings:
    """Look at a manifest file; raises FormatError for a damaged one."""
    decoded = decode_manifest(data)
    manifest = _decode_refs(decoded.value)
    tables = [
        (table, Place(key, path, around.chunk_folder))
        for path, table in _read_tables(manifest, uses)
    ]
    problems = chain(
        check_header(decoded.header, key, around.dialect),
        _check_identity(manifest, id, key),
        _check_order(decoded.value, uses, key),
        _check_uses(manifest, uses, key),
        *(_check_table(table, place, around) for table, place in tables),
    )
    needed = _find_needed(manifest) if around.chunks is None else None
    return ManifestFindings(
        id,
        len(data),
        len(manifest),
        distinct_chunk_ids(manifest) if needed is None else needed.ids,
        None if needed is None else needed.ends,
        collect_sources(tables) if around.collects_sources else {},
        sum((_count(table) for table in manifest.tables().values()), Counts(manifests=1)),
        tuple(problems),
    )


def _find_needed(manifest: Manifest) -> NeededFiles:
    return NeededFiles.of(manifest.tables().values())


def _decode_refs(manifest: Manifest) -> Manifest:
    """The same with its references decoded, which is worth doing once."""
    arrays = {
        id: refs.table() if isinstance(refs, EncodedRefs) else refs
        for id, refs in manifest.arrays.items()
    }
    return replace(manifest, arrays=arrays)


def _read_tables(manifest: Manifest, uses: Mapping[Use, str]) -> Iterator[tuple[str, ChunkTable]]:
    """The references of each array that a snapshot has, once; of others nobody asks."""
    wanted = {use.node_id: (path, use.axes) for use, path in uses.items()}
    for node_id, (path, axes) in wanted.items():
        refs = manifest.arrays.get(node_id)
        if refs is not None:
            table = refs.table()
            yield path, table if table.axes == axes else _of_axes(manifest, node_id, axes)


def _of_axes(manifest: Manifest, node_id: NodeId, axes: int) -> ChunkTable:
    try:
        return manifest.table(node_id, axes)
    except FormatError:
        return ChunkTable.empty(axes)


def _check_table(table: ChunkTable, place: Place, around: Surroundings) -> Problems:
    if around.chunks is not None:
        yield from check_native(table, around.chunks, place)
    yield from check_inline(table, place)
    yield from check_locations(table, place, around.containers, around.dialect)


def _check_identity(manifest: Manifest, id: ManifestId, key: str) -> Problems:
    if manifest.id is not None and manifest.id != id:
        yield error(key, f"the manifest in it is {manifest.id}")


def _check_order(manifest: Manifest, uses: Mapping[Use, str], key: str) -> Problems:
    paths = {use.node_id: path for use, path in uses.items()}
    encoded = {id: refs for id, refs in manifest.arrays.items() if isinstance(refs, EncodedRefs)}
    if not is_ascending(list(encoded)):
        yield error(key, "the arrays are not in the order of their ids")
    for id, refs in encoded.items():
        if not refs.is_in_order():
            what = "the references are not in order, and readers that search miss some"
            yield error(key, what, path=paths.get(id))


def _check_uses(manifest: Manifest, uses: Mapping[Use, str], key: str) -> Problems:
    for use, path in uses.items():
        if use.extents is None:
            continue
        refs = manifest.arrays.get(use.node_id)
        if refs is None or not len(refs):
            yield error(key, "it has no references of this array", path=path)
            continue
        try:
            table = refs.with_axes(use.axes)
        except FormatError as failure:
            yield error(key, failure.message, path=path)
            continue
        yield from check_coverage(table, use.extents, key, path)


def check_coverage(table: ChunkTable, extents: Extents, key: str, path: str) -> Problems:
    """Whether extents are the smallest that hold all references."""
    if not extents or len(extents) != table.axes or bounding_box(table.coordinates) == extents:
        return
    outside = np.flatnonzero(~rows_inside(table.coordinates, extents))
    if outside.size:
        first = tuple(table.coordinates[outside[0]].tolist())
        what = (
            f"{outside.size} references lie outside of the extents {extents}, and nobody finds them"
        )
        yield error(key, what, path=path, coordinate=first)
    else:
        yield warning(key, f"the extents {extents} are larger than its references need", path=path)


def _count(table: ChunkTable) -> Counts:
    kinds = np.bincount(table.kind, minlength=int(max(ChunkKind)) + 1).tolist()
    return Counts(
        native_refs=kinds[ChunkKind.NATIVE],
        inline_refs=kinds[ChunkKind.INLINE],
        virtual_refs=kinds[ChunkKind.VIRTUAL],
    )
