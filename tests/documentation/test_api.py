"""The page about the API has every public name, and no other."""

import inspect
import re
from importlib import import_module

import pytest
import zarr.abc.store

import frazil
from tests.pages import DOCS

PAGE = (DOCS / "api.md").read_text("utf-8")
MODULES = re.findall(r"^## (frazil(?:\.[a-z_]+)*)$", PAGE, re.MULTILINE)
CLASSES = {
    "Repository": frozenset(("shown_items", "shown_title")),
    "Session": frozenset(("shown_items", "shown_title")),
    "IcechunkStore": frozenset(("shown_items", "shown_title", *dir(zarr.abc.store.Store))),
}
"""With names that are listed elsewhere: how values are shown, and what Zarr asks of every store."""


def listed_under(heading: str) -> list[str]:
    """The names of one section, in order."""
    section = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE
    )
    assert section is not None, f"docs/api.md has no section {heading}"
    return re.findall(r"^- `(\w+)`: \S", section[1], re.MULTILINE)


def names_of(module: str) -> set[str]:
    """What a module offers, also what it loads when it is first used."""
    found = import_module(module)
    return {*found.__all__, *" ".join(getattr(found, "_HOMES", {}).values()).split()}


def test_modules_are_those_that_users_import() -> None:
    assert {
        "frazil", "frazil.dask", "frazil.spark", "frazil.spark.checks", "frazil.storage",
        "frazil.virtual", "frazil.xarray",
    } <= set(MODULES)  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_of_a_module_is_listed(module: str) -> None:
    names = names_of(module)
    reported = listed_under(module)
    # What the package itself has, its modules need not list again.
    known = set() if module == "frazil" else names_of("frazil")

    assert sorted(names - known - set(reported)) == [], f"missing from docs/api.md, under {module}"
    assert sorted(set(reported) - names) == [], f"in docs/api.md, but not in {module}"
    assert sorted(reported) == sorted(set(reported))


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_of_the_main_classes_is_listed(name: str) -> None:
    members = {each for each in dir(getattr(frazil, name)) if not each.startswith("_")}
    twins = {each for each in members if each.endswith("_async")}
    reported = listed_under(f"frazil.{name}")

    wanted = members - twins - CLASSES[name]
    assert sorted(wanted - set(reported)) == [], f"missing from docs/api.md, under frazil.{name}"
    assert sorted(set(reported) - members) == [], f"in docs/api.md, but not in frazil.{name}"


@pytest.mark.parametrize("name", sorted(names_of("frazil.spark") & names_of("frazil")))
def test_every_parameter_of_a_job_is_described_in_its_order(name: str) -> None:
    job = getattr(frazil.spark, name)
    described = (
        (inspect.getdoc(job) or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    )

    assert [*inspect.signature(job).parameters] == [
        each for line in described.splitlines() if line[0] != " " for each in line.split(", ")
    ]
