"""What `import frazil.virtual` costs, and what it offers."""

import subprocess
import sys

import pytest

import frazil.virtual

# Prints a line for each library that the import loads and should not.
IMPORT_AND_COMPLAIN = """
import sys
import frazil.virtual

heavy = {"h5py", "obspec_utils", "pandas", "virtualizarr", "xarray", "zarr"}
for library in sorted(heavy & sys.modules.keys()):
    print("imports", library)
"""


def test_importing_loads_nothing_heavy() -> None:
    child = subprocess.run(
        [sys.executable, "-c", IMPORT_AND_COMPLAIN], capture_output=True, text=True, check=True
    )

    assert child.stdout == ""


def test_what_needs_no_library_of_others_is_there_without_any() -> None:
    assert frazil.virtual.FileVersion is not None
    assert frazil.virtual.combine is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        frazil.virtual.nothing  # type: ignore[attr-defined]  # noqa: B018 (asking is the test)
