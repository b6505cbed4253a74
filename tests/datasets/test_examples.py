"""The examples run on generated files."""

import runpy
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import xarray as xr

from frazil.datasets import load, plan, run, status, validate
from frazil.datasets.opened_dataset import Opened
from tests.pages import ROOT


def prepare(name: str, folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Copy an example, generate its files, and return what its generator has."""
    shutil.copytree(ROOT / "examples" / name, folder, dirs_exist_ok=True)
    patch.chdir(folder)
    made = runpy.run_path("make_files.py")
    made["main"]()
    return made


def read() -> xr.Dataset:
    opened = Opened.open(load("dataset.toml"))
    store: Any = opened.readable().readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, consolidated=False)
    return found


def at(*moment: int) -> Any:
    return lambda: datetime(*moment, tzinfo=UTC)  # type: ignore[arg-type, misc]


def test_a_forecast_ensemble_rolls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepare("forecast-ensemble", tmp_path, monkeypatch)
    late = tmp_path / "incoming/20260103/12/m02_f012.nc"
    late.unlink()
    assert plan("dataset.toml", now=at(2026, 1, 3, 18)).new == 53

    report = run("dataset.toml", now=at(2026, 1, 3, 18))

    assert (report.outcome, report.newest_complete) == ("published", "2026-01-03T00:00Z")
    assert len(report.waiting) == 8
    made["main"]()
    report = run("dataset.toml", now=at(2026, 1, 3, 19))
    assert report.newest_complete == "2026-01-03T12:00Z"
    assert report.dropped == 1
    data = read()
    assert data.sizes["init_time"] == 5
    assert data["t2m"].attrs["units"] == "degC"
    assert data["t2m"].attrs["long_name"] == "temperature at 2 m"
    assert data.attrs["title"] == "Ensemble forecast"
    truth = made["make_file"](datetime(2026, 1, 2, 12), 6, 1)["t2m"] - 273.15
    found = data["t2m"].isel(init_time=2, lead_time=1, member=1).values
    assert abs(found - truth.values[0, 0, 0]).max() < 0.05
    # A new version of a file whose step was dropped is no work.
    next(tmp_path.glob("incoming/20260101/00/*.nc")).touch()
    assert run("dataset.toml", now=at(2026, 1, 3, 19)).outcome == "unchanged"
    assert status("dataset.toml", now=at(2026, 1, 3, 19)).state == "ok"
    assert status("dataset.toml", now=at(2026, 1, 5, 19)).exit_code == 14
    assert not validate("dataset.toml").findings


def test_a_reanalysis_is_validated_inside_its_mask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = prepare("reanalysis", tmp_path, monkeypatch)

    report = run("dataset.toml", now=at(2025, 4, 6))

    assert (report.outcome, report.newest_complete) == ("published", "2025-03-31T18:00Z")
    data = read()
    assert set(data.data_vars) == {"t2m", "sst", "sea_mask"}
    xr.testing.assert_equal(
        data["sst"].sel(time="2025-02").load().drop_vars("time"),
        made["make_month"](pd.Timestamp("2025-02-01"))["sst"].drop_vars("time"),
    )
    assert [each.output.strip("/") for each in report.derived] == ["series"]
    series = xr.open_dataset("reanalysis-series", engine="frazil", group="series")
    xr.testing.assert_equal(series["t2m"].load(), data["t2m"].load())
    found = validate("dataset.toml", replica="reanalysis")
    assert not found.findings
    assert found.complete == 1


def test_satellite_scenes_are_inserted_where_they_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = prepare("satellite-scenes", tmp_path, monkeypatch)
    late, damaged = sorted(tmp_path.glob("scenes/**/*.nc"))[2:4]
    whole = damaged.read_bytes()
    late.rename(tmp_path / "elsewhere")
    damaged.write_bytes(whole[:1000])

    report = run("dataset.toml")

    assert report.outcome == "incomplete"
    assert len(report.files) == 6
    (tmp_path / "elsewhere").rename(late)
    damaged.write_bytes(whole)
    assert run("dataset.toml").outcome == "published"
    data = read()
    assert data.sizes["time"] == 8
    for number in range(8):
        truth = made["make_scene"](number)["radiance"].values
        assert abs(data["radiance"].isel(time=number).values - truth).max() < 0.01
    assert not validate("dataset.toml").findings
