"""Damaging files: what a disk, a network or an attacker could do to them."""

import random
from collections.abc import Callable, Sequence

from frazil.errors import FormatError

_TELLING_BYTES = bytes.fromhex("00 01 7f 80 81 90 91 c0 c1 c3 c4 c6 ca cb cf d3 d9 db dc dd df ff")


def decode_mutants(
    decode: Callable[[bytes], object], files: Sequence[bytes], count: int, chance: random.Random
) -> int:
    """Decode damaged copies of files; how many raised FormatError. Any other exception passes on."""
    refused = 0
    for _ in range(count):
        try:
            decode(mutate(chance.choice(files), chance))
        except FormatError:
            refused += 1
    return refused


def mutate(data: bytes, chance: random.Random) -> bytes:
    """A copy with one to three injuries."""
    for _ in range(chance.randint(1, 3)):
        data = chance.choice(_INJURIES)(data, chance)
    return data


def _truncate(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _flip_bit(data: bytes, chance: random.Random) -> bytes:
    return _overwrite(data, chance, lambda byte: byte ^ 1 << chance.randrange(8))


def _put_telling_byte(data: bytes, chance: random.Random) -> bytes:
    return _overwrite(data, chance, lambda _: chance.choice(_TELLING_BYTES))


def _overwrite(data: bytes, chance: random.Random, change: Callable[[int], int]) -> bytes:
    if not data:
        return data
    where = chance.randrange(len(data))
    return data[:where] + bytes([change(data[where])]) + data[where + 1 :]


def _repeat_part(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    stop = min(len(data), start + chance.randrange(1, 64))
    return data[:stop] + data[start:]


def _drop_part(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    return data[:start] + data[start + chance.randrange(1, 16) :]


_INJURIES = (_truncate, _flip_bit, _put_telling_byte, _repeat_part, _drop_part)
