"""Values that the draft and the alpha dialects can hold, in the form in which they come back."""

from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from frazil.format.alpha import LAYOUTS
from frazil.format.header import Dialect
from frazil.format.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.format.legacy_trees import RankedRefs, sort_keys
from frazil.format.manifest import (
    ChunkRef,
    ChunkTable,
    ETag,
    InlineRef,
    LastModified,
    Manifest,
    NativeRef,
    VirtualRef,
)
from frazil.format.metadata import Metadata, segment_order
from frazil.format.snapshot import (
    ArrayData,
    Dimension,
    History,
    HistoryEntry,
    ManifestFileInfo,
    ManifestRef,
    Node,
    Snapshot,
    TransactionLog,
    nodes_by_path,
)
from frazil.format.zarr_metadata import (
    CHUNK_KEY_ENCODINGS,
    DATA_TYPES,
    NON_FINITE,
    ArrayMetadata,
    Extension,
    GroupMetadata,
    encode_zarr_json,
)

LEGACY_DIALECTS = [Dialect.DRAFT, *LAYOUTS]
LOG_DIALECTS = [layout.dialect for layout in LAYOUTS.values() if layout.has_transaction_logs]

uint32 = st.integers(0, 2**32 - 1)
uint64 = st.integers(0, 2**64 - 1)
lengths = st.integers(0, 2**40)
chunk_lengths = st.integers(0, 2**20)
texts = st.text(max_size=8)
times = st.integers(-62_135_596_800 * 10**9, 253_402_300_799 * 10**9)

_scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | texts
    | st.floats(allow_nan=False, allow_infinity=False)
)  # fmt: skip
json_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_maps = st.dictionaries(texts, json_values, max_size=3)
sorted_json_maps = json_maps.map(sort_keys)
segments = st.text(min_size=1, max_size=4).map(lambda text: text.replace("/", "-"))
paths = (
    st.lists(segments.filter(lambda segment: segment not in (".", "..")), max_size=3)
    .map(lambda parts: "/" + "/".join(parts))
)  # fmt: skip


@cache
def object_ids(kind: type[Any], dialect: Dialect) -> st.SearchStrategy[Any]:
    """Ids of the size that the dialect has."""
    size = 16 if dialect is Dialect.DRAFT else 12
    return st.binary(min_size=size, max_size=size).map(kind)


@cache
def node_ids(dialect: Dialect) -> st.SearchStrategy[NodeId]:
    """Node ids; numbers of 32 bits where the dialect has them."""
    if dialect in (Dialect.DRAFT, Dialect.ALPHA_A):
        return uint32.map(NodeId.from_number)
    return st.binary(min_size=8, max_size=8).map(NodeId)


# Zarr metadata


@cache
def _floats(width: int) -> st.SearchStrategy[float | str]:
    finite = st.floats(allow_nan=False, allow_infinity=False, width=32 if width == 32 else 64)
    return finite | st.sampled_from(sorted(NON_FINITE))


@cache
def fill_values(data_type: str) -> st.SearchStrategy[Any]:
    """Fill values of a data type, as zarr.json has them."""
    if data_type.startswith(("int", "uint")):
        bits = int(data_type.lstrip("uint"))
        low = -(2 ** (bits - 1)) if data_type.startswith("int") else 0
        return st.integers(low, low + 2**bits - 1)
    if data_type.startswith("complex"):
        return st.lists(_floats(int(data_type[7:]) // 2), min_size=2, max_size=2)
    if data_type.startswith("float"):
        return _floats(64 if data_type == "float64" else 32)
    others = {"bool": st.booleans(), "string": texts}
    return others.get(data_type, st.binary(max_size=4).map(list))


@cache
def data_types(dialect: Dialect) -> st.SearchStrategy[str]:
    """Data types that the dialect knows."""
    if dialect is not Dialect.DRAFT:
        return st.sampled_from(sorted(DATA_TYPES))
    plain = st.sampled_from(sorted(DATA_TYPES - {"string", "bytes"}))
    return plain | st.integers(0, 64).map(lambda bits: f"r{bits}")


extensions = st.lists(st.builds(Extension, texts, st.none() | json_maps), max_size=2).map(tuple)
attributes = st.none() | sorted_json_maps


@st.composite
def array_metadata(draw: st.DrawFn, dialect: Dialect, axes: int) -> ArrayMetadata:
    """The pieces of an array's zarr.json."""
    data_type = draw(data_types(dialect))
    names = st.lists(st.none() | texts, min_size=axes, max_size=axes).map(tuple)
    return ArrayMetadata(
        attributes=draw(attributes),
        shape=tuple(draw(st.lists(lengths, min_size=axes, max_size=axes))),
        data_type=data_type,
        chunk_shape=tuple(draw(st.lists(chunk_lengths, min_size=axes, max_size=axes))),
        chunk_key_encoding=draw(st.sampled_from(sorted(CHUNK_KEY_ENCODINGS))),
        fill_value=draw(fill_values(data_type)),
        codecs=draw(extensions),
        storage_transformers=draw(st.none() | extensions),
        dimension_names=draw(st.none() | names),
    )


# Snapshots


@st.composite
def nodes(draw: st.DrawFn, path: str, dialect: Dialect) -> Node:
    """A group or an array at a path."""
    id = draw(node_ids(dialect))
    if draw(st.booleans()):
        return Node(id, path, encode_zarr_json(GroupMetadata(draw(attributes))))
    axes = draw(st.integers(0, 3))
    metadata = draw(array_metadata(dialect, axes))
    array = ArrayData(
        shape=tuple(
            Dimension(length, -(-length // chunk) if chunk else 0, chunk)
            for length, chunk in zip(metadata.shape, metadata.chunk_shape, strict=True)
        ),
        dimension_names=metadata.dimension_names,
        manifests=tuple(draw(st.lists(manifest_refs(dialect, axes), max_size=2))),
    )
    return Node(id, path, encode_zarr_json(metadata), array)


@st.composite
def manifest_refs(draw: st.DrawFn, dialect: Dialect, axes: int) -> ManifestRef:
    """A pointer to a manifest, with extents where the dialect has them."""
    has_extents = dialect is not Dialect.DRAFT and LAYOUTS[dialect].has_extents
    size = axes if has_extents else 0
    extents = draw(st.lists(st.tuples(uint32, uint32), min_size=size, max_size=size))
    return ManifestRef(draw(object_ids(ManifestId, dialect)), tuple(extents))


@st.composite
def manifest_files(draw: st.DrawFn, dialect: Dialect) -> ManifestFileInfo:
    """A manifest file with the sizes that the dialect records."""
    sizes: dict[str, Any] = {name: draw(uint64) for name in LAYOUTS[dialect].manifest_file_sizes}
    return ManifestFileInfo(draw(object_ids(ManifestId, dialect)), **sizes)


@st.composite
def histories(draw: st.DrawFn, dialect: Dialect) -> History:
    """Ancestors inside a snapshot."""
    entries = st.builds(HistoryEntry, object_ids(SnapshotId, dialect), times, texts)
    return History(
        total_parents=draw(uint32),
        short_term_parents=draw(st.integers(0, 2**16 - 1)),
        short_term_history=tuple(draw(st.lists(entries, max_size=2))),
        started_at=draw(times),
    )


@st.composite
def snapshots(draw: st.DrawFn, dialect: Dialect) -> Snapshot:
    """A snapshot that the dialect can hold."""
    names = sorted(draw(st.sets(paths, max_size=4)), key=segment_order)
    tree = nodes_by_path(draw(nodes(path, dialect)) for path in names)
    history = draw(histories(dialect)) if dialect is not Dialect.ALPHA_H else None
    if history is None:
        parent = draw(st.none() | object_ids(SnapshotId, dialect))
    else:
        parent = history.short_term_history[0].id if history.short_term_history else None
    if dialect is Dialect.DRAFT:
        files = _manifest_files_of(tree.values())
    else:
        # A snapshot lists every manifest that an array points to.
        fewest = 1 if _manifest_files_of(tree.values()) else 0
        files = draw(st.lists(manifest_files(dialect), min_size=fewest, max_size=2).map(tuple))
    return Snapshot(
        id=draw(object_ids(SnapshotId, dialect)),
        parent_id=parent,
        flushed_at=draw(times),
        message=draw(texts),
        metadata=Metadata(draw(json_maps)),
        nodes=tree,
        manifest_files=files,
        history=history,
    )


def _manifest_files_of(all_nodes: Any) -> tuple[ManifestFileInfo, ...]:
    ids = [ref.id for node in all_nodes if node.array for ref in node.array.manifests]
    return tuple(ManifestFileInfo(id) for id in dict.fromkeys(ids))


# Manifests and transaction logs


@cache
def chunk_refs(dialect: Dialect) -> st.SearchStrategy[ChunkRef]:
    """References, with checksums where the dialect has them."""
    has_checksums = dialect is not Dialect.DRAFT and LAYOUTS[dialect].has_checksums
    checksums = texts.map(ETag) | st.integers(1, 2**32 - 1).map(LastModified)
    return (
        st.builds(NativeRef, object_ids(ChunkId, dialect), uint64, uint64)
        | st.builds(
            VirtualRef, texts, uint64, uint64, st.none() | checksums if has_checksums else st.none()
        )
        | st.binary(max_size=8).map(InlineRef)
    )


@st.composite
def chunk_tables(draw: st.DrawFn, dialect: Dialect, axes: int) -> ChunkTable:
    """A table with at least one reference."""
    where = st.lists(uint32, min_size=axes, max_size=axes).map(tuple)
    refs = draw(st.dictionaries(where, chunk_refs(dialect), min_size=1, max_size=4))
    return ChunkTable.of(axes, refs, 16 if dialect is Dialect.DRAFT else 12)


@st.composite
def ranked_refs(draw: st.DrawFn, dialect: Dialect) -> RankedRefs:
    """References of one node, with one or two numbers of axes."""
    axes = sorted(draw(st.sets(st.integers(0, 3), min_size=1, max_size=2)))
    tables = tuple(draw(chunk_tables(dialect, count)) for count in axes)
    return RankedRefs(tables, 16 if dialect is Dialect.DRAFT else 12)


@st.composite
def manifests(draw: st.DrawFn, dialect: Dialect) -> Manifest:
    """A manifest that the dialect can hold."""
    has_id = dialect is not Dialect.DRAFT and LAYOUTS[dialect].has_manifest_id
    id = draw(object_ids(ManifestId, dialect)) if has_id else None
    return Manifest(id, draw(st.dictionaries(node_ids(dialect), ranked_refs(dialect), max_size=3)))


@st.composite
def coordinates(draw: st.DrawFn) -> Any:
    """Sorted rows of coordinates, none twice, at least one."""
    axes = draw(st.integers(0, 3))
    rows = draw(st.sets(st.tuples(*[uint32] * axes), min_size=1, max_size=4))
    return np.array(sorted(rows), np.uint32).reshape(len(rows), axes)


@cache
def transaction_logs(dialect: Dialect) -> st.SearchStrategy[TransactionLog]:
    """A log that the dialect can hold."""
    node_sets = st.frozensets(node_ids(dialect), max_size=3)
    return st.builds(
        TransactionLog,
        id=object_ids(SnapshotId, dialect),
        new_groups=node_sets,
        new_arrays=node_sets,
        deleted_groups=node_sets,
        deleted_arrays=node_sets,
        updated_attributes=node_sets,
        updated_arrays=node_sets,
        updated_chunks=st.dictionaries(node_ids(dialect), coordinates(), max_size=3),
    )
