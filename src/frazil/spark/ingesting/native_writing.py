"""What a worker does with pieces of arrays: decode their values from files, and write them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from frazil.session import ForkSession
from frazil.spark.arrays.regions import Box, Shape, count_items, shift, slices_of
from frazil.spark.arrays.zarr_arrays import AnyArray, open_for_writing
from frazil.spark.ingesting.native import Fragment, Piece, bounding
from frazil.spark.ingesting.parsing import Reading
from frazil.spark.ingesting.values import OpenSources, SourceToRead
from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.writing import join


@dataclass(frozen=True, slots=True)
class WritePieces:
    """Writes the pieces of a task; each file is opened once."""

    group: str
    sources: Mapping[str, SourceToRead]
    reading: Reading

    def __call__(self, session: ForkSession, pieces: Sequence[Piece]) -> None:
        """Raises InvalidSourcesError where a file is not what was planned with."""
        arrays: dict[str, AnyArray] = {}
        wanted: Counter[str] = Counter()
        for piece in pieces:
            items = sum(count_items(each.box) for each in piece.fragments)
            for each in piece.fragments:
                wanted[each.source] += piece.bytes * count_items(each.box) // max(1, items)
        opened = OpenSources(self.sources, self.reading, wanted)
        with without_codec_warnings(), opened as sources:
            for piece in pieces:
                if piece.array not in arrays:
                    path = join(self.group, piece.array)
                    arrays[piece.array] = open_for_writing(session, path)
                write_piece(arrays[piece.array], piece, sources)
            sources.refuse_changed()


def write_piece(array: AnyArray, piece: Piece, sources: OpenSources) -> None:
    """Write what sources have of a piece, at once where it has no gaps."""
    sources.prepare(each.source for each in piece.fragments)
    whole = bounding([each.box for each in piece.fragments])
    if whole is not None:
        _write(array, piece.array, whole, piece.fragments, sources)
        return
    for each in piece.fragments:
        _write(array, piece.array, each.box, [each], sources)


def _write(
    array: AnyArray, name: str, box: Box, fragments: Sequence[Fragment], sources: OpenSources
) -> None:
    corner = [start for start, _ in box]
    values = np.empty([stop - start for start, stop in box], array.dtype)
    for each in fragments:
        here = shift(each.box, _negative(each.origin))
        sources.read(each.source, name, here, values, shift(each.box, _negative(corner)))
    array[slices_of(box)] = values


def _negative(offsets: Sequence[int]) -> Shape:
    return tuple(-each for each in offsets)
