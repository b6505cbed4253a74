"""What `import frazil.virtual` costs, and what it offers."""

import ast
import subprocess
import sys
from pathlib import Path

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


def test_type_checkers_are_told_of_the_same_names() -> None:
    tree = ast.parse(Path(frazil.virtual.__file__).read_text())
    inside = [node for each in tree.body if isinstance(each, ast.If) for node in each.body]
    told = {
        (alias.name, str(node.module).removeprefix("frazil.virtual."))
        for node in inside
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert told == set(frazil.virtual._HOME_OF.items())
    assert set(frazil.virtual._HOME_OF) <= set(dir(frazil.virtual))


def test_what_needs_no_library_of_others_is_there_without_any() -> None:
    assert frazil.virtual.FileVersion is not None
    assert frazil.virtual.combine is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        frazil.virtual.nothing  # type: ignore[attr-defined]  # noqa: B018 (asking is the test)
