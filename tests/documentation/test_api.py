"""The reference of the site describes every public name, and each by a docstring."""

import inspect
import re
from importlib import import_module

import pytest

import frazil
import frazil.spark
from scripts import site

PAGES = site.make_pages()


@pytest.mark.parametrize("module", site.MODULES)
def test_every_public_name_is_described(module: str) -> None:
    found = import_module(module)
    titles = re.findall(r"^## (\w+)$", PAGES[f"reference/{module}.md"], re.MULTILINE)

    assert sorted(titles) == sorted(site.list_names(found))
    for name in titles:
        value = getattr(found, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            assert inspect.getdoc(value), name


def test_modules_that_users_import_are_described() -> None:
    assert {
        "frazil", "frazil.dask", "frazil.datasets", "frazil.spark", "frazil.spark.checks",
        "frazil.storage", "frazil.virtual", "frazil.xarray",
    } <= set(site.MODULES)  # fmt: skip


JOBS = sorted(site.list_names(frazil.spark) & site.list_names(frazil))


@pytest.mark.parametrize("name", JOBS)
def test_every_parameter_of_a_job_is_described_in_its_order(name: str) -> None:
    job = getattr(frazil.spark, name)
    described = (
        (inspect.getdoc(job) or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    )

    assert [*inspect.signature(job).parameters] == [
        each for line in described.splitlines() if line[0] != " " for each in line.split(", ")
    ]
