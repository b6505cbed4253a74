"""What a user gets from `import frazil` alone."""

import ast
import importlib.util
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import zarr

import frazil
from frazil.testing.object_server import ObjectServer
from tests.generations import REPOSITORY_NAMES

# Prints one line for every promise that the import breaks.
IMPORT_FRAZIL_AND_COMPLAIN = """
import sys, threading
import frazil

engines = {
    "IPython", "numpy", "obstore", "zarr", "click", "dask", "pandas", "pyarrow", "pyspark", "rich",
    "starlette", "uvicorn", "virtualizarr", "xarray",
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


def test_one_module_starts_tasks_of_spark() -> None:
    sources = Path(frazil.__file__).parent.rglob("*.py")

    assert [path.name for path in sources if ".mapInArrow(" in path.read_text()] == ["runtime.py"]


def test_importing_starts_no_thread_and_loads_no_engine() -> None:
    child = subprocess.run(
        [sys.executable, "-c", IMPORT_FRAZIL_AND_COMPLAIN],
        capture_output=True,
        text=True,
        check=True,
    )

    assert child.stdout == ""


READ_ONE_CHUNK = """
import sys
import frazil, zarr

url, options = sys.argv[1], eval(sys.argv[2])
if url.startswith("memory"):
    repository = frazil.Repository.create(frazil.storage_from_url(url))
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4,), chunks=(2,), dtype="i4")[:] = 1
    session.commit("an array")
repository = frazil.Repository.open(frazil.storage_from_url(url, **options))
array = zarr.open_array(repository.readonly_session("main").store, path="a", mode="r")
assert array[:2].tolist() == [1, 1]
print(*(name for name in sys.modules if name.partition(".")[0] == "frazil"))
"""


def list_modules_that_read(url: str, **options: object) -> set[str]:
    """Our modules that a new process loads to open a repository and to read a chunk."""
    command = [sys.executable, "-c", READ_ONE_CHUNK, url, repr(options)]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(child.stdout.split())


def commit_an_array(storage: frazil.Storage) -> None:
    session = frazil.Repository.create(storage).writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4,), chunks=(2,), dtype="i4")[:] = 1
    session.commit("an array")


def test_reading_a_chunk_from_a_disk_loads_little(tmp_path: Path) -> None:
    commit_an_array(frazil.local_filesystem_storage(str(tmp_path)))

    loaded = list_modules_that_read(str(tmp_path))

    assert len(loaded) <= 60
    assert not {f"frazil.{each}" for each in _NOT_TO_READ} & loaded


_NOT_TO_READ = {
    "credentials", "format.alpha",
    "format.v2.manifest_encoder", "maintenance", "protocols.v1_protocol", "repository.commit",
    "repository.conflicts", "repository.rebase", "snapshots", "storage.memory", "storage.object_store",
    "storage.source_objects", "storage.store_config", "virtual.containers",
}  # fmt: skip


def test_committing_in_memory_loads_a_few_more() -> None:
    loaded = list_modules_that_read("memory://loaded")

    assert len(loaded) <= 65
    assert "frazil.storage.object_store" not in loaded


def test_reading_a_chunk_from_s3_loads_the_object_store() -> None:
    options = {
        "region": "us-east-1", "allow_http": True, "force_path_style": True,
        "access_key_id": "key", "secret_access_key": "secret",
    }  # fmt: skip
    with ObjectServer() as server:
        options["endpoint_url"] = server.url
        commit_an_array(frazil.storage_from_url("s3://bucket/modules", **options))
        loaded = list_modules_that_read("s3://bucket/modules", **options)

    assert len(loaded) <= 66
    assert "frazil.storage.local" not in loaded


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


@pytest.mark.parametrize("package", ["frazil", "frazil.spark", "frazil.virtual"])
def test_type_checkers_see_the_same_names(package: str) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text())
    for_checkers = [node for each in tree.body if isinstance(each, ast.If) for node in each.body]
    reported = {
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

    assert reported == {(name, home) for home, names in homes.items() for name in names.split()}


def test_a_name_that_is_none_is_reported_so() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        frazil.nothing  # type: ignore[attr-defined]  # noqa: B018 (asking is the test)


def test_the_pipeline_is_reachable_from_the_package_and_loads_no_spark() -> None:
    code = "import sys, frazil; print(frazil.spark.__name__, 'pyspark' in sys.modules)"

    child = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert child.stdout == "frazil.spark False\n"
    assert "spark" in dir(frazil)


def test_what_an_extra_has_says_what_to_install() -> None:
    code = """
import sys
sys.modules |= {"pyspark": None, "xarray": None, "dask.array": None}  # as if not installed
import frazil
try:
    frazil.spark.read
except frazil.errors.SetupError as error:
    print(error)
for name in ("xarray", "dask"):
    try:
        getattr(frazil, name)
    except ModuleNotFoundError as error:
        print(error)
"""

    child = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert child.stdout == (
        "frazil.spark.read needs pyspark, which is not installed: pip install 'frazil[spark]'\n"
        "frazil.xarray needs xarray, which is not installed: pip install 'frazil[xarray]'\n"
        "frazil.dask needs dask, which is not installed: pip install 'frazil[dask]'\n"
    )


def test_modules_are_reachable_from_the_package_alone() -> None:
    code = "import frazil; print(frazil.config.RepositoryConfig(), frazil.storage.S3Options())"

    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("name", ["frazil", "frazil.storage"])
def test_the_class_of_storages_has_its_constructors_at_once(name: str) -> None:
    code = f"import {name} as package; package.Storage.new_in_memory()"

    subprocess.run([sys.executable, "-c", code], check=True)
