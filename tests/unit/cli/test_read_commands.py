import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import frazil
from frazil.maintenance.leases import leased
from frazil.repository.inspect import describe_file
from tests.command_line import Frazil


def test_info_reports_generation_refs_and_the_last_commit(run: Frazil, place: Path) -> None:
    shown = run("info", place)
    found = run("info", place, "--json").json

    assert "ten more" in shown.out
    assert found["generation"] == "2"
    assert sorted(found["branches"]) == ["experiment", "main"]
    assert list(found["tags"]) == ["v1"]
    assert found["last_commit"]["message"] == "ten more"


def test_repositories_of_older_generations_are_shown_as_well(run: Frazil, tmp_path: Path) -> None:
    place = str(tmp_path / "old")
    frazil.create_legacy(frazil.local_filesystem_storage(place))

    found = run("info", place, "--json").json
    report = run("report", place, "--output", tmp_path / "report.html")

    assert (found["generation"], found["status"]) == ("0.1.0-0.1.3", None)
    assert report.code == 0
    assert "0.1.0-0.1.3" in (tmp_path / "report.html").read_text()


def test_log_shows_id_refs_author_date_and_message(run: Frazil, place: Path) -> None:
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(place)))
    session = repo.writable_session("main")
    id = session.commit("corrected\n\nafter a report", {"author": "Ada"}, allow_empty=True)
    day = f"{repo.lookup_snapshot(id).written_at:%F}"

    shown = run("log", place, "--limit", 1).out.splitlines()
    line = run("log", place, "--limit", 1, "--oneline").out
    drawn = run("log", place, "--all", "--graph").out.splitlines()
    found = run("log", place, "--limit", 1, "--json").json

    assert shown[:2] == [f"commit {id} (main)", "Author: Ada"]
    assert shown[2].startswith(f"Date:   {day}")
    assert shown[4:] == ["    corrected", "    ", "    after a report"]
    assert line.startswith(f"{id[:8]} (main) {day}")
    assert line.endswith("  Ada  corrected\n")
    assert drawn[0].startswith(f"● {id[:8]} (main) {day}")
    assert any("(experiment, tag: v1)" in each for each in drawn)
    assert (found[0]["author"], found[0]["metadata"]) == ("Ada", {"author": "Ada"})


def test_log_of_a_version_has_its_ancestry_since_a_time(run: Frazil, place: Path) -> None:
    older = run("log", f"{place}@v1", "--json").json

    assert [each["message"] for each in older] == ["ten days", "Repository initialized"]
    assert len(run("log", place, "--since", "1h", "--json").json) == 3
    assert run("log", place, "--since", "2199-01-01", "--json").json == []
    assert run("log", place, "--since", "last week").code == 2


def test_log_of_all_refs_has_every_snapshot_once(run: Frazil, place: Path) -> None:
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(place)))
    session = repo.writable_session("experiment")
    session.commit("aside", allow_empty=True)

    found = run("log", place, "--all", "--json").json

    assert sorted(each["message"] for each in found) == [
        "Repository initialized", "aside", "ten days", "ten more",
    ]  # fmt: skip


def test_log_takes_a_limit(run: Frazil, place: Path) -> None:
    found = run("log", place, "--limit", 1, "--json").json

    assert [each["message"] for each in found] == ["ten more"]


def test_ops_lists_operations_newest_first(run: Frazil, place: Path) -> None:
    found = run("ops", place, "--json").json

    assert [each["operation"] for each in found] == [
        "BranchCreated", "NewCommit", "TagCreated", "NewCommit", "RepoInitialized",
    ]  # fmt: skip
    assert found[2]["name"] == "v1"
    assert "BranchCreated" in run("ops", place).out


def test_tree_shows_arrays_with_their_shape(run: Frazil, place: Path) -> None:
    shown = run("tree", place)
    found = run("tree", place, "surface", "--json").json

    assert shown.out.splitlines() == [
        "/", "└── surface", "    └── t2m  float32  20 × 6 (time, lat)", "", "1 group, 1 array",
    ]  # fmt: skip
    assert [each["path"] for each in found] == ["/surface", "/surface/t2m"]
    assert "t2m" not in run("tree", place, "-L", 1).out
    assert "0 arrays" in run("tree", place, "--groups").out


def test_own_records_are_shown_only_if_they_are_asked_for(run: Frazil, place: Path) -> None:
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(place)))
    with repo.transaction("main", message="records") as store:
        zarr.create_group(store, path="_frazil/ledger")

    assert "_frazil" not in run("tree", place).out
    assert "ledger" in run("tree", place, "--all").out
    assert "ledger" in run("tree", place, "_frazil").out
    assert "_frazil" not in run("show", place).out


def test_show_reports_metadata_chunks_and_values(run: Frazil, place: Path) -> None:
    shown = run("show", place, "surface/t2m")
    found = run("show", f"{place}@v1", "/surface/t2m", "--json").json

    assert "20 × 6" in shown.out
    assert "units" in shown.out
    assert found["chunks"] == {"native": 0, "virtual": 0, "inline": 2, "grid": 4}
    assert found["values"]["maximum"] == 59.0
    assert found["attributes"] == {"units": "K"}


def test_show_names_the_option_that_lets_it_read_virtual_chunks(
    run: Frazil, tmp_path: Path
) -> None:
    (tmp_path / "an archive").mkdir()
    (tmp_path / "an archive" / "data").write_bytes(bytes(32))
    prefix = f"file://{tmp_path}/an%20archive/"
    config = frazil.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(tmp_path)))
    )
    place = tmp_path / "virtual"
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(place)), config)
    repo.save_config()
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="t", shape=(8,), chunks=(8,), dtype="f4", compressors=None, filters=None
    )
    session.store.set_virtual_ref("t/c/0", f"{prefix}data", offset=0, length=32)
    session.commit("virtual")

    refused = run("show", place, "t", "--json")
    allowed = run("show", place, "t", "--json", "--authorize", prefix)

    assert (refused.code, allowed.code) == (0, 0)
    assert refused.json["values"] is None
    assert f"--authorize {prefix}, or with --authorize '*'" in refused.err
    assert len(refused.err.splitlines()) == 1
    assert allowed.json["values"]["elements"] == 8
    assert allowed.err == ""


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Temperatures in packed integers, from south to north, with times in hours."""
    place = tmp_path / "packed"
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(place)))
    kelvin = np.array([[[270.0, 280.0], [np.nan, 290.0]]] * 2)
    dataset = xr.Dataset(
        {"t2m": (("time", "lat", "lon"), kelvin, {"units": "K"})},
        {"time": np.array(["2020-01-01", "2020-01-02T06"], "M8[ns]"), "lat": [-45.0, 45.0]},
    )
    session = repo.writable_session("main")
    encoding = {
        "t2m": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 250.0, "_FillValue": -32767},
        "time": {"dtype": "i4", "units": "hours since 1900-01-01", "_FillValue": -1},
    }
    dataset.to_zarr(session.store, zarr_format=3, consolidated=False, encoding=encoding)
    session.commit("packed")
    return place


def test_show_reports_values_as_xarray_decodes_them(run: Frazil, packed: Path) -> None:
    shown = run("show", packed, "t2m")
    found = run("show", packed, "t2m", "--json").json["values"]
    times = run("show", packed, "time")

    assert "270 to 290 K, mean 280 K" in shown.out
    assert (found["minimum"], found["maximum"], found["units"]) == (270.0, 290.0, "K")
    assert found["missing"] == 2
    assert "2020-01-01T00:00:00 to 2020-01-02T06:00:00" in times.out


def test_a_report_shows_values_as_xarray_decodes_them(
    run: Frazil, packed: Path, tmp_path: Path
) -> None:
    run("report", packed, "-o", tmp_path / "report.html")

    text = (tmp_path / "report.html").read_text("utf-8")
    embedded = json.loads(text.partition('id="embedded">')[2].partition("</script>")[0])
    shown = [each for name, each in embedded.items() if "t2m" in name and "dims=" in name]
    assert len(shown) == 2
    assert (shown[0]["form"], shown[0]["units"], shown[0]["is_north_up"]) == ("map", "K", True)
    assert "2020-01-01 00:00 – 2020-01-02 06:00" in text


def test_show_without_a_path_shows_the_version_and_its_arrays(run: Frazil, place: Path) -> None:
    shown = run("show", f"{place}@v1")
    found = run("show", place, "--json").json
    group = run("show", place, "surface", "--json").json

    assert "ten days" in shown.out
    assert "surface/t2m  float32  20 × 6 (time, lat)  K" in shown.out
    assert found["snapshot"]["message"] == "ten more"
    assert [each["path"] for each in found["arrays"]] == ["/surface/t2m"]
    assert group["path"] == "/surface"


def test_diff_reports_chunks_between_two_versions(run: Frazil, place: Path) -> None:
    found = run("diff", place, "v1", "main", "--json").json
    back = run("diff", place, "main", "v1", "--json").json

    assert found["updated_chunks"] == {"/surface/t2m": [[2, 0], [3, 0]]}
    assert found["new_arrays"] == []
    assert found["updated_regions"]["/surface/t2m"][0] == {
        "dimension": "time", "start": 10, "stop": 20, "from": None, "to": None,
    }  # fmt: skip
    assert back["updated_chunks"] == found["updated_chunks"]
    assert "/surface/t2m" in run("diff", place, "v1", "main").out
    assert run("diff", place, "v1", "v1").out == "No changes\n"


def test_diff_goes_both_ways_and_between_branches(run: Frazil, place: Path) -> None:
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(place)))
    with repo.transaction("experiment", message="aside") as store:
        zarr.create_array(store, name="surface/rain", shape=(4,), dtype="f4")[:] = 1

    ahead = run("diff", place, "v1", "experiment", "--json").json
    back = run("diff", place, "experiment", "v1", "--json").json
    across = run("diff", place, "main", "experiment", "--json").json

    assert (ahead["new_arrays"], ahead["deleted_arrays"]) == (["/surface/rain"], [])
    assert (back["new_arrays"], back["deleted_arrays"]) == ([], ["/surface/rain"])
    assert across["new_arrays"] == ["/surface/rain"]
    assert across["updated_chunks"]["/surface/t2m"] == [[2, 0], [3, 0]]


def test_diff_gives_the_coordinates_of_changed_chunks(run: Frazil, packed: Path) -> None:
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(packed)))
    before = repo.lookup_branch("main")
    with repo.transaction("main", message="warmer") as store:
        zarr.open_array(store, path="t2m")[:] = 3000

    shown = run("diff", packed, before, "main").out

    assert "2020-01-01T00:00:00 … 2020-01-02T06:00:00" in shown
    assert "-45 … 45" in shown


def test_top_shows_running_jobs_and_new_commits(run: Frazil, place: Path) -> None:
    with leased(frazil.local_filesystem_storage(str(place)), "0123456789", "ingest"):
        shown = run("top", place, "--once").out
        found = run("top", place, "--json").json

    assert "1 running job" in shown
    assert "ingest  01234567" in shown
    assert found["jobs"][0]["is_running"]
    assert found["commits"][0]["message"] == "ten more"
    assert "0 running jobs" in run("top", place).out


def test_inspect_decodes_every_metadata_file_of_a_repository(run: Frazil, place: Path) -> None:
    files = [
        *(each for each in place.rglob("*") if each.parent.name in ("snapshots", "manifests")),
        *place.glob("transactions/*"),
        place / "repo",
    ]

    types = {run("inspect", file).json["file_type"] for file in files}

    assert types == {"snapshot", "manifest", "transaction-log", "repo-info"}


def test_files_of_every_generation_are_decoded_by_themselves(generations: Path) -> None:
    folders = ("snapshots", "s", "manifests", "m", "transactions")
    files = [each for each in generations.glob("*/repo/*/*") if each.parent.name in folders]

    types = [describe_file(each.read_bytes(), each.as_posix())["file_type"] for each in files]

    assert len(types) > 100
    assert set(types) == {"snapshot", "manifest", "transaction-log"}


def test_names_from_a_repository_can_not_move_the_cursor(run: Frazil, place: Path) -> None:
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(place)))
    session = repo.writable_session("main")
    session.commit("evil\x1b[2J\x07 \u202etxt [bold red]x[/]", allow_empty=True)

    for command in (("log", place), ("info", place)):
        shown = run(*command)
        assert "\x1b[2J" not in shown.out
        assert "\u202e" not in shown.out
        assert "[bold red]x[/]" in shown.out


def test_a_report_is_written_to_a_file(run: Frazil, place: Path, tmp_path: Path) -> None:
    done = run("report", place, "-o", tmp_path / "report.html", "--json")

    text = (tmp_path / "report.html").read_text("utf-8")
    assert done.json["file"] == str(tmp_path / "report.html")
    assert "/surface/t2m" in text
    assert "ten more" in text


def test_nothing_is_in_a_new_repository(run: Frazil, tmp_path: Path) -> None:
    run("create", tmp_path / "new")

    assert run("tree", tmp_path / "new", "--json").json == []
    assert run("log", tmp_path / "new").code == 0
