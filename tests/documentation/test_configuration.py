"""The page about the configuration has every option, with the default that holds."""

import re
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import Any

import pytest

import frazil
from frazil.config import RepoUpdateRetryConfig
from frazil.display import Rendered
from tests.pages import DOCS

PAGE = (DOCS / "configuration.md").read_text("utf-8")
PUBLIC: list[Any] = [getattr(frazil, name) for name in frazil.__all__]
CLASSES = [
    *(each for each in PUBLIC if isinstance(each, type) and issubclass(each, Rendered)),
    RepoUpdateRetryConfig,
]


def rows_of(name: str) -> dict[str, str]:
    """The defaults by field, in the table below the heading of a class."""
    section = re.search(rf"^#+ {name}\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert section is not None, f"docs/configuration.md has no heading {name}"
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section[1], re.MULTILINE)
    return dict(rows)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_option_is_on_the_page_in_order(cls: Any) -> None:
    assert list(rows_of(cls.__name__)) == [
        each.name for each in fields(cls) if not each.name.startswith("_")
    ]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_defaults_are_those_that_hold(cls: Any) -> None:
    reported = rows_of(cls.__name__)
    wrong = [
        (each.name, reported[each.name], expected)
        for each in fields(cls)
        if (expected := shown_default(each)) is not None and reported[each.name] != expected
    ]

    assert wrong == []


def shown_default(option: Field[Any]) -> str | None:
    """How the page writes a default; None where it says it in words."""
    if option.default is MISSING:
        return "required"
    default = option.metadata.get("effective", option.default)
    match default:
        case _ if option.name == "max_concurrent_decodes":
            return "cores"
        case bool():
            return str(default)
        case int():
            return f"{default:,}"
        case Enum():
            return default.name
    return None


def test_the_page_has_no_class_that_is_not_there() -> None:
    reported = set(re.findall(r"^#+ ([A-Z]\w+[A-Z]\w+|Attribution)$", PAGE, re.MULTILINE))

    assert reported == {cls.__name__ for cls in CLASSES}
