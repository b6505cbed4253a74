"""Damaging files: what a disk, a network or an attacker could do to them.

Pure functions: all chance comes from the given generator, so that a case can be made again from its
seed. What lies inside the compression is damaged and compressed again, because a damaged zstd frame
only ever tests zstd.
"""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import zstandard

from frazil.errors import FormatError
from frazil.format.header import HEADER_SIZE, MAGIC, ZSTD_MAGIC

Mutation = Callable[[bytes, random.Random], bytes]

_LARGEST_KNOWN_PAYLOAD = 2**26

_INTERESTING_BYTES = bytes.fromhex(
    "00 01 02 03 04 08 0c 10 20 7f 80 81 90 91 92 9b 9f a0 bf c0 c1 c3 c4 c6 ca cb cf d3 d9 db dc dd"
    "de df e0 fe ff 22 2c 3a 5b 5d 7b 7d"
)
_INTERESTING_WORDS = (
    *(0, 1, 2, 3, 4, 7, 8, 12, 16, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32 - 2, 2**32 - 4, 2**32 - 8, 2**30, 2**24),
)
_HOSTILE_TEXTS = (
    *(
        b"null",
        b"true",
        b"-1",
        b"0",
        b"1.5",
        b"1e999",
        b"-0.0",
        b"18446744073709551616",
        b"9" * 5000,
    ),
    *(b"NaN", b"Infinity", b'""', b'"\\ud800"', b'"\\u0000"', b"[]", b"{}", b"[[]]", b'{"":{}}'),
    *(b"[" * 2000, b'{"a":' * 2000, b'"/"', b'"//"', b'"/.."', b'"2024-13-01T00:00:00Z"', b"\xff"),
    *(
        b"!s3 ",
        b"!!timestamp x",
        b"!!int ''",
        b"!!bool x",
        b"!!set {a}",
        b"&a [*a]",
        b"*a",
        b"<<: ",
    ),
    *(b'"\\UFFFFFFFF"', b'"\\xff"', b"? [a]\n: b\n", b"%YAML 9.9\n---\n", b"!<!a> b", b"\t", b"\0"),
)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A file apart: what stands before the payload, the payload, and whether zstd was around it."""

    before: bytes
    payload: bytes
    is_compressed: bool

    @classmethod
    def open(cls, data: bytes) -> "Envelope":
        """Take an honest file apart."""
        before = data[:HEADER_SIZE] if data[:12] == MAGIC else b""
        payload = data[len(before) :]
        if payload[:4] != ZSTD_MAGIC:
            return cls(before, payload, is_compressed=False)
        decompressor = zstandard.ZstdDecompressor()
        whole = decompressor.decompress(payload, max_output_size=_LARGEST_KNOWN_PAYLOAD)
        return cls(before, whole, is_compressed=True)

    def seal(self, payload: bytes, chance: random.Random) -> bytes:
        """A file with another payload in an honest envelope."""
        if not self.is_compressed:
            return self.before + payload
        has_size = chance.random() < 0.75
        compressor = zstandard.ZstdCompressor(level=1, write_content_size=has_size)
        return self.before + compressor.compress(payload)


def mutate(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """A damaged copy of a file; parts of the other file may end up in it."""
    draw = chance.random()
    if draw < 0.02:
        return _bomb(data, chance)
    if draw < 0.15:
        return _injure(data, other, chance)
    envelope = Envelope.open(data)
    payload = _injure(envelope.payload, Envelope.open(other).payload, chance)
    return envelope.seal(payload, chance)


def decode_mutants(
    decode: Callable[[bytes], object], files: Sequence[bytes], count: int, chance: random.Random
) -> int:
    """Decode damaged copies of files; how many raised FormatError. Any other exception passes on."""
    refused = 0
    for _ in range(count):
        try:
            decode(mutate(chance.choice(files), chance.choice(files), chance))
        except FormatError:
            refused += 1
    return refused


def _injure(data: bytes, other: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        if chance.random() < 0.03:
            data = _splice(data, other, chance)
        else:
            data = chance.choice(_INJURIES)(data, chance)
    return data


def _flip_bit(data: bytes, chance: random.Random) -> bytes:
    return _replace_byte(data, chance, lambda byte: byte ^ 1 << chance.randrange(8))


def _set_byte(data: bytes, chance: random.Random) -> bytes:
    return _replace_byte(data, chance, lambda _: chance.choice(_INTERESTING_BYTES))


def _replace_byte(data: bytes, chance: random.Random, change: Callable[[int], int]) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([change(data[at])]) + data[at + 1 :]


def _truncate(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _extend(data: bytes, chance: random.Random) -> bytes:
    return data + chance.choice((bytes(1), bytes(64), b"\xff" * 16, chance.randbytes(8), data[:64]))


def _drop_part(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    return data[:start] + data[start + chance.choice((1, 2, 4, 8, 16, 64)) :]


def _repeat_part(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    stop = start + chance.choice((1, 2, 4, 8, 16, 64))
    return data[:stop] + data[start:]


def _splice(data: bytes, other: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]


def _put_hostile_text(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    stop = start + chance.choice((0, 0, 1, 4, 16))
    return data[:start] + chance.choice(_HOSTILE_TEXTS) + data[stop:]


# Offsets, counts and vtables are words, and words are aligned.


def _word_at(data: bytes, chance: random.Random, size: int = 4) -> int:
    return chance.randrange(len(data) // size) * size


def _put(data: bytes, at: int, word: bytes) -> bytes:
    return data[:at] + word + data[at + len(word) :]


def _set_word(data: bytes, chance: random.Random) -> bytes:
    if len(data) < 4:
        return data
    values = (*_INTERESTING_WORDS, len(data), len(data) - 4, len(data) // 2)
    return _put(data, _word_at(data, chance), struct.pack("<I", chance.choice(values)))


def _set_half_word(data: bytes, chance: random.Random) -> bytes:
    if len(data) < 2:
        return data
    values = [value for value in _INTERESTING_WORDS if value < 2**16]
    return _put(data, _word_at(data, chance, 2), struct.pack("<H", chance.choice(values)))


def _shift_word(data: bytes, chance: random.Random) -> bytes:
    if len(data) < 4:
        return data
    at = _word_at(data, chance)
    (value,) = struct.unpack_from("<I", data, at)
    step = chance.choice((-64, -8, -4, -2, -1, 1, 2, 4, 8, 64))
    return _put(data, at, struct.pack("<I", (value + step) % 2**32))


def _point_word(data: bytes, chance: random.Random) -> bytes:
    """An offset to some place in the file, perhaps to itself or backwards."""
    if len(data) < 4:
        return data
    at = _word_at(data, chance)
    target = chance.choice((at, _word_at(data, chance), _word_at(data, chance), 0, len(data)))
    return _put(data, at, struct.pack("<I", (target - at) % 2**32))


def _swap_words(data: bytes, chance: random.Random) -> bytes:
    if len(data) < 4:
        return data
    one, other = _word_at(data, chance), _word_at(data, chance)
    words = data[one : one + 4], data[other : other + 4]
    return _put(_put(data, one, words[1]), other, words[0])


def _copy_words(data: bytes, chance: random.Random) -> bytes:
    if len(data) < 4:
        return data
    start = _word_at(data, chance)
    part = data[start : start + chance.choice((4, 8, 16, 64))]
    return _put(data, _word_at(data, chance), part)[: len(data)]


_INJURIES: tuple[Mutation, ...] = (
    *(_flip_bit, _flip_bit, _set_byte, _set_byte, _truncate, _extend, _drop_part, _repeat_part),
    *(_set_word, _set_word, _set_half_word, _shift_word, _shift_word, _point_word, _point_word),
    *(_swap_words, _copy_words, _put_hostile_text),
)


# Compression that promises or delivers far more than it should


def _bomb(data: bytes, chance: random.Random) -> bytes:
    before = Envelope.open(data).before
    blocks = chance.choice((1, 16, 200, 1000, 2000))
    declared = chance.choice((None, 0, 10, 2**20, blocks * 2**17, 2**31, 2**40, 2**64 - 3))
    return before + rle_bomb(blocks, declared, chance.choice((0x00, 0x50, 0x88, 0xFF)))


def rle_bomb(blocks: int, declared: int | None, window: int) -> bytes:
    """A zstd frame of blocks that are 128 KiB each and take 4 bytes, with a declared size or none."""
    head = ZSTD_MAGIC + (
        bytes([0x00, window])
        if declared is None
        else bytes([0xC0, window]) + struct.pack("<Q", declared)
    )
    run, last_run = ((2**17 << 3 | 1 << 1 | last).to_bytes(3, "little") for last in (0, 1))
    return head + (run + b"\0") * (blocks - 1) + last_run + b"\0"
