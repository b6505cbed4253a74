"""Points in time as integers: nanoseconds since 1970-01-01 UTC, leap seconds not counted.

The FlatBuffers generations store microseconds, the older ones RFC 3339 text with up to nine digits;
nanoseconds hold both.
"""

import re
from datetime import UTC, datetime, timedelta

from frazil.errors import FormatError, InvalidTypeError

Nanoseconds = int

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def decode_rfc3339(text: str) -> Nanoseconds:
    """Read RFC 3339 text with up to nine fractional digits."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise FormatError(f"{text!r} is not an RFC 3339 time")
    seconds, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(seconds + zone)
    except ValueError as error:
        raise FormatError(f"{text!r} is not an RFC 3339 time: {error}") from error
    return (moment - _EPOCH) // timedelta(seconds=1) * 10**9 + int((fraction or "").ljust(9, "0"))


def encode_rfc3339(time: Nanoseconds) -> str:
    """Write RFC 3339 text in UTC with 0, 3, 6 or 9 fractional digits, whichever suffices."""
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
    """What the FlatBuffers generations store; a finer time is rounded down."""
    return time // 1000


def from_microseconds(time: int) -> Nanoseconds:
    """The reverse of `to_microseconds`."""
    return time * 1000


def to_datetime(time: Nanoseconds) -> datetime:
    """For people and for Python's interfaces; rounded down to microseconds."""
    return _EPOCH + timedelta(microseconds=time // 1000)


def require_zone(moment: object, name: str) -> datetime:
    """The moment; raises InvalidTypeError unless it is a time that knows its zone.

    A time without one means another time elsewhere, and what is deleted by it can't be brought back.
    """
    if not isinstance(moment, datetime):
        raise InvalidTypeError(f"invalid {name} {moment!r}: give a datetime with a time zone")
    if moment.utcoffset() is None:
        raise InvalidTypeError(
            f"invalid {name} {moment.isoformat()}: it has no time zone, give one such as tzinfo=UTC"
        )
    return moment


def from_datetime(moment: datetime) -> Nanoseconds:
    """The reverse of `to_datetime`; the moment must know its time zone."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
