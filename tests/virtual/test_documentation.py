"""The code of the page about virtual data runs."""

import re
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from tests.virtual.files import days, save

PAGE = Path(__file__).parents[2] / "docs" / "virtual.md"


def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "archive").mkdir()
    for start in (0, 4):
        save(days(start, 4), tmp_path / "archive" / f"{start}.nc")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}

    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)

    assert "t virtual ()" in capsys.readouterr().out
    copy = xr.open_zarr(
        names["repo"].readonly_session("main").store, group="copy", consolidated=False
    )
    xr.testing.assert_identical(copy.load(), names["dataset"].load())
