"""What a command loads before it does anything."""

import subprocess
import sys

import pytest

import frazil

_LOADED = """
import sys
sys.argv = ["frazil", {option!r}]
from frazil.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
print(*sys.modules, file=sys.stderr)
"""
_HEAVY = ("numpy", "zarr", "obstore", "flatbuffers", "xarray", "pyspark")
_ROOMS = ("config", "format", "maintenance", "protocols", "repository", "storage", "tables", "web")


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_neither_version_nor_help_loads_a_repository(option: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED.format(option=option)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    loaded = set(done.stderr.split())
    expected = frazil.__version__ if option == "--version" else "fast-forward"
    assert expected in done.stdout
    assert loaded.isdisjoint({*_HEAVY, *(f"frazil.{room}" for room in _ROOMS)})
    assert not loaded & {"rich", "frazil.cli.read_commands", "frazil.cli.job_commands"}


def test_names_of_commands_and_options_are_completed_without_a_repository() -> None:
    for typed, expected in (("frazil fast", "fast-forward"), ("frazil log --one", "--oneline")):
        program = (
            f"import os, sys; os.environ.update(_FRAZIL_COMPLETE='bash_complete',"
            f" COMP_WORDS={typed!r}, COMP_CWORD='{typed.count(' ')}')\n" + _LOADED
        )
        done = subprocess.run(
            [sys.executable, "-c", program.format(option="")], capture_output=True, text=True
        )
        assert expected in done.stdout
        assert set(done.stderr.split()).isdisjoint({"rich", *_HEAVY})


def test_the_version_needs_no_command() -> None:
    program = _LOADED.format(option="--version")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert {name for name in done.stderr.split() if name.startswith("frazil.")} == {
        "frazil.cli",
        "frazil.lazy",
    }
    assert "click" not in done.stderr.split()


def test_a_first_commit_loads_nothing_of_older_generations() -> None:
    program = """
import gc, sys, zarr
import frazil
session = frazil.Repository.create(frazil.in_memory_storage()).writable_session("main")
zarr.create_group(session.store)
session.commit("group")
assert gc.isenabled(), "loading stops collections of garbage only for a moment"
assert gc.get_freeze_count() == 0
print(*sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    unused = {"flatbuffers", "frazil.protocols.v1_protocol", "frazil.format.text_files"}
    assert unused.isdisjoint(done.stdout.split())
