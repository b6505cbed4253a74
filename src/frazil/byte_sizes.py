"""Amounts of memory as people write them."""

import re

from frazil.errors import InvalidInputError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY_UNITS = {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def parse_bytes(size: int | str) -> int:
    """Bytes of `512MB`, `1.5 GiB` or a number; raises InvalidInputError."""
    if isinstance(size, int):
        found = size
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?\s*", size.upper())
        if match is None:
            raise InvalidInputError(f"{size!r} is no amount of memory, such as '512MB'")
        found = int(float(match[1]) * {**_UNITS, **_BINARY_UNITS}[match[2] or ""])
    if found < 1:
        raise InvalidInputError(f"{size!r} is no amount of memory")
    return found
