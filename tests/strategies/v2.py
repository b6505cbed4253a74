"""Values that V1 and V2 files can hold, in the form in which they come back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from frazil.format import repo_info as model
from frazil.format.coordinates import Coordinates
from frazil.format.ids import SnapshotId
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
from frazil.format.metadata import Value, segment_order
from frazil.format.repo_info import RepoInfo, RepoStatus, SnapshotInfo, Update, UpdateType
from frazil.format.snapshot import (
    ArrayData,
    Dimension,
    ManifestFileInfo,
    ManifestRef,
    Move,
    Node,
    NodeType,
    Snapshot,
    TransactionLog,
    nodes_by_path,
)
from tests.strategies.values import (
    blobs,
    chunk_ids,
    json_values,
    manifest_ids,
    metadata,
    microsecond_times,
    names,
    node_ids,
    optional_blobs,
    paths,
    snapshot_ids,
    texts,
    uint16,
    uint32,
    uint64,
)

SPEC_VERSIONS = (1, 2)

# Chunks

locations = (
    st.integers(0, 3).map(lambda number: f"s3://bucket/file-{number}.nc")
    | texts
    | st.integers(0, 2).map(lambda number: "s3://bucket/" + "ü" * (600 + number))
)
"""Few distinct ones, any text, and some of more than 1024 bytes."""

checksums = texts.map(ETag) | st.integers(1, 2**32 - 1).map(LastModified)
native_refs = st.builds(NativeRef, chunk_ids, st.just(0) | uint64, uint64)
virtual_refs = st.builds(VirtualRef, locations, uint64, uint64, st.none() | checksums)
inline_refs = blobs.map(InlineRef)
chunk_refs: st.SearchStrategy[ChunkRef] = native_refs | virtual_refs | inline_refs

small_indexes = st.integers(0, 5)
near_the_last_index = st.integers(2**32 - 4, 2**32 - 1)
"""Of three such axes a grid has more cells than 64 bits can number."""


def indexes(axes: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Chunk coordinates: dense, sparse, and at the end of what uint32 holds."""
    dense = st.tuples(*[small_indexes] * axes)
    return dense | st.tuples(*[small_indexes | near_the_last_index | uint32] * axes)


def ref_maps(axes: int, *, min_size: int = 0) -> st.SearchStrategy[dict[Any, ChunkRef]]:
    """References by coordinate, at most one where there are no axes."""
    kinds = st.sampled_from([chunk_refs, native_refs, virtual_refs, inline_refs])
    return kinds.flatmap(
        lambda refs: st.dictionaries(indexes(axes), refs, min_size=min_size, max_size=12)
    )


axes_counts = st.integers(0, 4)


@st.composite
def chunk_tables(draw: st.DrawFn, *, min_size: int = 1) -> ChunkTable:
    """A table of references, some with extra bytes."""
    axes = draw(axes_counts)
    return draw(with_extras(ChunkTable.of(axes, draw(ref_maps(axes, min_size=min_size)))))


@st.composite
def with_extras(draw: st.DrawFn, table: ChunkTable) -> ChunkTable:
    """The table with extra bytes at some of its references."""
    extras = draw(st.just(()) | st.lists(blobs, max_size=3).map(tuple))
    codes = st.integers(-1, len(extras) - 1)
    rows = draw(st.lists(codes, min_size=len(table), max_size=len(table)))
    return replace(table, extra=np.array(rows, np.int32), extras=extras)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """References of several arrays, extra bytes everywhere."""
    arrays = draw(st.dictionaries(node_ids, chunk_tables(), max_size=4))
    with_extra = draw(st.sets(st.sampled_from(sorted(arrays)))) if arrays else set()
    return Manifest(
        id=draw(manifest_ids),
        arrays=arrays,
        extra=draw(optional_blobs),
        array_extras={node_id: draw(blobs) for node_id in sorted(with_extra)},
    )


# Snapshots


@st.composite
def dimensions(draw: st.DrawFn, spec_version: int) -> Dimension:
    """One axis; V1 knows the length of a chunk and not how many there are."""
    length = draw(st.integers(0, 100) | uint64)
    if spec_version == 2:
        return Dimension(length, draw(uint32))
    chunk = draw(st.integers(0, 100) | uint64)
    return Dimension(length, -(-length // chunk) if chunk else 0, chunk)


@st.composite
def array_data(draw: st.DrawFn, spec_version: int) -> ArrayData:
    """What a snapshot knows of an array."""
    axes = draw(axes_counts)
    names_of_axes = st.lists(st.none() | names, min_size=axes, max_size=axes).map(tuple)
    extents = st.lists(st.tuples(uint32, uint32), min_size=axes, max_size=axes).map(tuple)
    manifest_refs = st.builds(ManifestRef, manifest_ids, st.just(()) | extents)
    shape = st.lists(dimensions(spec_version), min_size=axes, max_size=axes).map(tuple)
    return ArrayData(
        shape=draw(shape),
        dimension_names=draw(st.none() | names_of_axes),
        manifests=draw(st.lists(manifest_refs, max_size=3).map(tuple)),
    )


def nodes(path: str, spec_version: int) -> st.SearchStrategy[Node]:
    """A group or an array at a path."""
    array = st.none() | array_data(spec_version)
    return st.builds(Node, node_ids, st.just(path), blobs, array, optional_blobs)


@st.composite
def manifest_files(draw: st.DrawFn, spec_version: int) -> tuple[ManifestFileInfo, ...]:
    """Manifest files, by id; V1 has no extra bytes."""
    ids = draw(st.sets(manifest_ids, max_size=3))
    extras = optional_blobs if spec_version == 2 else st.none()
    return tuple(
        ManifestFileInfo(id_, draw(uint64), draw(uint32), draw(extras)) for id_ in sorted(ids)
    )


@st.composite
def snapshots(draw: st.DrawFn, spec_version: int) -> Snapshot:
    """A snapshot; in V2 the repo info has the parent."""
    tree = draw(st.lists(paths, unique=True, max_size=6))
    return Snapshot(
        id=draw(snapshot_ids),
        parent_id=draw(st.none() | snapshot_ids) if spec_version == 1 else None,
        flushed_at=draw(microsecond_times),
        message=draw(texts),
        metadata=draw(metadata),
        nodes=nodes_by_path(draw(nodes(path, spec_version)) for path in tree),
        manifest_files=draw(manifest_files(spec_version)),
        extra=draw(optional_blobs),
    )


# Transaction logs


@st.composite
def coordinate_blocks(draw: st.DrawFn) -> Coordinates:
    """Sorted rows of coordinates, none twice, at least one."""
    axes = draw(axes_counts)
    rows = draw(st.sets(indexes(axes), min_size=1, max_size=8))
    return np.array(sorted(rows), np.uint32).reshape(len(rows), axes)


@st.composite
def move_lists(draw: st.DrawFn) -> tuple[Move, ...]:
    """Moves in the order of their targets."""
    targets = sorted(draw(st.sets(paths, max_size=5)), key=segment_order)
    kinds = st.sampled_from(NodeType)
    return tuple(
        Move(draw(paths), target, draw(st.none() | node_ids), draw(kinds)) for target in targets
    )


def transaction_logs(spec_version: int) -> st.SearchStrategy[TransactionLog]:
    """What a commit changed; V1 knows no moves."""
    node_sets = st.frozensets(node_ids, max_size=4)
    return st.builds(
        TransactionLog,
        id=snapshot_ids,
        new_groups=node_sets,
        new_arrays=node_sets,
        deleted_groups=node_sets,
        deleted_arrays=node_sets,
        updated_groups=node_sets,
        updated_arrays=node_sets,
        updated_chunks=st.dictionaries(node_ids, coordinate_blocks(), max_size=3),
        moves=move_lists() if spec_version == 2 else st.just(()),
        extra=optional_blobs,
    )


# Repo info

statuses = st.builds(
    RepoStatus, st.sampled_from(model.Availability), microsecond_times, st.none() | texts
)
update_types: st.SearchStrategy[UpdateType] = st.one_of(
    st.builds(model.RepoInitialized),
    st.builds(model.RepoMigrated, st.integers(0, 255), st.integers(0, 255)),
    st.builds(model.ConfigChanged),
    st.builds(model.MetadataChanged),
    st.builds(model.TagCreated, texts),
    st.builds(model.TagDeleted, texts, snapshot_ids),
    st.builds(model.BranchCreated, texts),
    st.builds(model.BranchDeleted, texts, snapshot_ids),
    st.builds(model.BranchReset, texts, snapshot_ids),
    st.builds(model.NewCommit, texts, snapshot_ids),
    st.builds(model.CommitAmended, texts, snapshot_ids, snapshot_ids),
    st.builds(model.NewDetachedSnapshot, snapshot_ids),
    st.builds(model.GCRan),
    st.builds(model.ExpirationRan),
    st.builds(model.FeatureFlagChanged, uint16, st.none() | st.booleans()),
    st.builds(model.RepoStatusChanged, statuses),
)
updates = st.builds(Update, update_types, microsecond_times, st.none() | texts)
flags = st.none() | st.sets(uint16, max_size=4).map(lambda ids: tuple(sorted(ids)))


@st.composite
def snapshot_infos(draw: st.DrawFn) -> Mapping[SnapshotId, SnapshotInfo]:
    """Snapshots of a forest: each one's parent is drawn before it."""
    infos: dict[SnapshotId, SnapshotInfo] = {}
    for id_ in draw(st.lists(snapshot_ids, min_size=1, max_size=6, unique=True)):
        parents = st.sampled_from([None, *infos])
        pruned = st.just(()) | st.lists(snapshot_ids, max_size=3).map(tuple)
        infos[id_] = SnapshotInfo(
            id_, draw(parents), draw(microsecond_times), draw(texts), draw(metadata), draw(pruned)
        )
    return infos


@st.composite
def repo_infos(draw: st.DrawFn) -> RepoInfo:
    """All of a V2 repository that changes."""
    infos = draw(snapshot_infos())
    refs = st.dictionaries(texts, st.sampled_from(sorted(infos)), max_size=4)
    return RepoInfo(
        branches=draw(refs),
        tags=draw(refs),
        deleted_tags=draw(st.frozensets(texts, max_size=3)),
        snapshots=infos,
        status=draw(statuses),
        latest_updates=tuple(draw(st.lists(updates, max_size=6))),
        metadata=draw(metadata),
        repo_before_updates=draw(st.none() | texts),
        config=draw(st.none() | json_values.map(Value)),
        enabled_feature_flags=draw(flags),
        disabled_feature_flags=draw(flags),
        spec_version=draw(st.integers(0, 255)),
        extra=draw(optional_blobs),
    )
