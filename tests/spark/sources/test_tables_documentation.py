"""The code of the page about tables runs."""

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("spark")

PAGE = Path(__file__).parents[3] / "docs" / "tables.md"


@pytest.mark.usefixtures("spark")
def test_the_code_about_tables_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}

    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)

    assert names["where"].count() == 1
    assert names["changes"].count() == 1
    assert "a day corrected" in capsys.readouterr().out
