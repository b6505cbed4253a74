"""What is in the packages that users install."""

import tarfile
import zipfile
from configparser import ConfigParser
from email import message_from_string
from pathlib import Path

import pytest

import frazil
from tests.packaging.building import Builder
from tests.pages import ROOT, find_pages

pytestmark = pytest.mark.xdist_group("packaging")

SOURCE = ROOT / "src"
INFO = f"frazil-{frazil.__version__}.dist-info"


def read(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name).decode()


def test_the_wheel_has_all_files_of_the_package_and_no_others(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.startswith(f"{INFO}/")}

    files = {path for path in (SOURCE / "frazil").rglob("*") if path.is_file()}
    assert packed == {
        path.relative_to(SOURCE).as_posix() for path in files if "__pycache__" not in path.parts
    }
    assert {"frazil/py.typed", "frazil/spark/__init__.py", "frazil/web/explorer.js"} <= packed


def test_the_wheel_names_its_command_and_its_backend_of_xarray(wheel: Path) -> None:
    entry_points = ConfigParser()
    entry_points.read_string(read(wheel, f"{INFO}/entry_points.txt"))

    assert dict(entry_points["console_scripts"]) == {"frazil": "frazil.cli:main"}
    assert dict(entry_points["xarray.backends"]) == {
        "frazil": "frazil.xarray_backend:FrazilBackendEntrypoint"
    }


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    reported = message_from_string(read(wheel, f"{INFO}/METADATA"))

    assert reported["Version"] == frazil.__version__
    assert reported["License-Expression"] == "Apache-2.0"
    assert reported["Requires-Python"] == ">=3.11"
    assert set(reported.get_all("Provides-Extra", [])) == {
        "spark", "cluster", "connect", "virtual", "grib", "geo", "web", "xarray", "dask", "all",
        "datasets", "demo", "observe",
    }  # fmt: skip
    assert not any("icechunk" in each for each in reported.get_all("Requires-Dist", []))
    assert "# Frazil" in reported.get_payload()


def test_the_source_has_tests_and_the_pages_that_they_run(source: Path) -> None:
    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}

    pages = {page.relative_to(ROOT).as_posix() for page in find_pages()}
    assert pages | {"pyproject.toml", "LICENSE", "Makefile", "tests/conftest.py"} <= packed
    assert not any(name.startswith((".venv", "demo-output", ".git/")) for name in packed)


def test_the_source_makes_the_same_wheel(
    builder: Builder, wheel: Path, source: Path, tmp_path: Path
) -> None:
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (project,) = tmp_path.iterdir()

    again = builder.build_wheel(project, tmp_path)

    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        assert {name: one.read(name) for name in one.namelist()} == {
            name: other.read(name) for name in other.namelist()
        }
