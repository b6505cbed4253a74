"""Every error is one sentence with what to do next, and an exit code by its class."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import frazil
from frazil import errors
from frazil.cli.app import make_app
from frazil.cli.failing import explain
from tests.command_line import Frazil


def test_a_missing_repository_is_told_with_its_place(run: Frazil, tmp_path: Path) -> None:
    failed = run("log", tmp_path / "nowhere")

    assert failed.code == 3
    assert f"there is no repository at {tmp_path / 'nowhere'}" in failed.err.replace("\n", "")
    assert "frazil create" in failed.err
    assert "Traceback" not in failed.err


def test_a_wrong_url_is_wrong_usage(run: Frazil) -> None:
    failed = run("info", "ftp://somewhere/else")

    assert failed.code == 2
    assert "there are no repositories at ftp://" in failed.err


def test_what_an_older_generation_has_not_is_no_damage(run: Frazil, tmp_path: Path) -> None:
    place = str(tmp_path / "old")
    frazil.create_legacy(frazil.local_filesystem_storage(place))

    failed = run("ops", place)

    assert failed.code == 2
    assert "ops log" in failed.err
    assert "frazil migrate" in failed.err


def test_creating_twice_says_that_it_exists(run: Frazil, place: Path) -> None:
    assert run("create", place).code == 4


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (("log", "{}@nothing"), "frazil branch list"),
        (("show", "{}", "nothing"), "frazil tree"),
        (("diff", "{}", "v1", "nothing"), "frazil branch list"),
        (("tree", "{}", "nothing"), "frazil tree"),
    ],
)
def test_what_is_missing_is_told_with_what_lists_it(
    run: Frazil, place: Path, arguments: tuple[str, ...], advice: str
) -> None:
    failed = run(*(each.format(place) for each in arguments))

    assert failed.code == 3
    assert advice in failed.err


def test_a_damaged_file_leads_to_check(run: Frazil, place: Path) -> None:
    (place / "repo").write_bytes(b"not what it was")

    failed = run("info", place)

    assert failed.code == 8
    assert "frazil check" in failed.err


def test_no_file_to_inspect(run: Frazil, tmp_path: Path) -> None:
    assert run("inspect", tmp_path / "none").code == 7


def test_a_file_that_is_none_of_ours(run: Frazil, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"hello")

    failed = run("inspect", tmp_path / "x")

    assert failed.code == 8
    assert "no metadata file" in failed.err


def test_errors_are_json_for_programs(run: Frazil, tmp_path: Path) -> None:
    failed = run("info", tmp_path / "nowhere", "--json")

    told = json.loads(failed.err)
    assert told["exit_code"] == failed.code == 3
    assert told["error"] == "RepositoryNotFoundError"
    assert told["kind"] == "repository-not-found"


def test_debug_shows_where_it_came_from(run: Frazil, tmp_path: Path) -> None:
    with pytest.raises(errors.RepositoryNotFoundError):
        run("info", tmp_path / "nowhere", "--debug")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConflictError("x"), 5),
        (errors.PermissionDeniedError("x"), 6),
        (errors.ThrottledError("x"), 7),
        (errors.FormatError("x"), 8),
        (errors.SetupError("no Java"), 9),
        (errors.JobError("x"), 10),
        (errors.JobCancelledError("x"), 130),
        (errors.ReadOnlyError("x"), 11),
        (errors.InvalidInputError("x"), 2),
        (errors.InternalError("x"), 1),
        (ModuleNotFoundError("x", name="pyspark"), 9),
        (ZeroDivisionError("x"), 1),
    ],
)
def test_exit_codes_go_by_class(error: Exception, code: int) -> None:
    assert explain(error).code == code


def test_a_full_disk_is_named_however_deep_it_is() -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise errors.StorageError("could not write manifests/X") from error
    except errors.StorageError as error:
        told = explain(error)

    assert told.code == 7
    assert told.advice is not None
    assert "the disk is full" in told.advice


def test_a_missing_extra_is_told_with_how_to_install_it() -> None:
    assert explain(ModuleNotFoundError("x", name="pyspark.sql")).advice == (
        'pip install "frazil[spark]"'
    )


def test_a_reader_that_goes_away_is_no_error(place: Path) -> None:
    command = f"{sys.executable} -m frazil.cli log {place} | head -c 1"

    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, check=False, timeout=60
    )

    assert done.stderr == b""


def test_without_colour_there_are_no_escapes(place: Path) -> None:
    environment = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "1"}

    done = subprocess.run(
        [sys.executable, "-m", "frazil.cli", "log", str(place)],
        capture_output=True, check=True, timeout=60, env=environment,
    )  # fmt: skip

    assert b"\x1b[3" not in done.stdout


def test_every_command_has_help_with_an_example(run: Frazil) -> None:
    app = make_app()
    names: list[tuple[str | None, ...]] = [(each.name,) for each in app.registered_commands]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        names += [(group.name, each.name) for each in group.typer_instance.registered_commands]

    for name in names:
        shown = run(*name, "--help")
        assert shown.code == 0
        assert f"frazil {' '.join(map(str, name))}" in " ".join(shown.out.split())
        assert "--json" in shown.out
