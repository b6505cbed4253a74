"""The code of the page about writing runs."""

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("spark")

PAGE = Path(__file__).parents[3] / "docs" / "writing.md"


@pytest.mark.usefixtures("spark")
def test_the_code_about_writing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}

    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)

    assert names["report"].chunks == 6
    assert "time has no coordinate 2026-01-12" in capsys.readouterr().out
