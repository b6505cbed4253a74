"""Columns of virtual references as callers have them: lists, numpy arrays, or Arrow.

Locations and etags become codes into their distinct texts, so that no object is made for a chunk.
Arrow is recognized by its methods; nobody has to have it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError, InvalidTypeError
from frazil.format.chunks import constant_column
from frazil.format.references import Checksum, ETag, LastModified
from frazil.format.strings import NO_STRINGS, Strings
from frazil.format.times import from_datetime

ChecksumArgument = str | datetime | None
"""An etag, or the time of the last modification."""

_MOST_SECONDS = 2**32 - 1


def parse_checksum(checksum: ChecksumArgument) -> Checksum | None:
    """What users give as a checksum; raises InvalidTypeError for a time without a zone."""
    if isinstance(checksum, str):
        return ETag(checksum)
    if checksum is None:
        return None
    if checksum.tzinfo is None:
        raise InvalidTypeError("the time of the last modification needs a time zone")
    return LastModified(from_datetime(checksum) // 10**9)


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Texts by row: numbers into the distinct ones, -1 where there is none."""

    codes: NDArray[np.int32]
    texts: Sequence[str]

    @classmethod
    def of(cls, values: Any) -> Self:
        """A column of a list, an array of numpy or Arrow, or of a pair of codes and texts."""
        if isinstance(values, cls):
            return values
        if hasattr(values, "combine_chunks"):
            values = values.combine_chunks()
        if hasattr(values, "dictionary_encode"):
            return cls._of_arrow(values)
        if isinstance(values, tuple) and len(values) == 2 and isinstance(values[0], np.ndarray):
            return cls(*values)._checked()
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise InvalidTypeError(
                f"invalid texts {values!r}: expected a list, or a column of Arrow"
            )
        return cls._of_texts(values if isinstance(values, Sequence) else list(values))

    @classmethod
    def _of_texts(cls, values: Sequence[str | None]) -> Self:
        column = np.empty(len(values), object)
        column[:] = values
        # A text comes many times in a row, as the chunks of a file do: only the first is looked at.
        is_head = np.ones(len(column), np.bool_)
        is_head[1:] = column[1:] != column[:-1]
        numbers: dict[str | None, int] = {None: -1}
        heads = [numbers.setdefault(each, len(numbers) - 1) for each in column[is_head].tolist()]
        codes = np.array(heads, np.int32)[np.cumsum(is_head) - 1]
        del numbers[None]
        return cls(codes, [str(each) for each in numbers])

    @classmethod
    def _of_arrow(cls, values: Any) -> Self:
        encoded = values if hasattr(values, "dictionary") else values.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return cls(codes.astype(np.int32, copy=False), encoded.dictionary.to_pylist())._checked()

    def _checked(self) -> Self:
        if len(self.codes) and not -1 <= self.codes.min() <= self.codes.max() < len(self.texts):
            raise InvalidInputError(f"a code is none of the {len(self.texts)} texts")
        return type(self)(np.asarray(self.codes, np.int32), self.texts)

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: NDArray[Any]) -> Self:
        """Some rows."""
        return type(self)(self.codes[rows], self.texts)


@dataclass(frozen=True, slots=True)
class ChecksumColumn:
    """Checksums by row, as a table of references has them."""

    etag: NDArray[np.int32]
    last_modified: NDArray[np.uint32]
    etags: Strings = field(default_factory=lambda: NO_STRINGS)

    @classmethod
    def of(cls, values: Any, count: int) -> Self:
        """A column of one checksum for all rows, or of etags or times by row."""
        if isinstance(values, cls):
            return values
        if values is None or isinstance(values, str | datetime):
            return cls.constant(parse_checksum(values), count)
        if hasattr(values, "combine_chunks"):
            values = values.combine_chunks()
        seconds = _seconds(values)
        if seconds is not None:
            return cls(constant_column(-1, len(seconds), np.int32), seconds)
        texts = TextColumn.of(values)
        return cls(texts.codes, constant_column(0, len(texts), np.uint32), Strings.of(texts.texts))

    @classmethod
    def constant(cls, checksum: Checksum | None, count: int) -> Self:
        """The same checksum in all rows."""
        etags = Strings.of([checksum.value]) if isinstance(checksum, ETag) else NO_STRINGS
        seconds = checksum.seconds if isinstance(checksum, LastModified) else 0
        return cls(
            constant_column(len(etags) - 1, count, np.int32),
            constant_column(seconds, count, np.uint32),
            etags,
        )

    def __len__(self) -> int:
        return len(self.etag)

    @property
    def is_empty(self) -> bool:
        """Whether no row has a checksum."""
        return not np.any(self.etag >= 0) and not np.any(self.last_modified)

    def take(self, rows: NDArray[Any]) -> Self:
        """Some rows."""
        return type(self)(self.etag[rows], self.last_modified[rows], self.etags)


def _seconds(values: Any) -> NDArray[np.uint32] | None:
    """Times as seconds since 1970; None if the column has no times."""
    if hasattr(values, "to_numpy") and "timestamp" in str(getattr(values, "type", "")):
        values = values.to_numpy(zero_copy_only=False)
    elif not isinstance(values, np.ndarray):
        values = list(values)
        if not any(isinstance(each, datetime) for each in values):
            return None
        values = np.array([_seconds_of(each) for each in values], "datetime64[s]")
    if not np.issubdtype(values.dtype, np.datetime64):
        return None
    # A time that is not given is no checksum.
    seconds = np.where(np.isnat(values), 0, values.astype("datetime64[s]").astype(np.int64))
    if np.any((seconds < 0) | (seconds > _MOST_SECONDS)):
        raise InvalidInputError(
            "a time of the last modification is before 1970 or after 2106",
            kind="invalid-virtual-ref",
        )
    return seconds.astype(np.uint32)


def _seconds_of(moment: datetime | None) -> np.datetime64:
    checksum = parse_checksum(moment)
    if isinstance(checksum, LastModified):
        return np.datetime64(checksum.seconds, "s")
    return np.datetime64("NaT", "s")
