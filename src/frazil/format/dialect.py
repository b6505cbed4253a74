"""The dialects in which metadata files exist, and what decoding a file gives."""

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from frazil.format.header import Header

T_co = TypeVar("T_co", covariant=True)


class Dialect(Enum):
    """How files are laid out. A repository stays in its dialect when it is committed to.

    The alpha releases changed their MessagePack layout seven times; the letters are those of
    `docs/compatibility.md`.
    """

    DRAFT = "draft"
    ALPHA_A = "0.1.0a1-a4"
    ALPHA_B = "0.1.0a5-a7"
    ALPHA_C = "0.1.0a8"
    ALPHA_D = "0.1.0a9"
    ALPHA_E = "0.1.0a10"
    ALPHA_F = "0.1.0a11-a12"
    ALPHA_G = "0.1.0a13-a15"
    ALPHA_H = "0.1.0-0.1.3"
    V1 = "1"
    V2 = "2"


@dataclass(frozen=True, slots=True)
class Decoded(Generic[T_co]):
    """A file's value with the dialect to write it back in."""

    value: T_co
    dialect: Dialect
    header: Header | None = None
    """None where the file has none: the draft and the alphas before 0.1.0a10."""
