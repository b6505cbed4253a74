"""The code of the page about SQL runs."""

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("spark")

PAGE = Path(__file__).parents[3] / "docs" / "sql.md"


@pytest.mark.usefixtures("spark")
def test_the_code_about_sql_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}

    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)

    mean = names["weather"].t.sel(time=slice("2020-02-01", "2020-02-09"), lat=5).mean()
    assert names["means"].first().mean == pytest.approx(float(mean))
    assert names["chunks"].count() == 18
    assert "|   0.0|" in capsys.readouterr().out
