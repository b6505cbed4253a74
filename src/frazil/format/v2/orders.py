"""Orders that the specification asks for and that decoding does not keep: sets have none.

Readers of Frazil don't need them; others search by bisection and miss what is out of place.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from frazil.format.coordinates import is_strictly_sorted
from frazil.format.flatbuffers.columns import Source, Tables
from frazil.format.flatbuffers.reader import Buffer, Table
from frazil.format.paths import segment_order
from frazil.format.v2.schema import (
    MoveSlot,
    RefSlot,
    RepoSlot,
    SnapshotInfoSlot,
    TransactionLogSlot,
    UpdatedChunksSlot,
)

T = TypeVar("T")

_NODE_LISTS = (
    TransactionLogSlot.NEW_GROUPS, TransactionLogSlot.NEW_ARRAYS,
    TransactionLogSlot.DELETED_GROUPS, TransactionLogSlot.DELETED_ARRAYS,
    TransactionLogSlot.UPDATED_ARRAYS, TransactionLogSlot.UPDATED_GROUPS,
)  # fmt: skip


def find_unordered_in_log(payload: bytes) -> Iterator[str]:
    """The lists of a transaction log's FlatBuffer that are not in order; raises FormatError."""
    root = Buffer(payload, "transaction-log").root()
    for slot in _NODE_LISTS:
        if not is_ascending(root.structs(slot, 8)):
            yield slot.name.lower()
    arrays = list(root.tables(TransactionLogSlot.UPDATED_CHUNKS))
    if not is_ascending(
        [each.struct(UpdatedChunksSlot.NODE_ID, 8, "a node id") for each in arrays]
    ):
        yield "updated_chunks"
    if not all(map(_has_ordered_chunks, arrays)):
        yield "the chunks of an array"
    moves = root.tables(TransactionLogSlot.MOVED_NODES)
    if not is_ascending([each.text(MoveSlot.TO, "a path") for each in moves], segment_order):
        yield "moved_nodes"


def find_unordered_in_repo_info(payload: bytes) -> Iterator[str]:
    """The lists of a repo info's FlatBuffer that are not in order; raises FormatError."""
    root = Buffer(payload, "repo-info").root()
    for slot in (RepoSlot.BRANCHES, RepoSlot.TAGS):
        if not is_ascending(
            [each.text(RefSlot.NAME, "a name") for each in root.tables(slot)], str.encode
        ):
            yield slot.name.lower()
    if not is_ascending(root.texts(RepoSlot.DELETED_TAGS), str.encode):
        yield "deleted_tags"
    infos = root.tables(RepoSlot.SNAPSHOTS)
    if not is_ascending([each.struct(SnapshotInfoSlot.ID, 12, "an id") for each in infos]):
        yield "snapshots"


def is_ascending(items: Sequence[T], order: Callable[[T], Any] = lambda item: item) -> bool:
    """Whether each item is greater than the one before."""
    keys = [order(item) for item in items]
    return all(a < b for a, b in itertools.pairwise(keys))


def _has_ordered_chunks(array: Table) -> bool:
    buffer = array.buffer
    start, count = buffer.vector(buffer.follow(array.field(UpdatedChunksSlot.CHUNKS, "chunks")), 4)
    source = Source.of(buffer)
    tables = Tables(source, source.follow(start + 4 * np.arange(count, dtype=np.int64)))
    return is_strictly_sorted(source.matrix(tables.targets(0), "<u4"))
