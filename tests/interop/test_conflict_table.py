"""Every edit against every edit: what the detectors of both libraries report."""

from itertools import product

import pytest

from tests.interop.conflict_edits import EDITS
from tests.interop.conflict_page import (
    DIFFERENCES,
    PAGE,
    Matrix,
    Pair,
    as_matrix,
    find_difference,
    read_ours,
    render,
)
from tests.interop.official_library import OfficialLibrary

PAIRS = list(product(EDITS, EDITS))


@pytest.fixture(scope="module")
def ours() -> Matrix:
    return read_ours()


@pytest.fixture(scope="module")
def officials(official: OfficialLibrary) -> Matrix:
    return as_matrix(official.call("list_conflicts", edits=list(EDITS.values())))


@pytest.mark.parametrize("pair", PAIRS, ids=" on ".join)
def test_both_detectors_report_the_same_or_differ_on_purpose(
    ours: Matrix, officials: Matrix, pair: Pair
) -> None:
    difference = find_difference(pair)

    if difference is None:
        assert ours[pair] == officials[pair]
    else:
        assert {kind for kind, *_ in ours[pair]} == {difference.kind}
        assert officials[pair] == []


def test_every_edit_meets_something(ours: Matrix) -> None:
    # A move of theirs conflicts even with a session in which nothing was done.
    theirs = [edit for edit in EDITS if not edit.startswith("move")]

    silent = {edit for edit in EDITS if not any(ours[edit, each] for each in theirs)}

    assert silent == set()


def test_no_pair_differs_for_two_reasons() -> None:
    pairs = [pair for each in DIFFERENCES for pair in product(each.ours, each.theirs)]

    assert len(pairs) == len(set(pairs))


def test_the_page_of_conflicts_is_up_to_date(ours: Matrix) -> None:
    assert PAGE.read_text() == render(ours), "run: python -m tests.interop.conflict_page"
