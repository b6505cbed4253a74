"""Timestamps as integers: nanoseconds since 1970-01-01 UTC, without leap seconds.

The FlatBuffers generations store microseconds, the older ones RFC 3339 text with up to nine digits;
nanoseconds represent both.
"""

import re
from datetime import UTC, datetime, timedelta

from frazil.errors import FormatError, InvalidTypeError

Nanoseconds = int

MICROSECOND = 1000
"""Nanoseconds of a microsecond, the resolution of the FlatBuffers generations."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = r"(?a)(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)"


def decode_rfc3339(text: str) -> Nanoseconds:
    """Decode RFC 3339 text with up to nine fractional digits."""
    match = re.fullmatch(_RFC3339, text)
    if match is None:
        raise FormatError(f"{text!r} is not an RFC 3339 time")
    seconds, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(seconds + zone)
    except ValueError as error:
        raise FormatError(f"{text!r} is not an RFC 3339 time: {error}") from error
    return (moment - _EPOCH) // timedelta(seconds=1) * 10**9 + int((fraction or "").ljust(9, "0"))


def encode_rfc3339(time: Nanoseconds) -> str:
    """Encode as RFC 3339 text in UTC with 0, 3, 6 or 9 fractional digits, as needed."""
    seconds, nanoseconds = divmod(time, 10**9)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    text = text.rjust(19, "0")  # strftime does not pad years before 1000 on every platform
    if nanoseconds:
        digits = f"{nanoseconds:09}"
        while digits.endswith("000"):
            digits = digits[:-3]
        text += f".{digits}"
    return text + "Z"


def to_microseconds(time: Nanoseconds) -> int:
    """Return microseconds as the FlatBuffers generations store them, rounded down."""
    return time // 1000


def from_microseconds(time: int) -> Nanoseconds:
    """Convert microseconds to nanoseconds."""
    return time * 1000


def to_datetime(time: Nanoseconds) -> datetime:
    """Convert to a datetime in UTC, rounded down to microseconds."""
    return _EPOCH + timedelta(microseconds=time // 1000)


def require_zone(moment: object, name: str) -> datetime:
    """Return the datetime; raise InvalidTypeError unless it has a time zone.

    A naive time is ambiguous, and objects deleted by it can't be restored.
    """
    if not isinstance(moment, datetime):
        raise InvalidTypeError(f"invalid {name} {moment!r}: give a datetime with a time zone")
    if moment.utcoffset() is None:
        raise InvalidTypeError(
            f"invalid {name} {moment.isoformat()}: it has no time zone, give one such as tzinfo=UTC"
        )
    return moment


def from_datetime(moment: datetime) -> Nanoseconds:
    """Convert a datetime with a time zone to nanoseconds."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
