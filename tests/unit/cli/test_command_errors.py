"""Every error is one sentence with what to do next, and an exit code by its class."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import zarr

import frazil
from frazil import errors
from frazil.cli.command import explain_start
from frazil.cli.terminal import explain
from tests.command_line import Frazil, list_commands


def test_a_missing_repository_is_reported_with_its_place(run: Frazil, tmp_path: Path) -> None:
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
def test_what_is_missing_is_reported_with_what_lists_it(
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


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("none", "does not exist"),
        ("none/below", "does not exist"),
        ("", "is not a regular file"),
        ("pipe", "is not a regular file"),
    ],
)
def test_only_a_regular_file_is_inspected(
    run: Frazil, tmp_path: Path, name: str, what: str
) -> None:
    os.mkfifo(tmp_path / "pipe")

    failed = run("inspect", tmp_path / name)

    assert failed.code == 3
    assert f"{tmp_path / name} {what}" in failed.err.replace("\n", "")


def test_a_missing_object_of_a_repository_is_damage(run: Frazil, place: Path) -> None:
    shutil.rmtree(place / "manifests")

    for command in (("show", place, "surface/t2m"), ("stats", place)):
        failed = run(*command)
        assert failed.code == 8
        assert "frazil check" in failed.err


def test_diverged_branches_are_not_to_be_tried_again(run: Frazil, place: Path) -> None:
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(place)))
    repo.writable_session("experiment").commit("aside", allow_empty=True)

    failed = run("fast-forward", place, "main", "experiment")

    assert failed.code == 5
    assert "run it again" not in failed.err
    assert "frazil cherry-pick" in failed.err


def test_a_cherry_pick_that_conflicts_is_not_to_be_tried_again(run: Frazil, place: Path) -> None:
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(place)))
    session = repo.writable_session("experiment")
    zarr.open_array(session.store, path="surface/t2m")[10:] = 8
    session.commit("other values")

    failed = run("cherry-pick", place, "experiment", "--onto", "main")

    assert failed.code == 5
    assert "run it again" not in failed.err
    assert "frazil diff" in failed.err


@pytest.mark.parametrize("options", [(), ("--yes",), ("--dry-run",)])
def test_a_repository_of_the_newest_generation_needs_no_migration(
    run: Frazil, place: Path, options: tuple[str, ...]
) -> None:
    before = (place / "repo").read_bytes()

    done = run("migrate", place, *options)
    reported = run("migrate", place, *options, "--json").json

    assert done.code == 0
    assert "already is V2" in done.out
    assert (reported["from"], reported["to"], reported["is_migrated"]) == ("2", "2", False)
    assert (place / "repo").read_bytes() == before


def test_the_main_branch_can_not_be_deleted_and_that_is_wrong_usage(
    run: Frazil, place: Path
) -> None:
    assert run("branch", "delete", place, "main", "--yes").code == 2


def test_a_report_names_a_folder_that_is_missing_before_it_reads(
    run: Frazil, place: Path, tmp_path: Path
) -> None:
    shutil.rmtree(place / "manifests")

    failed = run("report", place, "-o", tmp_path / "none" / "report.html")

    assert failed.code == 3
    assert f"there is no folder {tmp_path / 'none'}" in failed.err.replace("\n", "")
    assert run("report", place, "-o", tmp_path).code == 2


def test_a_file_that_is_none_of_ours(run: Frazil, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"hello")

    failed = run("inspect", tmp_path / "x")

    assert failed.code == 8
    assert "no metadata file" in failed.err


def test_errors_are_json_for_programs(run: Frazil, tmp_path: Path) -> None:
    failed = run("info", tmp_path / "nowhere", "--json")

    reported = json.loads(failed.err)
    assert reported["exit_code"] == failed.code == 3
    assert reported["error"] == "RepositoryNotFoundError"
    assert reported["kind"] == "repository-not-found"


def test_debug_shows_where_it_came_from(run: Frazil, tmp_path: Path) -> None:
    with pytest.raises(errors.RepositoryNotFoundError):
        run("info", tmp_path / "nowhere", "--debug")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConflictError(message="x"), 5),
        (errors.DivergedError(message="x"), 5),
        (errors.InvalidInputError("x", kind="unauthorized-virtual-chunk-container"), 6),
        (errors.InvalidInputError("x", kind="key-not-found"), 3),
        (errors.ObjectNotFoundError("x"), 8),
        (errors.ObjectNotFoundError("x", kind="virtual-chunk-fetch"), 7),
        (errors.SessionStateError("x"), 2),
        (errors.SessionStateError("x", kind="feature-flag-disabled"), 11),
        (PermissionError(errno.EACCES, "x"), 6),
        (FileNotFoundError(errno.ENOENT, "x"), 3),
        (OSError(errno.EROFS, "x"), 11),
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
        reported = explain(error)

    assert reported.code == 7
    assert reported.advice is not None
    assert "the disk is full" in reported.advice


def test_an_error_that_was_dealt_with_does_not_explain_another() -> None:
    def fail() -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError:
            raise errors.InvalidInputError("x") from None

    with pytest.raises(errors.InvalidInputError) as failed:
        fail()

    assert explain(failed.value).code == 2


def test_only_a_race_is_to_be_tried_again() -> None:
    assert "run it again" in str(explain(errors.ConflictError(message="x")).advice)
    for error in (
        errors.DivergedError(message="x"),
        errors.RebaseFailedError(message="x", snapshot="A"),
    ):
        assert "run it again" not in str(explain(error).advice)


def test_a_missing_extra_is_reported_with_how_to_install_it() -> None:
    assert explain(ModuleNotFoundError("x", name="pyspark.sql")).advice == (
        "pip install 'frazil[spark]'"
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
    for name in list_commands():
        shown = run(*name, "--help")
        assert shown.code == 0
        assert f"frazil {' '.join(name)}" in shown.out.partition("Examples:")[2]
        assert "--json" in shown.out


def test_a_process_that_is_started_keeps_another_standard_error(tmp_path: Path) -> None:
    program = f"""
import subprocess, sys
from pathlib import Path
from frazil.cli.command import redirected_errors

with Path({str(tmp_path / "log")!r}).open("wb") as log, redirected_errors(log.fileno()):
    child = subprocess.Popen([sys.executable, "-c", "import sys; input(); sys.stderr.write('child')"],
                             stdin=subprocess.PIPE)
print("own", file=sys.stderr)
child.communicate(b"go\\n")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stderr == "own\n"
    assert (tmp_path / "log").read_text() == "child"


@pytest.mark.parametrize(
    ("raised", "log", "reason"),
    [
        (
            "An error occurred while calling None.\n: org.SparkException: no master 'x'\n\tat",
            "WARN Utils: loopback\n",
            "no master 'x'",
        ),
        ("[JAVA_GATEWAY_EXITED] Java gateway", "WARN\nError: no memory\n\n", "Error: no memory"),
        ("[JAVA_GATEWAY_EXITED] Java gateway", "", "[JAVA_GATEWAY_EXITED] Java gateway"),
    ],
)
def test_a_spark_that_does_not_start_is_reported_with_its_reason(
    raised: str, log: str, reason: str
) -> None:
    assert f"did not start: {reason} (--debug" in explain_start(RuntimeError(raised), log)


def test_an_unknown_command_names_the_nearest_one(run: Frazil, place: Path) -> None:
    assert "Did you mean 'log'?" in run("lgo", place).err
    assert "Did you mean 'create'?" in run("branch", "crate", place).err
    assert "Did you mean" not in run("branch", "xyz", place).err
