"""The snapshots of a repo info in columns: what must fit together, and what is only copied."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frazil.format.flatbuffers.columns import Source, Tables
from frazil.format.flatbuffers.reader import Buffer
from frazil.format.ids import SnapshotId
from frazil.format.ragged import Bytes, Integers, Pieces
from frazil.format.v2.metadata_items import EncodedMetadata, read_metadata
from frazil.format.v2.schema import SnapshotInfoSlot

NO_PARENT = -1
ID_SIZE = 12


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotColumns:
    """What is read of all snapshots together, a row each in the order of the file."""

    tables: Tables
    ids: Bytes
    parents: Integers
    """The parent's row; negative where there is none."""
    flushed_at: NDArray[np.uint64]
    """In microseconds."""
    by_id: Integers
    """The rows in the order of their ids."""


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotContents:
    """What else a file has of its snapshots, in the same rows."""

    messages: Pieces
    metadata: EncodedMetadata
    pruned: Pieces
    has_pruned: NDArray[np.bool_]


def read_snapshot_contents(tables: Tables) -> SnapshotContents:
    """The contents of snapshots, as strictly checked as each one is alone."""
    source = tables.source
    messages = tables.targets(SnapshotInfoSlot.MESSAGE)
    if np.any(messages < 0):
        raise source.damaged("a snapshot's message is missing")
    pruned = tables.targets(SnapshotInfoSlot.PRUNED_ANCESTOR_TX_LOGS)
    return SnapshotContents(
        messages=source.texts(messages, "a snapshot's message"),
        metadata=read_metadata(tables, SnapshotInfoSlot.METADATA),
        pruned=source.structs(pruned, ID_SIZE),
        has_pruned=pruned >= 0,
    )


def read_snapshot_columns(buffer: Buffer, start: int, count: int) -> SnapshotColumns:
    """The columns of a vector of snapshots; raises FormatError where they don't fit together."""
    source = Source.of(buffer)
    positions = source.follow(start + 4 * np.arange(count, dtype=np.int64))
    tables = Tables(source, positions)
    if not tables.has(SnapshotInfoSlot.ID).all():
        raise buffer.damaged("a snapshot's id is missing")
    ids = tables.structs(SnapshotInfoSlot.ID, ID_SIZE)
    parents = tables.numbers(SnapshotInfoSlot.PARENT_OFFSET, "<i4").astype(np.int64)
    times = tables.numbers(SnapshotInfoSlot.FLUSHED_AT, "<u8")
    _refuse_strangers(buffer, parents)
    _refuse_circles(buffer, ids, parents, times)
    return SnapshotColumns(tables, ids, parents, times, _order(buffer, ids))


def _order(buffer: Buffer, ids: Bytes) -> Integers:
    names = as_names(ids)
    if np.all(names[:-1] < names[1:]):
        return np.arange(len(ids))
    # The order is the writer's promise; a file that breaks it can still be read.
    order = np.argsort(names, kind="stable")
    if np.any(names[order][:-1] == names[order][1:]):
        raise buffer.damaged("a snapshot is there twice")
    return order


def as_names(ids: Bytes) -> NDArray[np.bytes_]:
    """Ids as values that numpy compares, which only as bytes of one size is the order of ids."""
    return np.ascontiguousarray(ids).view(f"S{ID_SIZE}").ravel()


def _refuse_strangers(buffer: Buffer, parents: Integers) -> None:
    strange = (parents < NO_PARENT) | (parents >= parents.size)
    if strange.any():
        index = int(parents[strange][0])
        raise buffer.damaged(f"snapshot {index} of {parents.size} is referred to")


def _refuse_circles(
    buffer: Buffer, ids: Bytes, parents: Integers, times: NDArray[np.uint64]
) -> None:
    """Ancestors must end, or whoever walks them would not; they do where parents are earlier."""
    children = np.flatnonzero(parents >= 0)
    if np.all(times[parents[children]] < times[children]):
        return
    # Row `size` stands for the end, from which there is no way on.
    size = parents.size
    ancestors = np.append(np.where(parents < 0, size, parents), size)
    for _ in range(size.bit_length()):
        ancestors = ancestors[ancestors]
    endless = ancestors[ancestors < size]
    if endless.size:
        id_ = SnapshotId(ids[endless[0]].tobytes())
        raise buffer.damaged(f"snapshot {id_} is its own ancestor")
