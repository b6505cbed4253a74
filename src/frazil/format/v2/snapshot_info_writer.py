"""Encoding the snapshots of a repo info: what a file has is copied in columns, the rest by row."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.format.flatbuffers.fields import ABSENT, Link, Number, Struct, numbers, rows
from frazil.format.flatbuffers.writer import Writer
from frazil.format.ids import SnapshotId
from frazil.format.metadata import Encoding
from frazil.format.overlays import Overlaid
from frazil.format.ragged import Bytes, Integers
from frazil.format.repo_info import SnapshotInfo
from frazil.format.times import to_microseconds
from frazil.format.v2.metadata_items import copy_metadata, write_metadata
from frazil.format.v2.schema import SnapshotInfoSlot
from frazil.format.v2.snapshot_columns import ID_SIZE, NO_PARENT, as_names
from frazil.format.v2.snapshot_infos import EncodedSnapshots, Snapshots

Scalar = TypeVar("Scalar", bound=np.generic)
Find = Callable[[SnapshotId], int | None]
"""The index of a snapshot in the file that is being written, or None."""


def write_snapshot_infos(writer: Writer, snapshots: Snapshots) -> tuple[Integers, Find]:
    """Write snapshots in the order of their ids; gives their places, and where each one is."""
    whole = snapshots if isinstance(snapshots, Overlaid) else Overlaid(snapshots, {}, frozenset())
    if isinstance(whole.base, EncodedSnapshots):
        others = [whole.changed[id_] for id_ in sorted(whole.changed)]
        merge = _Merge(whole.base, whole.hidden, others)
        return _write_merged(writer, merge), merge.find
    infos = [snapshots[id_] for id_ in sorted(snapshots)]
    index_of = {info.id: index for index, info in enumerate(infos)}
    parents = _parents(infos, index_of.get)
    return _write_tables(writer, _write_columns(writer, infos), parents), index_of.get


def index_of(find: Find, id_: SnapshotId, what: str, name: object) -> int:
    """The index of a snapshot that something points to; raises InvalidInputError without it."""
    index = find(id_)
    if index is None:
        raise InvalidInputError(
            f"repo info: {what} {name} points to snapshot {id_}, which is not in it"
        )
    return index


def _parents(infos: Iterable[SnapshotInfo], find: Find) -> NDArray[np.int32]:
    parents = (
        NO_PARENT if s.parent_id is None else index_of(find, s.parent_id, "snapshot", s.id)
        for s in infos
    )
    return numbers(parents, "<i4")


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """Fields of snapshots; links by place."""

    ids: Bytes
    flushed_at: NDArray[np.uint64]
    messages: Integers
    metadata: Integers
    pruned: Integers


def _write_tables(writer: Writer, columns: _Columns, parents: NDArray[np.int32]) -> Integers:
    return writer.tables(
        len(columns.ids),
        Struct(SnapshotInfoSlot.ID, columns.ids),
        Number(SnapshotInfoSlot.PARENT_OFFSET, parents),
        Number(SnapshotInfoSlot.FLUSHED_AT, columns.flushed_at),
        Link(SnapshotInfoSlot.MESSAGE, columns.messages),
        Link(SnapshotInfoSlot.METADATA, columns.metadata),
        Link(SnapshotInfoSlot.PRUNED_ANCESTOR_TX_LOGS, columns.pruned),
    )


def _write_columns(writer: Writer, infos: Sequence[SnapshotInfo]) -> _Columns:
    pruned = np.full(len(infos), ABSENT, np.int64)
    for index, info in enumerate(infos):
        if info.pruned_ancestor_tx_logs:
            pruned[index] = writer.struct_vector(rows(info.pruned_ancestor_tx_logs, ID_SIZE))
    return _Columns(
        ids=rows([info.id for info in infos], ID_SIZE),
        flushed_at=numbers((to_microseconds(info.flushed_at) for info in infos), "<u8"),
        messages=writer.texts([info.message for info in infos]),
        metadata=write_metadata(writer, [info.metadata for info in infos], Encoding.FLEXBUFFERS),
        pruned=pruned,
    )


def _copy_columns(writer: Writer, base: EncodedSnapshots, chosen: Integers) -> _Columns:
    contents = base.contents()
    pruned = np.full(chosen.size, ABSENT, np.int64)
    with_pruned = np.flatnonzero(contents.has_pruned[chosen])
    pruned[with_pruned] = writer.copies(contents.pruned.take(chosen[with_pruned]), ID_SIZE)
    return _Columns(
        ids=base.columns.ids[chosen],
        flushed_at=base.columns.flushed_at[chosen],
        messages=writer.copies(contents.messages.take(chosen)),
        metadata=copy_metadata(writer, contents.metadata, chosen),
        pruned=pruned,
    )


class _Merge:
    """Which snapshots of a file stay, and where they and others come to be."""

    __slots__ = ("_at_of", "_at_of_row", "base", "kept", "kept_at", "others", "others_at")

    def __init__(
        self, base: EncodedSnapshots, hidden: frozenset[SnapshotId], others: Sequence[SnapshotInfo]
    ) -> None:
        self.base = base
        self.others = others
        self.kept = _kept_rows(base, hidden)
        kept_ids = as_names(base.columns.ids[self.kept])
        other_ids = as_names(rows([info.id for info in others], ID_SIZE))
        self.kept_at = np.arange(kept_ids.size) + np.searchsorted(other_ids, kept_ids)
        self.others_at = np.arange(other_ids.size) + np.searchsorted(kept_ids, other_ids)
        self._at_of = dict(zip((info.id for info in others), self.others_at.tolist(), strict=True))
        self._at_of_row = np.full(len(base), ABSENT, np.int64)
        self._at_of_row[self.kept] = self.kept_at
        for id_ in hidden:
            self._at_of_row[base.row(id_)] = self._at_of.get(id_, ABSENT)

    def find(self, id_: SnapshotId) -> int | None:
        """Where a snapshot comes to be, or None."""
        at = self._at_of.get(id_)
        row = self.base.find_row(id_) if at is None else None
        if row is not None and self._at_of_row[row] != ABSENT:
            at = int(self._at_of_row[row])
        return at

    def kept_parents(self) -> NDArray[np.int32]:
        """Where the parents of those that stay come to be; raises InvalidInputError without one."""
        parents = self.base.columns.parents[self.kept]
        has_parent = parents != NO_PARENT
        # A row without a parent finds the last row's index here, and is not given it.
        found = np.where(has_parent, self._at_of_row[parents], NO_PARENT)
        lost = np.flatnonzero(has_parent & (found == ABSENT))
        if lost.size:
            id_, parent = (self.base.ids[int(of[lost[0]])] for of in (self.kept, parents))
            index_of(self.find, parent, "snapshot", id_)
        return found.astype("<i4")

    def interleave(self, kept: NDArray[Scalar], others: NDArray[Scalar]) -> NDArray[Scalar]:
        """One column of both, in the order of ids."""
        merged = np.empty((len(kept) + len(others), *kept.shape[1:]), kept.dtype)
        merged[self.kept_at] = kept
        merged[self.others_at] = others
        return merged


def _kept_rows(base: EncodedSnapshots, hidden: frozenset[SnapshotId]) -> Integers:
    stays = np.ones(len(base), np.bool_)
    stays[[base.row(id_) for id_ in hidden]] = False
    by_id = base.columns.by_id
    return by_id[stays[by_id]]


def _write_merged(writer: Writer, merge: _Merge) -> Integers:
    kept = _copy_columns(writer, merge.base, merge.kept)
    others = _write_columns(writer, merge.others)
    both = _Columns(
        ids=merge.interleave(kept.ids, others.ids),
        flushed_at=merge.interleave(kept.flushed_at, others.flushed_at),
        messages=merge.interleave(kept.messages, others.messages),
        metadata=merge.interleave(kept.metadata, others.metadata),
        pruned=merge.interleave(kept.pruned, others.pruned),
    )
    parents = merge.interleave(merge.kept_parents(), _parents(merge.others, merge.find))
    return _write_tables(writer, both, parents)
