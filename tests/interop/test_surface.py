"""Every public name of the official library is here, of the same sort, and called the same way."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.official_library import ROOT, find_python
from tests.interop.surface import MODULES, describe_package, find_stubs

NOT_YET: frozenset[str] = frozenset(
    (
        "upgrade_icechunk_repository",
        "Repository.chunk_storage_stats",
        "Repository.chunk_storage_stats_async",
        "Repository.expire_snapshots",
        "Repository.expire_snapshots_async",
        "Repository.garbage_collect",
        "Repository.garbage_collect_async",
        "Repository.rewrite_manifests",
        "Repository.rewrite_manifests_async",
        "Repository.total_chunks_storage",
        "Repository.total_chunks_storage_async",
    )
)
"""Names, of modules and methods too, that nobody has written."""

OTHERWISE = {
    "ConflictError": "the message comes first, as in every other error",
    "RebaseFailedError": "the message comes first, as in every other error",
    "Repository": "users never call it: it is made of what the functions of the class found",
    "Session": "users never call it: a repository makes sessions",
    "ForkSession": "users never call it: a session makes forks",
    "IcechunkStore": "users never call it: a session makes its store",
    "computing_meta": "a decorator: its argument has no name where it is used",
}
"""Whose constructors take something else, and why."""


HERE = tuple(module for module in MODULES if module not in NOT_YET)


@pytest.fixture(scope="module")
def official() -> dict[str, Any]:
    """The surface of the official library."""
    answer = subprocess.run(
        [find_python(), "-m", "tests.interop.surface", "icechunk"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    """Our surface, in the same form."""
    found: dict[str, Any] = json.loads(json.dumps(describe_package("frazil", find_stubs("frazil"))))
    return found


def pairs(
    official: dict[str, Any], ours: dict[str, Any], module: str
) -> Iterator[tuple[str, Any, Any]]:
    """Each public name of a module that should be there, with what it is in either library."""
    for name, theirs in official[module].items():
        if name not in NOT_YET:
            yield name, theirs, ours[module].get(name, {"sort": "absent"})


@pytest.mark.parametrize("module", HERE)
def test_every_name_is_there_and_of_the_same_sort(
    official: dict[str, Any], ours: dict[str, Any], module: str
) -> None:
    for name, theirs, mine in pairs(official, ours, module):
        assert mine["sort"] == theirs["sort"], name


@pytest.mark.parametrize("module", HERE)
def test_functions_and_constructors_take_the_same_arguments(
    official: dict[str, Any], ours: dict[str, Any], module: str
) -> None:
    for name, theirs, mine in pairs(official, ours, module):
        if theirs.get("parameters") is not None and name not in OTHERWISE:
            assert mine["parameters"] == theirs["parameters"], name


@pytest.mark.parametrize("module", HERE)
def test_enumerations_have_the_same_members(
    official: dict[str, Any], ours: dict[str, Any], module: str
) -> None:
    for name, theirs, mine in pairs(official, ours, module):
        assert theirs.get("members", {}).items() <= mine.get("members", {}).items(), name


@pytest.mark.parametrize("module", HERE)
def test_classes_have_the_same_methods_properties_and_alternatives(
    official: dict[str, Any], ours: dict[str, Any], module: str
) -> None:
    for name, theirs, mine in pairs(official, ours, module):
        for inner, expected in theirs.get("inside", {}).items():
            if theirs["sort"] == "exception" or f"{name}.{inner}" in NOT_YET:
                continue  # what exceptions carry is in their instances
            found = mine["inside"].get(inner, {"sort": "absent"})
            assert found["sort"] == expected["sort"], f"{name}.{inner}"
            if expected.get("parameters") is not None:
                assert found["parameters"] == expected["parameters"], f"{name}.{inner}"


def test_what_is_not_there_yet_is_all_that_is_missing(
    official: dict[str, Any], ours: dict[str, Any]
) -> None:
    missing = {module for module in MODULES if ours[module] is None}
    for module in official.keys() - missing:
        missing |= {name for name in official[module] if _is_absent(ours[module].get(name))}

    assert missing <= NOT_YET


def _is_absent(found: Any) -> bool:
    return found is None or found["sort"] == "absent"
