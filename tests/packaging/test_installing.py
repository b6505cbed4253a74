"""What `pip install` of the wheel gives, with just the packages that it says it needs."""

import tomllib

import pytest

import frazil
from tests.packaging.building import Environment
from tests.pages import DOCS, ROOT, find_blocks

pytestmark = pytest.mark.xdist_group("packaging")

# Prints what the import brings along that is neither Python's nor ours.
IMPORT_AND_LIST = """
import sys
before = set(sys.modules)
import frazil
names = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(names - sys.stdlib_module_names - {"frazil"}))
"""
COMMIT_AND_READ = """
import frazil, zarr
repo = frazil.Repository.create(frazil.local_filesystem_storage("repository"))
with repo.transaction("main", message="one") as store:
    zarr.create_array(store, name="a", shape=(4,), chunks=(2,), dtype="i4")[:] = 7
print(zarr.open_array(repo.readonly_session("main").store, path="a")[3])
"""
HEAVY = ("pyspark", "pandas", "pyarrow", "xarray", "dask", "virtualizarr", "starlette", "icechunk")


def test_it_is_the_wheel_that_is_imported(environment: Environment) -> None:
    code = "import frazil, frazil.cli; print(frazil.__version__, frazil.__file__)"

    done = environment.run("python", "-c", code)

    assert done.stdout.split()[0] == frazil.__version__, done.stderr
    assert str(environment.folder) in done.stdout


def test_importing_brings_nothing_along(environment: Environment) -> None:
    done = environment.run("python", "-c", IMPORT_AND_LIST)

    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_nothing_heavy_is_installed_with_it(environment: Environment) -> None:
    code = f"from importlib.util import find_spec; print([n for n in {HEAVY} if find_spec(n)])"

    assert environment.run("python", "-c", code).stdout.strip() == "[]"


def test_the_command_has_help_and_a_version(environment: Environment) -> None:
    helped = environment.run("frazil", "--help")
    reported = environment.run("frazil", "--version")

    assert helped.returncode == 0, helped.stderr
    assert {"create", "ingest", "serve"} <= set(helped.stdout.split())
    assert frazil.__version__ in reported.stdout


def test_arrays_are_committed_and_read(environment: Environment) -> None:
    done = environment.run("python", "-W", "error", "-c", COMMIT_AND_READ)
    tree = environment.run("frazil", "tree", "repository")

    assert done.stdout.strip() == "7", done.stderr
    assert "int32" in tree.stdout, tree.stderr


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (("sql", "repository", "SELECT 1"), "spark"),
        (("demo", "demo"), "demo"),
        (("serve", "repository"), "web"),
    ],
)
def test_what_an_extra_is_needed_for_says_so(
    environment: Environment, command: tuple[str, ...], extra: str
) -> None:
    failed = environment.run("frazil", *command)

    assert failed.returncode == 9, failed.stderr
    assert f"frazil[{extra}]" in failed.stderr


def test_pages_name_extras_that_there_are() -> None:
    commands = [block.text for page in DOCS.rglob("*.md") for block in find_blocks(page)]
    installs = [line for text in commands for line in text.splitlines() if "pip install" in line]

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert len(installs) >= 4
    for line in installs:
        extras = line.partition("frazil[")[2].partition("]")[0].split(",")
        assert set(extras) <= set(project["optional-dependencies"])
