"""Copies, exports and imports from the command line."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from tests.command_line import Frazil

pytest.importorskip("pyspark")

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


def read(place: Path, path: str = "surface/t2m") -> list[float]:
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(place)))
    array = zarr.open_array(repo.readonly_session("main").store, path=path, mode="r")
    return list(np.asarray(array[:, 0]))


def test_a_repository_is_copied_and_copied_again(run: Frazil, place: Path, tmp_path: Path) -> None:
    first = run("copy", place, tmp_path / "copy", "--json")
    again = run("copy", place, tmp_path / "copy")

    assert first.code == 0
    assert first.json["new_snapshots"] == 3
    assert first.json["branches"] == ["experiment", "main"]
    assert again.code == 0
    assert "has changed    no" in again.out
    assert read(tmp_path / "copy") == read(place)


def test_a_part_is_chosen(run: Frazil, place: Path, tmp_path: Path) -> None:
    done = run(
        "copy", place, tmp_path / "copy", "--branch", "main", "--no-tags", "--last", 1, "--json"
    )

    assert (done.json["snapshots"], done.json["tags"]) == (2, [])
    assert run("copy", place, tmp_path / "part", "--group", "surface").code == 0
    assert read(tmp_path / "part") == read(place)


def test_what_is_refused_has_its_exit_code(run: Frazil, place: Path, tmp_path: Path) -> None:
    run("create", tmp_path / "other")

    assert run("copy", tmp_path / "none", tmp_path / "copy").code == 3
    assert run("copy", place, tmp_path / "copy", "--branch", "none").code == 3
    assert run("copy", place, tmp_path / "other").code == 4
    assert run("export", place, place).code == 4
    missing = run("import", tmp_path / "none", place, "--group", "new")
    assert missing.code == 3
    assert f"there is no Zarr hierarchy in {tmp_path / 'none'}" in missing.err.replace("\n", "")
    assert not (tmp_path / "copy").exists()


def test_files_of_this_machine_are_exported_with_authorization_and_copied_with_a_warning(
    run: Frazil, tmp_path: Path
) -> None:
    (tmp_path / "archive").mkdir()
    source = tmp_path / "archive" / "data"
    source.write_bytes(np.arange(8, dtype="f4").tobytes())
    prefix = f"file://{source.parent}/"
    config = frazil.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(source.parent)))
    )
    place = tmp_path / "virtual"
    storage = frazil.local_filesystem_storage(str(place))
    repo = frazil.Repository.create(storage, config)
    repo.save_config()
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="t", shape=(8,), chunks=(8,), dtype="f4", compressors=None, filters=None
    )
    session.store.set_virtual_ref("t/c/0", f"{prefix}data", offset=0, length=32)
    session.commit("virtual")

    copied = run("copy", place, tmp_path / "copy")
    refused = run("export", place, tmp_path / "plain")
    allowed = run("export", place, tmp_path / "other", "--authorize", "*")

    assert copied.code == 0
    assert "other machines can't read" in copied.err.replace("\n", " ")
    assert prefix in copied.err.replace("\n", "")
    assert (refused.code, allowed.code) == (6, 0)
    assert "--authorize" in refused.err


def test_a_version_goes_out_and_comes_in(run: Frazil, place: Path, tmp_path: Path) -> None:
    out = run("export", f"{place}@v1", tmp_path / "plain", "--json")
    back = run("import", tmp_path / "plain", place, "--group", "again", "-m", "back", "--json")

    assert (out.json["arrays"], out.json["chunks"]) == (1, 2)
    plain = zarr.open_array(str(tmp_path / "plain"), path="surface/t2m", mode="r")
    assert plain.attrs["units"] == "K"
    assert back.json["chunks"] == 2
    assert read(place, "again/surface/t2m") == list(np.asarray(plain[:, 0]))


def test_the_commands_of_the_page_run(
    run: Frazil, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.parent)
    (block,) = re.findall(r"```sh\n(frazil copy.*?)```", PAGE.read_text(), re.DOTALL)

    for line in block.splitlines():
        _, *command = shlex.split(line, comments=True)
        done = run(*command)
        assert done.code == 0, (command, done.err)
