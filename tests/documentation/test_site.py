"""The site builds without a warning, with the pages that are made of docstrings."""

from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from tests.pages import ROOT


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_site_builds_and_every_link_leads_somewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    config = load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(tmp_path / "site"))

    build(config)  # raises Abort after a warning

    def read(page: str) -> str:
        return (tmp_path / "site" / page / "index.html").read_text("utf-8")

    assert "Version control for array data" in read("")
    assert "lookup_branch" in read("reference/frazil")
    assert "--on-bad-file" in read("reference/commands")
    assert "CALL" in read("reference/sql-procedures")
    assert "dataset.toml" in read("reference/declaration")
