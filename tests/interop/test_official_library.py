"""The child process that speaks for the official library."""

import tomllib
from pathlib import Path

import pytest

from tests.interop.official_library import (
    ROOT,
    OfficialError,
    OfficialLibrary,
    OfficialLibraryMissing,
    find_python,
)


def test_it_is_the_release_that_the_project_names(official: OfficialLibrary) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["interop"]

    assert wanted[0].startswith(f"icechunk=={official.call('read_versions')['icechunk']};")


def test_an_error_says_what_the_official_library_said(
    official: OfficialLibrary, tmp_path: Path
) -> None:
    with pytest.raises(OfficialError) as refusal:
        official.open(tmp_path / "nothing").call("read_refs")

    assert refusal.value.type == "RepositoryNotFoundError"
    assert refusal.value.kind == "repository-not-found"


def test_it_goes_on_after_a_request_that_makes_no_sense(official: OfficialLibrary) -> None:
    with pytest.raises(OfficialError, match="KeyError"):
        official.call("no_such_call")

    assert official.call("read_versions")


def test_without_the_official_library_the_reason_is_plain(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho No module named icechunk >&2\nexit 1\n")
    python.chmod(0o755)

    with pytest.raises(OfficialLibraryMissing, match="No module named icechunk"):
        OfficialLibrary.start(python, tmp_path / "log")


def test_stopping_it_leaves_no_process_behind(tmp_path: Path) -> None:
    with OfficialLibrary.start(find_python(), tmp_path / "log") as library:
        assert library.is_running

    assert not library.is_running
