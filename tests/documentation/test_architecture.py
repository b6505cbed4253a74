"""The page about the architecture names what is there: layers, rooms and the hops of its journeys."""

import re
import tomllib
from importlib import import_module

import pytest

from tests.pages import DOCS, ROOT

PAGE = (DOCS / "architecture.md").read_text("utf-8")
PACKAGE = ROOT / "src/frazil"


def section(heading: str) -> str:
    """The text of one section."""
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


HOPS = sorted(set(re.findall(r"`([a-z]\w*(?:\.\w+)+)`", section("Five journeys of data"))))
ROOMS = re.findall(r"^\| `([\w/]+)/` \|.*\|(.*)\|$", section("Packages"), re.MULTILINE)


def resolve(name: str) -> object:
    """What a dotted name below the package leads to: a module, or something in one."""
    parts = name.split(".")
    depth = max(n for n in range(len(parts) + 1) if is_module(parts[:n]))
    found: object = import_module(".".join(["frazil", *parts[:depth]]))
    for part in parts[depth:]:
        found = getattr(found, part)
    return found


def is_module(parts: list[str]) -> bool:
    path = PACKAGE.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_there_are_five_journeys_of_a_dozen_hops_at_most() -> None:
    journeys = section("Five journeys of data").split("\n### ")[1:]

    assert len(journeys) == 5
    for journey in journeys:
        assert 1 <= len(re.findall(r"^\d+\. ", journey, re.MULTILINE)) <= 12


@pytest.mark.parametrize("name", HOPS)
def test_every_hop_of_a_journey_is_there(name: str) -> None:
    assert callable(resolve(name))


def test_every_room_is_listed_with_modules_that_it_has() -> None:
    folders = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py")}

    assert sorted(room for room, _ in ROOMS) == sorted(folders - {"."})
    for room, modules in ROOMS:
        for module in re.findall(r"`(\w+)`", modules):
            assert (PACKAGE / room / f"{module}.py").is_file(), f"{room}/{module}.py"


def test_the_picture_has_the_layers_that_are_checked_in_their_order() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    picture = PAGE.split("```")[1]

    places = [re.search(rf"(?<!\w){re.escape(layer)}(?!\w)", picture) for layer in layers]

    assert [layer for layer, place in zip(layers, places, strict=True) if place is None] == []
    starts = [place.start() for place in places if place is not None]
    assert starts == sorted(starts)
