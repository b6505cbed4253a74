"""Object ids: random bytes, written in Crockford's base32 for people and in file names.

Ids of snapshots, manifests and chunks have 12 bytes (16 in the draft generation), ids of nodes 8.
The generations that numbered their nodes (draft, first alphas) use the number as 8 big-endian bytes.
"""

from functools import lru_cache
from typing import ClassVar, Self

from frazil.errors import InvalidInputError

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
"""Digit pairs by ten bits; ids are encoded for every chunk that is read."""

# Crockford's decoding rules: case is ignored, and letters that look like digits are digits.
_DIGIT_OF = {letter: digit for digit, letter in enumerate(ALPHABET)}
_DIGIT_OF |= {letter.lower(): digit for letter, digit in _DIGIT_OF.items()}
_DIGIT_OF |= dict.fromkeys("iIlL", 1) | dict.fromkeys("oO", 0)


@lru_cache(4096)  # a commit asks for some ids three times
def encode_base32(data: bytes) -> str:
    """Encode bytes in base32: upper case, no padding characters, zero bits appended on the right."""
    length = (len(data) * 8 + 4) // 5
    bits = (length + 1) // 2 * 10
    number = int.from_bytes(data, "big") << (bits - len(data) * 8)
    return "".join([_PAIRS[number >> at & 1023] for at in range(bits - 10, -1, -10)])[:length]


@lru_cache(4096)
def decode_base32(text: str) -> bytes:
    """Decode base32; bits after the last whole byte are dropped, as the official library does."""
    number = 0
    for letter in text:
        digit = _DIGIT_OF.get(letter)
        if digit is None:
            raise InvalidInputError(f"{text!r} is not base32: {letter!r} is not a digit of it")
        number = number << 5 | digit
    size = len(text) * 5 // 8
    return (number >> (len(text) * 5 - size * 8)).to_bytes(size, "big")


class ObjectId(bytes):
    """Object id: bytes with their equality, hash and order; `str` returns base32."""

    __slots__ = ()
    SIZES: ClassVar[tuple[int, ...]] = (12, 16)

    def __new__(cls, data: bytes) -> Self:
        if len(data) not in cls.SIZES:
            raise InvalidInputError(
                f"{cls.__name__} needs {' or '.join(map(str, cls.SIZES))} bytes, got {len(data)}"
            )
        return super().__new__(cls, data)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an id from base32."""
        lengths = [(size * 8 + 4) // 5 for size in cls.SIZES]
        if len(text) not in lengths:
            raise InvalidInputError(
                f"{text!r} is no {cls.__name__}: it needs {' or '.join(map(str, lengths))} characters"
            )
        return cls(decode_base32(text))

    def __str__(self) -> str:
        return encode_base32(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.parse({str(self)!r})"


class SnapshotId(ObjectId):
    """Id of a snapshot, its file and its transaction log."""

    __slots__ = ()


class ManifestId(ObjectId):
    """Id of a manifest file."""

    __slots__ = ()


class ChunkId(ObjectId):
    """Id of a chunk file."""

    __slots__ = ()


class NodeId(ObjectId):
    """Id of a group or an array, which does not change with its path."""

    __slots__ = ()
    SIZES: ClassVar[tuple[int, ...]] = (8,)

    @classmethod
    def from_number(cls, number: int) -> Self:
        """Return the id of a node number of the draft and the first alphas."""
        return cls(number.to_bytes(8, "big"))

    def to_number(self) -> int:
        """Return the node number of the draft and the first alphas."""
        return int.from_bytes(self, "big")


FIRST_SNAPSHOT_ID = SnapshotId.parse("1CECHNKREP0F1RSTCMT0")
"""Well-known id of the first snapshot (V2, and V1 since release 0.2.17)."""

LAST_SEQUENCE_NUMBER = 2**40 - 1
"""Maximum sequence number of a branch in the draft and alpha generations."""

_UNRELEASED_LAST_SEQUENCE_NUMBER = 2**64 - 1


def encode_sequence(number: int) -> str:
    """Return the name of a branch file by its sequence number: the newest sorts first."""
    if not 0 <= number <= LAST_SEQUENCE_NUMBER:
        raise InvalidInputError(f"sequence number {number} is not in 0..{LAST_SEQUENCE_NUMBER}")
    return encode_base32((LAST_SEQUENCE_NUMBER - number).to_bytes(5, "big"))


def decode_sequence(text: str) -> int:
    """Return the sequence number of a branch file's name: 8 characters, or 13 in unreleased builds."""
    if len(text) == 8:
        return LAST_SEQUENCE_NUMBER - int.from_bytes(decode_base32(text), "big")
    if len(text) == 13:
        return _UNRELEASED_LAST_SEQUENCE_NUMBER - int.from_bytes(decode_base32(text), "big")
    raise InvalidInputError(f"{text!r} is no branch sequence: it needs 8 or 13 characters")
