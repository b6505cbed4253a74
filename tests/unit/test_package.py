"""What a user gets from `import frazil` alone."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import frazil
from tests.generations import REPOSITORY_NAMES

# Prints one line for every promise that the import breaks.
IMPORT_FRAZIL_AND_COMPLAIN = """
import sys, threading
import frazil

engines = {
    "IPython", "click", "dask", "pandas", "pyarrow", "pyspark", "rich",
    "starlette", "typer", "uvicorn", "virtualizarr", "xarray",
}
for engine in sorted(engines & sys.modules.keys()):
    print("imports", engine)
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        print("starts", thread)
"""


def test_version_is_the_one_that_is_installed() -> None:
    assert isinstance(frazil.__version__, str)
    assert frazil.__version__ == metadata.version("frazil")


def test_package_says_that_it_is_typed() -> None:
    assert Path(frazil.__file__).with_name("py.typed").is_file()


def test_importing_starts_no_thread_and_loads_no_engine() -> None:
    child = subprocess.run(
        [sys.executable, "-c", IMPORT_FRAZIL_AND_COMPLAIN],
        capture_output=True,
        text=True,
        check=True,
    )

    assert child.stdout == ""


def test_every_repository_of_the_archive_is_unpacked(generations: Path) -> None:
    unpacked = sorted(path.parent.name for path in generations.glob("*/expected.json"))

    assert unpacked == REPOSITORY_NAMES
    assert unpacked
    assert all((generations / name / "repo").is_dir() for name in unpacked)
