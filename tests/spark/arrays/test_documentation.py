"""The code of the page about the pipeline runs."""

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("spark")

PAGE = Path(__file__).parents[3] / "docs" / "pipeline.md"


@pytest.mark.usefixtures("spark")
def test_the_code_about_arrays_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    page = PAGE.read_text()
    start = page.partition("\n## ")[0]
    section = start + page.partition("\n## Arrays\n")[2].partition("\n## ")[0]

    for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(block, names)

    assert "in one pass" in capsys.readouterr().out
    assert len(list(names["arrays"].ancestry(branch="main"))) == 8
