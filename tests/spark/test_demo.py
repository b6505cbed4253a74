import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from frazil.cli.demo import run_demo
from frazil.errors import InvalidInputError

pytestmark = pytest.mark.xdist_group("spark-tables")


def test_the_demo_shows_what_it_did(tmp_path: Path, spark: Any) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "left").write_text("somebody's own")
    shown = io.StringIO()
    with pytest.raises(InvalidInputError, match="has files of its own"):
        run_demo(tmp_path / "demo")
    (tmp_path / "demo" / "archive").mkdir()  # as an earlier demo has one

    run_demo(tmp_path / "demo", Console(file=shown, width=200), spark)

    text = shown.getvalue()
    assert "360 time steps" in text
    assert "90 files are in the ledger, no commit" in text
    assert "ConflictError, then rebased with our version" in text
    assert "healthy" in text
    assert not (tmp_path / "demo" / "left").exists()
    assert "/climatology/t2m" in (tmp_path / "demo" / "report.html").read_text("utf-8")
