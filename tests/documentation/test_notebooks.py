"""The notebooks run, with their plots; those on Spark in `tests/spark/test_documentation.py`."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.pages import ROOT, find_cells, run_blocks

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
ON_SPARK = "sql-and-points.ipynb"


@pytest.mark.skipif(find_spec("virtualizarr") is None, reason="VirtualiZarr needs Python 3.12")
@pytest.mark.parametrize(
    "notebook", [each for each in NOTEBOOKS if each.name != ON_SPARK], ids=lambda each: each.stem
)
def test_the_cells_of_the_notebook_run(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")

    names = run_blocks(find_cells(notebook))

    assert names["plt"].get_fignums()
    names["plt"].close("all")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda each: each.stem)
def test_a_notebook_is_kept_with_its_plots_and_without_paths(notebook: Path) -> None:
    text = notebook.read_text("utf-8")
    cells = json.loads(text)["cells"]

    outputs = [each for cell in cells for each in cell.get("outputs", ())]
    assert any("image/png" in each.get("data", ()) for each in outputs)
    assert not any(each["output_type"] == "error" for each in outputs)
    assert "/tmp/" not in text
