"""Time spans and regular axes, as declarations write them."""

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.virtual.source import ArrayHeader

_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)?\s*([A-Za-z]+)\s*")
_SECONDS = {
    "s": 1, "sec": 1, "second": 1, "min": 60, "m": 60, "minute": 60, "h": 3600, "hour": 3600,
    "d": 86400, "day": 86400, "w": 7 * 86400, "week": 7 * 86400,
}  # fmt: skip
_MONTHS = {"month": 1, "mo": 1, "year": 12, "y": 12}
_MOST_STEPS = 10_000_000
STANDARD = ("standard", "gregorian", "proleptic_gregorian")


@dataclass(frozen=True, slots=True)
class Span:
    """Span of time: calendar months, or a fixed duration."""

    months: int = 0
    delta: timedelta = timedelta()
    text: str = ""

    def after(self, moment: datetime, count: int = 1) -> datetime:
        """Return the moment that is some spans later; the day is at most the last of its month."""
        if not self.months:
            return moment + count * self.delta
        months = moment.year * 12 + moment.month - 1 + count * self.months
        year, month = divmod(months, 12)
        day = min(moment.day, monthrange(year, month + 1)[1])
        return moment.replace(year=year, month=month + 1, day=day)

    def before(self, moment: datetime) -> datetime:
        """Return the moment that is one span earlier."""
        return self.after(moment, -1)

    def __str__(self) -> str:
        return self.text


def parse_span(text: str) -> Span:
    """Parse a span, such as `6h`, `1h30min`, `10 days` or `1 month`.

    Raises
    ------
    InvalidInputError
        If the text is no span of more than no time.
    """
    months, seconds, at = 0, 0.0, 0
    while found := _SPAN.match(text, at):
        at = found.end()
        count, unit = found[1] or "1", found[2].lower()
        unit = unit if unit in _SECONDS or unit in _MONTHS else unit.removesuffix("s")
        if unit in _MONTHS and "." not in count:
            months += int(count) * _MONTHS[unit]
        elif unit in _SECONDS:
            seconds += float(count) * _SECONDS[unit]
        else:
            break
    if at < len(text) or not months + seconds or (months and seconds):
        raise InvalidInputError(
            f"invalid time span {text!r}: expected a number and a unit, such as 30min, 6h, 10d, 1month"
        )
    return Span(months, timedelta(seconds=seconds), text.strip())


def in_utc(moment: datetime) -> datetime:
    """Return a time in UTC; one without a zone is in UTC already."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Steps:
    """Regular times of a dimension, from a start on.

    As `expected=` of an ingest it is a function: the axis reaches to the last time that the
    repository or a file has, and has room for every step before it.
    """

    start: datetime
    step: Span
    calendar: str = "standard"

    def until(self, last: datetime) -> Iterator[datetime]:
        """Yield the steps up to a time, inclusive."""
        for count in range(_MOST_STEPS):
            moment = self.step.after(self.start, count)
            if moment > last:
                return
            yield moment
        raise InvalidInputError(
            f"the axis has more than {_MOST_STEPS} steps of {self.step} until {last.isoformat()}"
        )

    def between(self, first: datetime, last: datetime) -> list[datetime]:
        """Return the steps between two times, both inclusive."""
        return [each for each in self.until(last) if each >= first]

    def __call__(self, indexes: Sequence[ArrayHeader]) -> NDArray[Any]:
        """Return the values of the axis in the units of the coordinates that there are."""
        own = indexes[0]
        values = [each.values for each in indexes if each.values is not None and each.values.size]
        last = max(each.max() for each in values)
        units, calendar = own.attributes.get("units"), own.attributes.get("calendar", "standard")
        if not isinstance(units, str) or " since " not in units:
            raise InvalidInputError(
                f"the coordinate {own.name!r} has the units {units!r}: steps of {self.step} need times"
            )
        numbers = self._count(units, str(calendar), float(last))
        exact = numbers.astype(values[0].dtype)
        if values[0].dtype.kind in "iu" and np.any(exact != numbers):
            raise InvalidInputError(
                f"the coordinate {own.name!r} counts whole {units.partition(' ')[0]}, which steps of "
                f"{self.step} are not"
            )
        return exact

    def _count(self, units: str, calendar: str, last: float) -> NDArray[np.float64]:
        if (calendar in STANDARD) != (self.calendar in STANDARD) or (
            calendar not in STANDARD and calendar != self.calendar
        ):
            raise InvalidInputError(
                f"the declared calendar is {self.calendar}, and that of the files is {calendar}"
            )
        if calendar in STANDARD:
            return self._count_dates(units, last)
        return self._count_calendar(units, calendar, last)

    def _count_dates(self, units: str, last: float) -> NDArray[np.float64]:
        word, _, since = units.partition(" since ")
        origin = in_utc(datetime.fromisoformat(_spell_origin(since)))
        unit = _find_unit(word)
        try:
            end = origin + timedelta(seconds=last * unit)
        except OverflowError as error:
            raise InvalidInputError(f"{last} {units} is no time that an axis can end at") from error
        return np.array([(each - origin).total_seconds() / unit for each in self.until(end)])

    def _count_calendar(self, units: str, calendar: str, last: float) -> NDArray[np.float64]:
        cftime: Any = import_module("cftime")  # an extra

        own = (self.start.year, self.start.month, self.start.day, self.start.hour,
               self.start.minute, self.start.second)  # fmt: skip
        start = cftime.datetime(*own, calendar=calendar)
        found: list[float] = []
        moment = start
        while len(found) < _MOST_STEPS:
            number = float(cftime.date2num(moment, units, calendar))
            if number > last + 1e-9:
                return np.array(found)
            found.append(number)
            if self.step.months:
                months = start.year * 12 + start.month - 1 + len(found) * self.step.months
                moment = start.replace(year=months // 12, month=months % 12 + 1)
            else:
                moment = start + len(found) * self.step.delta
        raise InvalidInputError(f"the axis has more than {_MOST_STEPS} steps of {self.step}")


@dataclass(frozen=True, slots=True)
class Values:
    """All values of a dimension, as `expected=` of an ingest."""

    values: tuple[Any, ...]

    def __call__(self, indexes: Sequence[ArrayHeader]) -> NDArray[Any]:
        """Return the values in the type of the coordinate; raises InvalidInputError if they differ."""
        own = next((each.values for each in indexes if each.values is not None), None)
        given = np.array(self.values)
        if own is None or (own.dtype.kind in "UTO" and given.dtype.kind == "U"):
            return given
        if {own.dtype.kind, given.dtype.kind} <= set("iuf"):
            exact = given.astype(own.dtype)
            if np.array_equal(exact, given):
                return exact
        raise InvalidInputError(
            f"the coordinate {indexes[0].name!r} has values of the type {own.dtype}, which the "
            f"declared {self.values[0]!r} is not"
        )


def _find_unit(word: str) -> float:
    name = word.strip().lower()
    small = {"millisecond": 1e-3, "microsecond": 1e-6, "nanosecond": 1e-9, "hr": 3600.0}
    found: float | None = _SECONDS.get(name) or _SECONDS.get(name.removesuffix("s"))
    found = found or small.get(name.removesuffix("s"))
    if found is None:
        raise InvalidInputError(f"{word!r} is no unit that steps can be counted in")
    return float(found)


def _spell_origin(text: str) -> str:
    """Return the reference time of CF units as ISO 8601: `1970-1-1 0:0` is allowed there."""
    found = re.fullmatch(
        r"\s*(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[T ]+(\d{1,2}):?(\d{1,2})?:?(\d{1,2})?(?:\.\d*)?)?"
        r"\s*(?:Z|UTC|[+-]0?0:?0?0?)?\s*", text
    )  # fmt: skip
    if found is None:
        raise InvalidInputError(
            f"{text!r} is no reference time in UTC that steps can be counted from"
        )
    year, month, day, hour, minute, second = (int(each or 0) for each in found.groups())
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}"


_PLACEHOLDER = re.compile(r"\{(\w+):([^{}]+)\}")


def find_placeholders(pattern: str) -> set[str]:
    """Return the dimensions that a pattern names, as in `{init_time:%Y%m%d}`."""
    return {name for name, _ in _PLACEHOLDER.findall(pattern)}


def expand(pattern: str, dim: str, moments: Sequence[datetime]) -> list[str]:
    """Return the patterns of some steps, or the pattern itself if it does not name the dimension."""
    if dim not in find_placeholders(pattern):
        return [pattern]
    found = [_PLACEHOLDER.sub(partial(_spell_step, dim, moment), pattern) for moment in moments]
    return list(dict.fromkeys(found))


def _spell_step(dim: str, moment: datetime, found: re.Match[str]) -> str:
    return moment.strftime(found[2]) if found[1] == dim else found[0]
