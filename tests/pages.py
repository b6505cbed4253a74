"""Pages of the documentation: their blocks of code, found and run as a reader would run them.

Blocks marked `python` and `console` run in the order of the page; of a console, the lines that begin
with `$`. A command that is to fail says so: `$ frazil check broken   # exit code 8`. Blocks that need
what no test has are marked `python not-run`, and `tests/documentation/test_blocks.py` lists them.
"""

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.command_line import make_frazil

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NOTHING: Mapping[str, str] = {}
RUN, NOT_RUN = "python", "python not-run"
_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_EXIT_CODE = re.compile(r"# exit code (\d+)$")
_SET_UP = ("pip install ", "make ", "frazil serve ", "frazil demo")
"""How commands begin that a test does not run: it has what they install, they would not come back, or
they have a test of their own."""


@dataclass(frozen=True)
class CodeBlock:
    """A block of a page."""

    page: Path
    line: int
    """Of the page, that its first line is on."""
    kind: str
    """What stands behind the ticks."""
    text: str


def find_pages() -> list[Path]:
    """All pages that users read, records of decisions aside."""
    folders = (DOCS, DOCS / "how-to", DOCS / "tutorials")
    pages = [page for folder in folders for page in folder.glob("*.md")]
    return [ROOT / "README.md", *sorted(pages)]


def find_blocks(page: Path) -> list[CodeBlock]:
    """The blocks of a page, in order."""
    text = page.read_text("utf-8")
    return [
        CodeBlock(page, text.count("\n", 0, found.start()) + 2, found[1].strip(), found[2])
        for found in _BLOCK.finditer(text)
    ]


def find_cells(notebook: Path) -> list[CodeBlock]:
    """The code of a notebook, a block per cell."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    return [
        CodeBlock(notebook, 1, RUN, "".join(cell["source"]))
        for cell in cells
        if cell["cell_type"] == "code"
    ]


def find_section(page: Path, heading: str) -> list[CodeBlock]:
    """The blocks before the first section of a page, and those of one section."""
    lines = page.read_text("utf-8").splitlines()
    starts = [number for number, line in enumerate(lines, 1) if line.startswith("## ")]
    start = lines.index(f"## {heading}") + 1
    end = next((each for each in starts if each > start), len(lines) + 1)
    return [each for each in find_blocks(page) if each.line < starts[0] or start < each.line < end]


def run_page(
    page: Path, names: Mapping[str, Any] = NOTHING, replaced: Mapping[str, str] = NOTHING
) -> dict[str, Any]:
    """Run all of a page in the current folder; gives the names that its code has made.

    `names` are there before. `replaced` has texts that stand for what only a reader has, such as a
    region of a cloud, with what a test has instead.
    """
    blocks = find_blocks(page)
    for text, other in replaced.items():
        blocks = [replace(each, text=each.text.replace(text, other)) for each in blocks]
    return run_blocks(blocks, names)


def run_blocks(blocks: list[CodeBlock], names: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """Run blocks one after the other, as a script, with some names to begin with."""
    with _script(names) as found:
        for block in blocks:
            if block.kind == RUN:
                # Empty lines before it, so that a traceback names the line of the page.
                code = "\n" * (block.line - 1) + block.text
                exec(compile(code, str(block.page), "exec"), found)
            elif block.kind == "console":
                for command in find_commands(block):
                    _run_command(command)
    return found


@contextmanager
def _script(names: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The names of a module that is the main one meanwhile: what pickles functions looks there."""
    before, module = sys.modules["__main__"], ModuleType("__main__")
    module.__dict__.update(names)
    sys.modules["__main__"] = module
    try:
        yield module.__dict__
    finally:
        sys.modules["__main__"] = before


def find_commands(block: CodeBlock) -> Iterator[str]:
    """What is typed in a console."""
    for line in block.text.splitlines():
        if line.startswith("$ "):
            yield line.removeprefix("$ ")


def _run_command(command: str) -> None:
    if command.startswith(_SET_UP):
        return
    program, *arguments = shlex.split(command, comments=True)
    assert program == "frazil", f"no test knows how to run {command!r}"
    code = _EXIT_CODE.search(command)
    answer = make_frazil()(*arguments)
    assert answer.code == (int(code[1]) if code else 0), (command, answer.out, answer.err)
