"""Repositories of every generation."""

import sys
from pathlib import Path

import pytest

from frazil import Repository
from tests.known_repositories import open_known

KNOWN: tuple[str, ...] = (
    "draft-json", "alpha-msgpack-0.1.0a1-a4", "alpha-real-20241226-a8", "alpha-msgpack-0.1.0-0.1.3",
    "v1-1.0.3-split", "v1-1.1.21-expired", "v2-2.0.0a3", "v2-2.3.0-expired",
    "v2-2.3.0-split", "v2-migrated-from-v1-1.1.21",
)  # fmt: skip
"""Of all generations, written by the official library and by those before it."""
if sys.version_info >= (3, 12):
    KNOWN += ("v2-2.3.0-rich",)  # whose rectilinear grids the Zarr of older Pythons does not know


@pytest.fixture(params=KNOWN)
def generation(request: pytest.FixtureRequest, generations: Path) -> Repository:
    """A repository of some generation."""
    return open_known(generations / request.param)
