"""The house stays small: few files, each a concept that is found by its name."""

import ast
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from statistics import median

from tests.pages import ROOT

PACKAGE = ROOT / "src" / "frazil"
FILES = sorted(PACKAGE.rglob("*.py"))
SIZES = {path: len(path.read_text("utf-8").splitlines()) for path in FILES}


def test_files_are_few_and_neither_long_nor_short() -> None:
    assert len(FILES) <= 230
    assert [path for path, lines in SIZES.items() if lines > 800] == []
    assert median(SIZES.values()) >= 180


def test_a_folder_has_at_most_twenty_files() -> None:
    folders = Counter(path.parent for path in FILES)

    assert {folder: count for folder, count in folders.items() if count > 20} == {}


def test_a_file_is_found_by_its_name() -> None:
    names = Counter(path.name for path in FILES if path.name != "__init__.py")

    assert [name for name, count in names.items() if count > 1] == []


def test_no_module_only_forwards() -> None:
    modules = [path for path in FILES if not path.name.startswith("__")]

    assert [path for path in modules if not defines_anything(path)] == []


def defines_anything(path: Path) -> bool:
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for node in ast.parse(path.read_text("utf-8")).body
    )


def test_tasks_are_started_by_one_module() -> None:
    callers = [path.name for path in FILES if re.search(r"\.mapInArrow\(", path.read_text("utf-8"))]

    assert callers == ["runtime.py"]


def test_the_files_that_contributors_are_sent_to_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = text[text.index("| task | file below `src/frazil/` |") :].partition("\n\n")[0]
    cells = [re.findall(r"`([\w/]+\.py)`", row) for row in table.splitlines()]
    # A file without a folder is in that of the file before it.
    folders = [(each, row[0].rpartition("/")[0]) for row in cells for each in row]

    assert len(folders) > 15
    assert [
        each
        for each, folder in folders
        if not ((PACKAGE / each).exists() or (PACKAGE / folder / each).exists())
    ] == []


def test_type_checkers_see_the_modules_that_are_other_names_of_modules() -> None:
    for stub in PACKAGE.rglob("*.pyi"):
        module = import_module(f"frazil.{stub.stem}")
        names = re.findall(r"^from .* import \w+ as (\w+)$", stub.read_text("utf-8"), re.MULTILINE)

        assert names
        assert [name for name in names if not hasattr(module, name)] == []
        assert not stub.with_suffix(".py").exists()
