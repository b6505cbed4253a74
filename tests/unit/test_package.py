"""What a user gets from `import frazil` alone."""

import ast
import importlib.util
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import frazil
from tests.generations import REPOSITORY_NAMES

# Prints one line for every promise that the import breaks.
IMPORT_FRAZIL_AND_COMPLAIN = """
import sys, threading
import frazil

engines = {
    "IPython", "numpy", "obstore", "zarr", "click", "dask", "pandas", "pyarrow", "pyspark", "rich",
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


def test_every_name_is_found_where_the_table_says() -> None:
    assert len(frazil.__all__) == 122
    for name in frazil.__all__:
        assert getattr(frazil, name) is not None
        assert name in dir(frazil)


@pytest.mark.parametrize(
    "package", ["frazil", "frazil.spark", "frazil.spark.checks", "frazil.virtual"]
)
def test_type_checkers_are_told_of_the_same_names(package: str) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text())
    for_checkers = [node for each in tree.body if isinstance(each, ast.If) for node in each.body]
    told = {
        (alias.name, str(node.module).removeprefix(f"{package}."))
        for node in for_checkers
        if isinstance(node, ast.ImportFrom) and node.module != package
        for alias in node.names
    }
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    (homes,) = (
        ast.literal_eval(node.value)
        for node in assigned
        if ast.unparse(node.targets[0]) == "_HOMES"
    )

    assert told == {(name, home) for home, names in homes.items() for name in names.split()}


def test_a_name_that_is_none_is_told_so() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        frazil.nothing  # type: ignore[attr-defined]  # noqa: B018 (asking is the test)


def test_the_pipeline_is_reachable_from_the_package_and_loads_no_spark() -> None:
    code = "import sys, frazil; print(frazil.spark.__name__, 'pyspark' in sys.modules)"

    child = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert child.stdout == "frazil.spark False\n"
    assert "spark" in dir(frazil)


def test_a_job_without_spark_says_what_to_install() -> None:
    code = """
import sys
sys.modules["pyspark"] = None  # as if it were not installed
import frazil
try:
    frazil.spark.ingest
except frazil.errors.SetupError as error:
    print(error)
"""

    child = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert child.stdout == (
        "frazil.spark.ingest needs pyspark, which is not installed: pip install 'frazil[spark]'\n"
    )


def test_modules_are_reachable_from_the_package_alone() -> None:
    code = "import frazil; print(frazil.config.RepositoryConfig(), frazil.storage.S3Options())"

    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
