"""The code of the page about the pipeline runs."""

import re
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from tests.spark.ingesting.archives import expect, save_archive

pytestmark = pytest.mark.xdist_group("spark")

PAGE = Path(__file__).parents[3] / "docs" / "pipeline.md"


@pytest.mark.usefixtures("spark")
def test_the_code_about_ingests_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_archive(tmp_path / "archive", 3)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    start, _, rest = PAGE.read_text().partition("\n## Ingest\n")
    section = start + rest.partition("\n## ")[0]

    for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(block, names)

    assert "t         6 × 24 × 16  virtual  24" in capsys.readouterr().out
    xr.testing.assert_identical(names["dataset"].load(), expect(tmp_path / "archive"))
