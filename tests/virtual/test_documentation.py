"""The code of the page about virtual data runs."""

from pathlib import Path

import pytest
import xarray as xr

from tests.pages import DOCS, run_page
from tests.virtual.files import days, save


def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "archive").mkdir()
    for start in (0, 4):
        save(days(start, 4), tmp_path / "archive" / f"{start}.nc")
    monkeypatch.chdir(tmp_path)

    names = run_page(DOCS / "virtual.md")

    assert "t virtual ()" in capsys.readouterr().out
    copy = xr.open_zarr(
        names["repo"].readonly_session("main").store, group="copy", consolidated=False
    )
    xr.testing.assert_identical(copy.load(), names["dataset"].load())
