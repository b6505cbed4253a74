"""The code of pages that need Spark runs, on the one session of these tests."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import xarray as xr

from tests.documentation.running import ON_SPARK
from tests.pages import ROOT, find_cells, find_section, run_blocks, run_page
from tests.spark.ingestion.archives import expect, save_archive

pytestmark = [pytest.mark.xdist_group("spark-tables"), pytest.mark.usefixtures("spark")]

TESTED_APART = (
    "docs/pipeline.md", "docs/sql.md", "docs/tables.md", "docs/writing.md",
)  # fmt: skip
"""Pages that find something there, or whose outcome is looked at."""
NEED_VIRTUALIZARR = (
    "docs/how-to/append-every-day.md", "docs/how-to/ingest-an-archive.md",
    "docs/tutorials/spark-engineer.md",
)  # fmt: skip
REASON = "VirtualiZarr needs a newer Python than Frazil does"
needs_virtualizarr = pytest.mark.skipif(find_spec("virtualizarr") is None, reason=REASON)
Shown = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@needs_virtualizarr
def test_the_code_about_ingests_runs(folder: Path, capsys: Shown) -> None:
    save_archive(folder / "archive", 3)

    names = run_blocks(find_section(ROOT / "docs/pipeline.md", "Ingest"))

    assert "t         6 × 24 × 16  virtual  24" in capsys.readouterr().out
    xr.testing.assert_identical(names["dataset"].load(), expect(folder / "archive"))


def test_the_code_about_arrays_runs(capsys: Shown) -> None:
    names = run_blocks(find_section(ROOT / "docs/pipeline.md", "Arrays"))

    assert "in one pass" in capsys.readouterr().out
    assert len(list(names["arrays"].ancestry(branch="main"))) == 9


def test_the_code_about_sql_runs(capsys: Shown) -> None:
    names = run_page(ROOT / "docs/sql.md")

    mean = names["weather"].t.sel(time=slice("2020-02-01", "2020-02-09"), lat=5).mean()
    assert names["means"].first().mean == pytest.approx(float(mean))
    assert names["chunks"].count() == 18
    assert "|   0.0|" in capsys.readouterr().out


def test_the_code_about_tables_runs(capsys: Shown) -> None:
    names = run_page(ROOT / "docs/tables.md")

    assert names["where"].count() == 1
    assert names["changes"].count() == 1
    assert "a day corrected" in capsys.readouterr().out


def test_the_code_about_writing_runs(capsys: Shown) -> None:
    names = run_page(ROOT / "docs/writing.md")

    assert names["report"].chunks == 6
    assert "time has no coordinate 2026-01-12" in capsys.readouterr().out


@needs_virtualizarr
# What PySpark does with newer releases of pandas.
@pytest.mark.filterwarnings("ignore:The copy keyword is deprecated")
def test_the_cells_of_the_notebook_about_sql_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")

    names = run_blocks(find_cells(ROOT / "examples" / "sql-and-points.ipynb"))

    assert len(names["found"]) == 40
    names["plt"].close("all")


@pytest.mark.parametrize("page", [each for each in ON_SPARK if each not in TESTED_APART])
def test_the_code_of_the_page_runs(page: str) -> None:
    if page in NEED_VIRTUALIZARR and find_spec("virtualizarr") is None:
        pytest.skip(REASON)

    run_page(ROOT / page)
