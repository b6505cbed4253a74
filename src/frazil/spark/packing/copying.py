"""Copying small chunks into new objects, without decoding them.

A task reads the references that were looked at once more, of the same snapshot, and so finds the same
pieces in the same order: what it has to pack is said by numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from frazil.assets import Assets
from frazil.format.chunks import ChunkTable
from frazil.format.ids import ChunkId
from frazil.session import ForkSession
from frazil.spark.packing.choosing import Choice, Chosen, Moved, choose
from frazil.spark.packing.looking import Looked, Span
from frazil.spark.packing.pieces import Numbers, Pieces
from frazil.spark.packing.stretches import Stretch, read_natives
from frazil.storage.interface import Buffer, ByteRange

_READ_AT_ONCE = 256
"""Pieces that are requested together."""


def copy_pieces(assets: Assets, pieces: Pieces) -> ChunkId:
    """Write pieces one behind the other as one object; they are requested many at once."""
    data = bytearray(pieces.bytes)
    at = 0
    for start in range(0, len(pieces), _READ_AT_ONCE):
        for piece in _read(assets, pieces.take(slice(start, start + _READ_AT_ONCE))):
            data[at : at + len(piece)] = piece
            at += len(piece)
    return assets.write_chunk(data)


def _read(assets: Assets, pieces: Pieces) -> Sequence[Buffer]:
    ids = [ChunkId(each.tobytes()) for each in pieces.chunk_id]
    ends = zip(pieces.offset.tolist(), (pieces.offset + pieces.length).tolist(), strict=True)
    keys = map(assets.layout.chunk_key, ids)
    return assets.storage.get_many(
        [(key, ByteRange(*each)) for key, each in zip(keys, ends, strict=True)]
    )


@dataclass(frozen=True, slots=True)
class CopyPieces:
    """A task: packs pieces, and says where they are."""

    assets: Assets

    def __call__(self, objects: Sequence[Pieces]) -> list[ChunkId]:
        """The id of each new object."""
        ids = [copy_pieces(self.assets, pieces) for pieces in objects]
        self.assets.storage.flush()
        return ids


def place(ids: Sequence[ChunkId], objects: Sequence[Pieces]) -> Moved:
    """Where pieces are that became these objects."""
    keys = np.concatenate([pieces.keys() for pieces in objects])
    chunk_id = np.concatenate([_repeat(id, len(p)) for id, p in zip(ids, objects, strict=True)])
    offset = np.concatenate([starts(pieces) for pieces in objects])
    order = np.argsort(keys)
    return Moved(keys[order], chunk_id[order], offset[order])


def starts(pieces: Pieces) -> NDArray[np.uint64]:
    """Where each piece begins in an object of all of them."""
    ends: NDArray[np.uint64] = np.cumsum(pieces.length, dtype=np.uint64)
    return ends - pieces.length


def _repeat(id: ChunkId, count: int) -> NDArray[np.uint8]:
    return np.tile(np.frombuffer(bytes(id), np.uint8), (count, 1))


@dataclass(frozen=True, slots=True)
class Work:
    """Spans of a stretch to pack, and whether its references to moved pieces are set, too."""

    stretch: Stretch
    spans: tuple[Span, ...]
    follows: bool

    @property
    def bytes(self) -> int:
        """To copy."""
        return sum(span.bytes for span in self.spans)


def split_work(stretch: Stretch, looked: Looked) -> list[Work]:
    """The least that one task can do of a stretch."""
    works = [Work(stretch, (span,), False) for span in looked.spans]
    return [*works, Work(stretch, (), True)] if looked.follows else works


def join_work(works: Sequence[Work]) -> list[Work]:
    """The same with all of each stretch, which are neighbours, as one: references are read once."""
    return [
        replace(own[0], spans=tuple(s for each in own for s in each.spans),
                follows=any(each.follows for each in own))
        for own in (list(each) for _, each in groupby(works, lambda work: work.stretch))
    ]  # fmt: skip


def pack_chunks(choice: Choice, session: ForkSession, work: Work) -> None:
    """Copy small chunks into new objects, and refer to them there."""
    state = session.state
    node, _ = state.view.get_array(work.stretch.path)
    chosen = choose(read_natives(state.assets, work.stretch), choice)
    edits = state.changes.edit_chunks(node)
    for span in work.spans:
        numbers = chosen.packed[span.start : span.stop]
        pieces = chosen.pieces.take(numbers)
        id = copy_pieces(state.assets, pieces)
        edits.set_table(_refer(chosen, numbers, _repeat(id, len(pieces)), starts(pieces)))
    if work.follows:
        numbers = np.flatnonzero(chosen.moved >= 0)
        rows = chosen.moved[numbers]
        moved = choice.moved
        edits.set_table(_refer(chosen, numbers, moved.chunk_id[rows], moved.offset[rows]))


def _refer(
    chosen: Chosen, numbers: Numbers, ids: NDArray[np.uint8], offsets: NDArray[np.uint64]
) -> ChunkTable:
    """References to some pieces as they are elsewhere."""
    rows, which = chosen.rows_of(numbers)
    return replace(chosen.table.take(rows), chunk_id=ids[which], offset=offsets[which])
