"""The commands of the page about the command line run, and it has all of them."""

import re
import shlex
from pathlib import Path

import pytest
import zarr

import frazil
from tests.command_line import Frazil, list_commands
from tests.pages import DOCS, find_blocks, find_commands

PAGE = DOCS / "cli.md"


def find_arguments() -> list[list[str]]:
    """Of every command of the page, in order."""
    commands = (each for block in find_blocks(PAGE) for each in find_commands(block))
    return [shlex.split(each)[1:] for each in commands if each.startswith("frazil ")]


def test_every_command_of_the_page_runs(
    run: Frazil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    create, *others = find_arguments()
    assert run(*create).code == 0
    repo = frazil.Repository.open(frazil.local_filesystem_storage("weather"))
    session = repo.writable_session("main")
    zarr.group(session.store).create_array("surface/t2m", shape=(4,), dtype="f4")[:] = 1
    repo.create_tag("v1", session.commit("one"))

    for command in others:
        done = run(*command)
        assert done.code == 0, (command, done.err)


def test_every_command_is_on_the_page() -> None:
    table = PAGE.read_text().partition("| command | does |")[2].partition("\n## ")[0]

    assert [name for name, *_ in list_commands() if f"`{name}`" not in table] == []


def test_json_has_the_documented_fields(run: Frazil, place: Path) -> None:
    section = PAGE.read_text().partition("\n## JSON\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE))

    def fields(command: str) -> list[str]:
        return re.findall(r"`(\w+)`", rows[command])

    for command, arguments in (
        ("`info`", ()), ("`show` of a group", ()), ("`diff`", ("v1", "main")), ("`stats`", ()),
        ("`top`", ()), ("`log`", ()), ("`tree`", ()),
    ):  # fmt: skip
        found = run(command.split("`")[1], place, *arguments, "--json").json
        assert sorted(found[0] if isinstance(found, list) else found) == sorted(fields(command))
    assert sorted(run("tag", "list", place, "--json").json["v1"]) == sorted(
        fields("`branch list`, `tag list`")
    )
