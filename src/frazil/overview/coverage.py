"""Coverage of variables in time and space, from their coordinates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frazil.errors import InvalidInputError
from frazil.overview.nodes import Axis, find_axes
from frazil.overview.preview import READ_ERRORS, Span, explain, read_coordinates
from frazil.repository.session import Session

_MOST_TIMES = 20_000
"""Maximum elements of a time coordinate in which gaps are looked for."""
_MOST_COORDINATES = 4
"""Maximum coordinates of each kind that are read."""


@dataclass(frozen=True, slots=True)
class TimeCoverage:
    """Times of a coordinate."""

    path: str
    first: str
    last: str
    count: int
    step: str | None
    """Usual distance, such as `6 h`; None if irregular or unknown."""
    segments: tuple[tuple[float, float], ...]
    """Parts of the time span that are covered, between 0 and 1."""
    gaps: int | None
    """Number of gaps; None if not all times were read."""


@dataclass(frozen=True, slots=True)
class SpaceCoverage:
    """Area of a latitude and a longitude coordinate."""

    path: str
    west: float
    south: float
    east: float
    north: float
    step: tuple[float, float] | None
    """Distance of latitudes and longitudes, if regular."""
    is_global: bool


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage in time and space of the variables on the overview."""

    times: tuple[TimeCoverage, ...]
    areas: tuple[SpaceCoverage, ...]
    unreadable: str | None = None


def find_coverage(session: Session, paths: Sequence[str]) -> Coverage:
    """Read the coordinates of some arrays, few of them.

    Parameters
    ----------
    session
        Session at the version to read.
    paths
        Paths of the arrays.
    """
    times: dict[str, TimeCoverage] = {}
    areas: dict[tuple[str, str], SpaceCoverage] = {}
    reason = None
    for path in paths:
        axes = find_axes(session, session.state.view.get_node(path))
        try:
            for axis in axes:
                name = axis.coordinate
                is_new = name is not None and name not in times and len(times) < _MOST_COORDINATES
                if axis.kind == "time" and name and is_new:
                    times[name] = _cover_time(session, axis)
            pair = _find_area(axes)
            if pair and pair not in areas and len(areas) < _MOST_COORDINATES:
                areas[pair] = _cover_area(session, *pair)
        except READ_ERRORS as error:
            reason = explain(error)
    known = {(each.first, each.last, each.count): each for each in times.values() if each.count}
    boxes = {(each.west, each.south, each.east, each.north): each for each in areas.values()}
    return Coverage(tuple(known.values()), tuple(boxes.values()), reason)


def _find_area(axes: Sequence[Axis]) -> tuple[str, str] | None:
    found = {each.kind: each.coordinate for each in axes}
    latitude, longitude = found.get("latitude"), found.get("longitude")
    return (latitude, longitude) if latitude and longitude else None


def _cover_time(session: Session, axis: Axis) -> TimeCoverage:
    path, length = str(axis.coordinate), axis.length
    if not length:
        return TimeCoverage(path, "", "", 0, None, (), None)
    is_whole = length <= _MOST_TIMES
    chosen: Span | list[int] = Span(0, length) if is_whole else [0, length - 1]
    numbers, labels = read_coordinates(session, path, chosen)
    if not labels:
        return TimeCoverage(path, "", "", 0, None, (), None)
    first, last = labels[0], labels[-1]
    if not is_whole or numbers is None or length < 2:
        return TimeCoverage(path, first, last, length, None, ((0.0, 1.0),), None)
    times = np.asarray(numbers)
    steps = np.diff(times)
    usual = float(np.median(steps))
    whole = float(times[-1] - times[0])
    if usual <= 0 or whole <= 0:
        return TimeCoverage(path, first, last, length, None, ((0.0, 1.0),), None)
    breaks = np.flatnonzero(steps > 1.5 * usual)
    starts = [0, *(breaks + 1).tolist()]
    stops = [*breaks.tolist(), length - 1]
    segments = tuple(
        (float(times[a] - times[0]) / whole, float(times[b] - times[0]) / whole)
        for a, b in zip(starts, stops, strict=True)
    )
    is_monthly = _is_monthly(axis.units, usual)
    is_regular = bool(np.allclose(np.delete(steps, breaks), usual, rtol=0.01)) or is_monthly
    step = _spell_step(axis.units, usual) if is_regular else None
    gaps = 0 if is_monthly else len(breaks)
    return TimeCoverage(
        path, first, last, length, step, segments[:500] if gaps else ((0.0, 1.0),), gaps
    )


_UNIT_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def _seconds(units: str | None, step: float) -> float | None:
    name = (units or "").split(" since ")[0].strip().lower()
    if name.startswith(("milli", "ms")):
        return step / 1e3
    if name.startswith(("micro", "us")):
        return step / 1e6
    if name.startswith(("nano", "ns")):
        return step / 1e9
    if name.startswith(("month", "year")):
        return None
    scale = _UNIT_SECONDS.get(name[:1])
    return None if scale is None else step * scale


def _is_monthly(units: str | None, step: float) -> bool:
    seconds = _seconds(units, step)
    return seconds is not None and 27.5 <= seconds / 86400 <= 31.5


def _spell_step(units: str | None, step: float) -> str | None:
    """Format the distance of times, such as `6 h`."""
    seconds = _seconds(units, step)
    if seconds is None:
        return None
    if _is_monthly(units, step):
        return "month"
    if 360 <= seconds / 86400 <= 367:
        return "year"
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= size:
            count = seconds / size
            return {"d": "day", "h": "hour"}.get(name, f"1 {name}") if abs(count - 1) < 1e-6 else (
                f"{count:g} {name}"
            )  # fmt: skip
    return f"{seconds:g} s"


def _cover_area(session: Session, latitude: str, longitude: str) -> SpaceCoverage:
    found = []
    for path in (latitude, longitude):
        _, array = session.state.view.get_array(path)
        length = array.shape[0].array_length
        numbers, _ = read_coordinates(session, path, [0, min(1, length - 1), length - 1])
        if numbers is None:
            raise InvalidInputError(f"the coordinate {path} has missing values")
        first, second, last = numbers
        step = abs(last - first) / max(1, length - 1)
        is_regular = length > 1 and math.isclose(abs(second - first), step, rel_tol=0.02)
        found.append((min(first, last), max(first, last), step, is_regular))
    (south, north, tall, is_even), (west, east, wide, is_also) = found
    is_global = east - west + wide >= 359.0
    if west >= 180:
        west, east = west - 360, east - 360
    return SpaceCoverage(
        latitude,
        west - wide / 2,
        max(-90.0, south - tall / 2),
        east + wide / 2,
        min(90.0, north + tall / 2),
        (round(tall, 6), round(wide, 6)) if is_even and is_also else None,
        is_global,
    )
