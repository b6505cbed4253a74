"""Generations of the format as users name them."""

from frazil.errors import InvalidInputError
from frazil.format.dialect import Dialect
from frazil.states import SpecVersion

_DIALECTS = {SpecVersion.v1: Dialect.V1, SpecVersion.v2: Dialect.V2}


def parse_spec_version(version: SpecVersion | int | None) -> Dialect:
    """The dialect of a version that new repositories can have; the newest, if none is given."""
    if version is None:
        return Dialect.V2
    for known, dialect in _DIALECTS.items():
        if version == known:
            return dialect
    if not isinstance(version, int):
        raise InvalidInputError(f"Couldn't parse a valid version from {version!r}: expected 1 or 2")
    raise InvalidInputError(f"Unsupported version {version}: expected 1 or 2")


def generation_of(dialect: Dialect) -> SpecVersion:
    """The version of a dialect."""
    for version, known in _DIALECTS.items():
        if dialect is known:
            return version
    return SpecVersion.draft if dialect is Dialect.DRAFT else SpecVersion.alpha
