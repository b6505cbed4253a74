from datetime import UTC, datetime

import pytest

from frazil.errors import FormatError
from frazil.format.timestamps import decode_rfc3339, encode_rfc3339, from_datetime, to_datetime


@pytest.mark.parametrize(
    "text",
    [
        "2024-10-13T12:00:00Z",
        "2024-10-13T12:00:00.120Z",
        "2024-10-13T12:00:00.000120Z",
        "2024-10-13T12:00:00.123456789Z",
        "1969-12-31T23:59:59.999999999Z",
        "0001-01-01T00:00:00Z",
    ],
)
def test_times_keep_their_digits(text: str) -> None:
    assert encode_rfc3339(decode_rfc3339(text)) == text


def test_another_time_zone_is_turned_into_utc() -> None:
    assert decode_rfc3339("2024-01-01T01:00:00+01:00") == decode_rfc3339("2024-01-01T00:00:00Z")


@pytest.mark.parametrize(
    "text",
    ["", "2024-01-01", "2024-13-01T00:00:00Z", "2024-01-01T00:00:00", "٢024-01-01T00:00:00Z"],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="RFC 3339"):
        decode_rfc3339(text)


def test_datetimes_keep_their_microseconds() -> None:
    moment = datetime(2026, 11, 15, 18, 39, 36, 737868, tzinfo=UTC)

    assert to_datetime(from_datetime(moment)) == moment
