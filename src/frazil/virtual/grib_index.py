"""Indexes beside GRIB files: NOAA's `.idx` and ECMWF's `.index`."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from frazil.virtual.grib_messages import DamagedError, Field, FieldHeader, Window, read_message

_UNIFORM = frozenset((0, 2, 3))
"""Templates that are readable whatever their number of bits."""


class StaleIndexError(ValueError):
    """Index that does not fit to the messages of its file."""


class Cell(NamedTuple):
    """Place of a field as its line of an index says it; None for what it does not say."""

    time: datetime
    start: int | None
    end: int
    level: float | None
    member: int | None


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """Line of an index: the byte range of a message, and its place."""

    offset: int
    length: int
    number: int
    """Index of the field in its message."""
    kind: tuple[str, ...]
    """Whatever else the line says: fields of one kind differ only in their place."""
    cell: Cell | None
    """None if the line can't be interpreted."""


def parse_index(text: str, size_bytes: int) -> list[IndexEntry]:
    """Return the entries of a NOAA `.idx` or ECMWF `.index`; raise StaleIndexError if invalid."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    try:
        if lines and lines[0].startswith("{"):
            entries = [_parse_ecmwf(json.loads(line)) for line in lines]
        else:
            entries = _parse_noaa(lines, size_bytes)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise StaleIndexError(f"its line can't be parsed: {error}") from error
    if not entries or any(
        each.length <= 0 or each.offset + each.length > size_bytes for each in entries
    ):
        raise StaleIndexError("it leads past the end of the file")
    return entries


# Only on these levels, the name of a parameter never depends on the value of its level.
_LEVEL = re.compile(r"(\d+)( mb| hybrid level)")
_LEVEL_TYPES = ("pl", "ml")
_STEP = re.compile(r"(?:(\d+)-)?(\d+) (sec|min|hour|day)\b(.*)")
_SECONDS = {"sec": 1, "min": 60, "hour": 3600, "day": 86400}
_MEMBER = re.compile(r"ENS=([+-])(\d+)")


@lru_cache(maxsize=256)
def _parse_time(digits: str) -> datetime:
    return datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def _parse_noaa(lines: Sequence[str], size_bytes: int) -> list[IndexEntry]:
    parts = [line.split(":") for line in lines]
    offsets = [int(each[1]) for each in parts]
    starts = sorted(set(offsets))
    ends = dict(zip(starts, [*starts[1:], size_bytes], strict=True))
    fields: dict[int, int] = {}
    entries = []
    for offset, words in zip(offsets, parts, strict=True):
        number = fields[offset] = fields.get(offset, -1) + 1
        kind, cell = _place_noaa(words[2:])
        entries.append(IndexEntry(offset, ends[offset] - offset, number, kind, cell))
    return entries


def _place_noaa(words: Sequence[str]) -> tuple[tuple[str, ...], Cell | None]:
    date, name, level, step, *others = words
    matched = _STEP.fullmatch(step)
    digits = date.removeprefix("d=").ljust(14, "0")
    if len(digits) != 14 or not digits.isdigit() or not (matched or step == "anl"):
        return tuple(words), None
    unit = _SECONDS[matched[3]] if matched else 0
    end = int(matched[2]) * unit if matched else 0
    start = int(matched[1]) * unit if matched and matched[1] else end
    layer = _LEVEL.fullmatch(level)
    member = next((found for each in others if (found := _MEMBER.fullmatch(each))), None)
    cell = Cell(
        _parse_time(digits), start, end,
        float(layer[1]) if layer else None, int(member[2]) if member else None,
    )  # fmt: skip
    # The name of a parameter may depend on the length of its interval.
    tail = (str(end - start), matched[4]) if matched else ("anl",)
    rest = [_MEMBER.sub(r"ENS=\1", each) for each in others]
    return (name, layer[2] if layer else level, *tail, *rest), cell


_PLACES = ("_offset", "_length", "date", "time", "step", "number", "levelist")


def _parse_ecmwf(line: Mapping[str, Any]) -> IndexEntry:
    is_level = line.get("levtype") in _LEVEL_TYPES and "levelist" in line
    places = _PLACES if is_level else _PLACES[:-1]
    kind = tuple(f"{key}={line[key]}" for key in sorted(line) if key not in places)
    offset, length = int(line["_offset"]), int(line["_length"])
    try:
        start, dash, end = str(line["step"]).rpartition("-")
        cell = Cell(
            _parse_time(f"{line['date']}{int(line['time']):04d}00"),
            int(start) * 3600 if dash else None,
            int(end) * 3600,
            float(line["levelist"]) if is_level else None,
            int(line["number"]) if "number" in line else None,
        )
    except (KeyError, ValueError):
        return IndexEntry(offset, length, 0, kind, None)
    interval = str(int(end) - int(start)) if dash else ""
    return IndexEntry(offset, length, 0, (*kind, interval), cell)


def read_by_index(entries: Sequence[IndexEntry], window: Window) -> list[Field]:
    """Return the fields of an index; raise StaleIndexError if it does not fit to the file.

    One header is read per kind of field, if it is where its line says, and the last one; of other
    kinds, and where packing may vary, all headers.
    """
    kinds: dict[tuple[str, ...], list[int]] = {}
    for row, entry in enumerate(entries):
        kinds.setdefault((str(entry.number), *entry.kind), []).append(row)
    last = max(range(len(entries)), key=lambda row: entries[row].offset)
    headers = _read_headers(entries, {last, *(rows[0] for rows in kinds.values())}, window)
    found = {row: Field.of(header) for row, header in headers.items()}
    moved: dict[int, Field] = {}
    for rows in kinds.values():
        first = found[rows[0]]
        if _move(first, entries[rows[0]]) == first:
            places = {row: _move(first, entries[row]) for row in rows if row not in found}
            moved.update({row: each for row, each in places.items() if each is not None})
    found.update({r: each for r, each in moved.items() if each.header.packing in _UNIFORM})
    unread = [row for row in range(len(entries)) if row not in found]
    for row, header in _read_headers(entries, unread, window).items():
        found[row] = replace(moved[row], header=header) if row in moved else Field.of(header)
    return [found[row] for row in range(len(entries))]


def _read_headers(
    entries: Sequence[IndexEntry], rows: Iterable[int], window: Window
) -> dict[int, FieldHeader]:
    wanted = sorted(rows)
    window.fetch(dict.fromkeys(entries[row].offset for row in wanted))
    found = {}
    for row in wanted:
        entry = entries[row]
        window.choose(entry.offset)
        try:
            fields = read_message(window, entry.offset, entry.number + 1)
        except DamagedError as error:
            raise StaleIndexError(str(error)) from error
        if fields[0].length > entry.length or entry.number >= len(fields):
            raise StaleIndexError(f"it has other messages than the file at byte {entry.offset}")
        found[row] = fields[entry.number]
    return found


def _move(known: Field, entry: IndexEntry) -> Field | None:
    """Return the field of an entry by another field of its kind, or None if that says too little."""
    product, cell = known.product, entry.cell
    if cell is None:
        return None
    start = cell.start
    if start is None:
        start = cell.end if product.step_type == "instant" else product.start
        if product.step_type != "instant" and start != 0:
            return None
    header = known.header
    if entry.offset != header.offset:
        header = replace(header, offset=entry.offset, length=entry.length)
    moved = replace(
        product,
        start=start,
        end=cell.end,
        level=product.level if cell.level is None else cell.level,
        member=product.member if cell.member is None else cell.member,
    )
    return Field(header, moved, cell.time)
