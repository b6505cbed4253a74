"""What the tests of virtual data share."""

from importlib.util import find_spec

import pytest

# VirtualiZarr needs a newer Python than Frazil does.
collect_ignore_glob = [] if find_spec("virtualizarr") else ["test_*.py"]

_WARNINGS = (
    "Numcodecs codecs are not in the Zarr version 3",
    "The data type .* does not have a Zarr V3 specification",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Filters of HDF5 have names that Zarr's specification has not, which it warns of when read."""
    for item in items:
        if "tests/virtual/" in item.path.as_posix():
            for message in _WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(f"ignore:{message}"))
