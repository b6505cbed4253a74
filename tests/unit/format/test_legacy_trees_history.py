"""Points in time inside a snapshot."""

import pytest

from frazil.errors import FormatError
from frazil.format.legacy_trees import read_time, write_time


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"])
def test_the_first_and_the_last_time_come_back(text: str) -> None:
    assert write_time(read_time("started_at", text)) == text


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"])
def test_a_time_zone_cannot_lead_out_of_the_calendar(text: str) -> None:
    with pytest.raises(FormatError, match="not in the years 1 to 9999"):
        read_time("started_at", text)
