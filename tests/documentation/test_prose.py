"""Texts use the words of the field: docs, docstrings, messages, help and web pages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.pages import DOCS, ROOT

PACKAGE = ROOT / "src" / "frazil"
SENTENCES = (
    "whoever reads says", "the dataset shall have them", "arrays as tables of which only",
    "can't be virtual is told", "if its answer gets lost", "it just chooses no chunks",
    "cost what they cost", "from before that all metadata is", "so often a plan is made",
    "what became of the arrays", "at once would be none",
    "no version that a repository can be created in", "what becomes of the",
)  # fmt: skip
"""Beginnings of sentences that were rewritten, and must not come back."""
WORDS = (
    r"aggregate[sd]? are summed up", r"summary quer(?:y|ies)", r"Zarr's (?:second|third) format",
    r"\brests? on (?:a|the) snapshot", r"\bsurroundings\b", r"\bRepoObject\b", r"\bRefFiles\b",
    r"\bWrittenCell\b", r"\blost answers?\b", r"\bstand_in_for\b", r"\bfar away\b",
    r"\bstraight on\b", r"\bWishes\b", r"\bleft-?overs?\b", r"\bwatched_by\b",
    r"what a person wants to know", r"the file it leads to", r"shown and asked for", r"\bhired?\b",
    r"\bnot well\b", r"a look at it\b", r"\bpassing (?:error|fault)s?\b", r"\bunder way\b",
)  # fmt: skip
"""Words with a standard term instead, as regular expressions, so that ordinary uses stay."""
OPENINGS = re.compile(r"(?:What|How|Whether|The same|Of all of them\.|Yes\.)\b")
"""Beginnings of docstrings that say no verb."""


def read_texts() -> Iterator[tuple[str, str]]:
    """Every page and every file of the package, with its name."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    sources = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.js"), *PACKAGE.rglob("*.html")]
    for path in (*pages, *sources):
        yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")


def test_sentences_that_were_rewritten_and_other_words_for_the_same_are_not_used() -> None:
    denied = re.compile("|".join([*map(re.escape, SENTENCES), *WORDS]), re.IGNORECASE)

    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name, text in read_texts()
        for match in denied.finditer(text)
    ]

    assert found == []


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    found = [each for path in PACKAGE.rglob("*.py") for each in list_bad_openings(path)]

    assert found == []


def list_bad_openings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node, clean=False) or ""
            if OPENINGS.match(text):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {text.splitlines()[0]}"
