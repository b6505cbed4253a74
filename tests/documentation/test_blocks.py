"""Every block of code of every page is run by some test, and every link leads somewhere."""

import ast
import re
from pathlib import Path

import pytest

from tests import pages
from tests.documentation.running import ELSEWHERE, HERE, NOT_RUN, ON_SPARK
from tests.pages import DOCS, ROOT, find_blocks, find_pages

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_every_page_with_code_is_run_once() -> None:
    runs = [*HERE, *ON_SPARK, *ELSEWHERE]
    have = {
        name_of(page)
        for page in find_pages()
        if any(block.kind.partition(" ")[0] in ("python", "console") for block in find_blocks(page))
    }

    assert sorted(runs) == sorted(set(runs))
    assert set(runs) == have


def test_blocks_that_no_test_runs_are_listed() -> None:
    blocks = [block for page in find_pages() for block in find_blocks(page)]
    skipped = [name_of(block.page) for block in blocks if block.kind == pages.NOT_RUN]

    assert {name: skipped.count(name) for name in skipped} == NOT_RUN
    for block in blocks:
        if block.kind == pages.NOT_RUN:
            ast.parse(block.text)


@pytest.mark.parametrize(
    "page", [*find_pages(), *sorted((DOCS / "decisions").glob("*.md"))], ids=name_of
)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if target.parent == DOCS / "reference":  # made of docstrings: test_site
            continue
        assert target.exists(), link
        if anchor:
            assert anchor in headings_of(target), link


def headings_of(page: Path) -> set[str]:
    """The anchors that a page has for its headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {each.strip().replace(" ", "-") for each in words}


def test_the_index_has_every_page() -> None:
    index = (DOCS / "README.md").read_text("utf-8")
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in _LINK.findall(index)}

    own = {ROOT / "README.md", DOCS / "README.md"}
    missing = [name_of(page) for page in find_pages() if page not in {*linked, *own}]
    assert missing == []


def test_every_test_that_the_page_about_faults_names_is_there() -> None:
    page = (DOCS / "pipeline.md").read_text("utf-8").partition("### What happens when\n")[2]
    named = set(re.findall(r"`(test_\w+)`", page))
    lanes = (ROOT / "tests" / "spark").rglob("test_*.py")
    there = {
        name for lane in lanes for name in re.findall(r"def (test_\w+)\(", lane.read_text("utf-8"))
    }

    assert len(named) > 15
    assert named <= there
