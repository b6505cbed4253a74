"""Requests are spread over time."""

import pytest

from frazil.maintenance.inventory import Pace


def test_turns_are_evenly_apart() -> None:
    pace = Pace(4)

    waits = [pace.take_turn(now) for now in (10, 10, 10, 10.5, 12, 12)]

    assert waits == pytest.approx([0, 0.25, 0.5, 0.25, 0, 0.25])


def test_without_a_rate_nobody_waits() -> None:
    pace = Pace(None)

    assert [pace.take_turn(10) for _ in range(3)] == [0, 0, 0]
