"""A column of distinct texts: one blob of UTF-8 and offsets into it."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Self

import numpy as np

from frazil.errors import FormatError
from frazil.format import ragged
from frazil.format.ragged import Bytes, Integers


class Strings:
    """Texts by number. Codes in a table's column point into one of these; -1 there means no text."""

    __slots__ = ("blob", "offsets")

    def __init__(self, blob: Bytes, offsets: Integers) -> None:
        self.blob = blob
        self.offsets = offsets

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """A column of these texts."""
        encoded = [text.encode() for text in texts]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return cls(np.frombuffer(b"".join(encoded), np.uint8), ragged.offsets_of(lengths))

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, number: int) -> str:
        return self.encoded(number).decode()

    def __iter__(self) -> Iterator[str]:
        return map(bytes.decode, self.encoded_list())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Strings):
            return NotImplemented
        return np.array_equal(self.offsets, other.offsets) and np.array_equal(self.blob, other.blob)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Strings({len(self)} texts, {self.blob.size} bytes)"

    @property
    def lengths(self) -> Integers:
        """How many bytes each text has."""
        return np.diff(self.offsets)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.blob.nbytes + self.offsets.nbytes

    def encoded_list(self) -> list[bytes]:
        """All texts as UTF-8."""
        data, ends = self.blob.tobytes(), self.offsets.tolist()
        return [data[start:end] for start, end in pairwise(ends)]

    def encoded(self, number: int) -> bytes:
        """One text as UTF-8."""
        return self.blob[self.offsets[number] : self.offsets[number + 1]].tobytes()

    def take(self, numbers: Integers) -> "Strings":
        """The texts of these numbers, in this order."""
        lengths = self.lengths[numbers]
        return Strings(*ragged.pack(self.blob, self.offsets[:-1][numbers], lengths))

    def validate(self, what: str) -> Self:
        """Itself, if every text is UTF-8."""
        try:
            self.blob.tobytes().decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"{what}: not UTF-8: {error}") from error
        starts = self.offsets[:-1][self.lengths > 0]
        # The whole blob being UTF-8, a text is broken only where it starts inside a character.
        if np.any((self.blob[starts] & 0xC0) == 0x80):
            raise FormatError(f"{what}: a text starts in the middle of a UTF-8 character")
        return self


NO_STRINGS = Strings.of(())


def unite(columns: Iterable[Strings]) -> tuple[Strings, list[Integers]]:
    """One column with each distinct text once, and for each given column its texts' new numbers."""
    columns = list(columns)
    if columns and all(column is columns[0] for column in columns):
        same = np.arange(len(columns[0]), dtype=np.int64)
        return columns[0], [same] * len(columns)
    lengths = [column.lengths for column in columns]
    blob = np.concatenate([column.blob for column in columns]) if columns else NO_STRINGS.blob
    all_lengths = np.concatenate([*lengths, np.empty(0, np.int64)])
    offsets = ragged.offsets_of(all_lengths)
    first, codes = ragged.distinct(blob, offsets[:-1], all_lengths)
    united = Strings(blob, offsets).take(first)
    ends = np.cumsum([length.size for length in lengths])
    return united, np.split(codes, ends[:-1]) if columns else []
