"""What a policy keeps, and how it is written down."""

from datetime import timedelta

import pytest

import frazil
from frazil.config import RetentionPolicy
from frazil.errors import FormatError

DAY = timedelta(days=1)


def test_the_newest_are_kept_by_number() -> None:
    policy = RetentionPolicy(keep_last=2)

    assert [policy.keeps(number, 100 * DAY) for number in range(4)] == [True, True, False, False]


def test_the_newest_are_kept_by_age() -> None:
    policy = RetentionPolicy(keep_for=2 * DAY)

    assert [policy.keeps(9, days * DAY) for days in range(4)] == [True, True, True, False]


def test_either_reason_is_enough() -> None:
    policy = RetentionPolicy(keep_last=1, keep_for=DAY)

    assert policy.keeps(0, 9 * DAY)
    assert policy.keeps(9, DAY)
    assert not policy.keeps(1, 2 * DAY)


def test_a_policy_that_says_nothing_keeps_everything() -> None:
    assert RetentionPolicy().keeps(10**6, 10**5 * DAY)


@pytest.mark.parametrize("wrong", [{"keep_last": 0}, {"keep_last": -1}, {"keep_for": -DAY}])
def test_what_would_keep_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="keep_"):
        RetentionPolicy(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "policy",
    [
        RetentionPolicy(),
        RetentionPolicy(keep_last=3),
        RetentionPolicy(keep_for=timedelta(days=2, microseconds=7)),
        RetentionPolicy(1, timedelta(0)),
    ],
    ids=repr,
)
def test_a_policy_is_read_as_it_was_written(policy: RetentionPolicy) -> None:
    assert RetentionPolicy.decode(policy.encode()) == policy


@pytest.mark.parametrize(
    "tree",
    [None, 3, {"keep_last": 0}, {"keep_last": "x"}, {"keep_for_microseconds": 2**90}],
)
def test_what_is_no_policy_is_refused(tree: object) -> None:
    with pytest.raises(FormatError, match="no retention policy"):
        RetentionPolicy.decode(tree)


def test_a_policy_shows_the_call_that_makes_it() -> None:
    policy = RetentionPolicy(keep_last=3)

    assert eval(repr(policy), {"frazil": frazil}) == policy
