"""Ledger of the ingested source files, stored as arrays of the repository."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import zarr

from frazil.spark.ingestion.discovery import SourceFile
from frazil.virtual.combine_plan import Problem, ProblemKind, as_zarr, join
from frazil.virtual.combine_sources import ERA
from frazil.virtual.source import FileVersion
from frazil.virtual.source_formats import without_codec_warnings


def find_group(store: object, path: str) -> zarr.Group | None:
    """Return the group at a path, read-only, or None if there is none."""
    try:
        return zarr.open_group(as_zarr(store), path=path, mode="r", zarr_format=3)
    except FileNotFoundError:
        return None


PATH = "_frazil/ledger"
_CHUNK_ROWS = 8192
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS: Mapping[str, Any] = {
    "source": str, "group": str, "etag": str, "size": "int64", "mtime": "int64",
    "start": "int64", "stop": "int64", "job": str, "place": str, "variables": str,
}  # fmt: skip
_LATER = ("place", "variables")
"""Columns that ledgers of Frazil 0.1 don't have."""
WHOLE_TREE = "*"
"""Name that stands for all groups of a file, and for those that it was ingested into."""
UNNAMED = ""
"""Dimension of places in ledgers of Frazil 0.1, which knew of one dimension alone."""

_ATTRIBUTES: Mapping[str, dict[str, Any]] = {
    "mtime": {"units": "microseconds since 1970-01-01T00:00:00Z"}
}

Region = tuple[int, int]
"""Start and stop along a dimension."""
Place = Mapping[str, Region]
"""Region by concatenation dimension."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Ledger row: a source ingested into a group."""

    source: str
    group: str
    version: FileVersion
    place: Place
    job: str
    variables: frozenset[str] | None = None
    """Variables that the source brought; None if they are not known."""

    def place_along(self, dims: Sequence[str]) -> Place:
        """Return the place with the names of its dimensions."""
        if UNNAMED in self.place and dims:
            return {dims[0]: self.place[UNNAMED]}
        return self.place


@dataclass(frozen=True, slots=True)
class Ledger:
    """Ledger entries in row order."""

    entries: tuple[Entry, ...] = ()
    rows: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Row by group and source."""

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Ledger":
        """Build a ledger from its rows."""
        kept = tuple(entries)
        return cls(kept, {(each.group, each.source): row for row, each in enumerate(kept)})

    def find(self, group: str, source: str) -> Entry | None:
        """Return the entry of a source in a group, or None."""
        row = self.rows.get((group, source))
        return None if row is None else self.entries[row]


@dataclass(frozen=True, slots=True)
class Work:
    """Files split into new, changed and already ingested ones."""

    new: tuple[SourceFile, ...]
    changed: tuple[tuple[SourceFile, Entry], ...]
    known: tuple[SourceFile, ...]

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """Return the new and changed files, which are to be ingested."""
        return (*self.new, *(file for file, _ in self.changed))

    def without(self, locations: Collection[str]) -> "Work":
        """Return the work without some files."""
        return Work(
            tuple(each for each in self.new if each.location not in locations),
            tuple(each for each in self.changed if each[0].location not in locations),
            self.known,
        )


def subtract(files: Sequence[SourceFile], ledger: Ledger, group: str) -> Work:
    """Split files into new, changed and already ingested ones."""
    new: list[SourceFile] = []
    changed: list[tuple[SourceFile, Entry]] = []
    known: list[SourceFile] = []
    for file in files:
        entry = ledger.find(group, file.location)
        if entry is None:
            new.append(file)
        elif is_same_version(entry.version, file.version):
            known.append(file)
        else:
            changed.append((file, entry))
    return Work(tuple(new), tuple(changed), tuple(known))


def read_eras(store: object, group: str) -> dict[str, dict[str, Any]]:
    """Return the storage of variables of each era below a group, by the name of its group."""
    found = find_group(store, group)
    groups = dict(found.groups()) if found is not None else {}
    eras: dict[str, Any] = {name: each.attrs.get(ERA) for name, each in groups.items()}
    return {name: dict(each) for name, each in eras.items() if each is not None}


def find_vanished(
    ledger: Ledger,
    base: str,
    now: Mapping[str, Collection[str]],
    changed: Collection[str],
    is_by_era: bool,
) -> list[Problem]:
    """Report changed files that lack a group they had, or belong to another era now.

    `now` has the sources of each group below `base`.
    """
    text = "the file had this group when it was ingested, and lacks it now"
    if is_by_era:
        text = "the file was ingested into this group, and its encoding is that of another era now"
    return [
        Problem(ProblemKind.LENGTH, each.group, text, (each.source,))
        for each in ledger.entries
        if each.source in changed
        and each.group != join(base, WHOLE_TREE)
        and f"{each.group}/".startswith(f"{base}/".lstrip("/"))
        and each.source not in now.get(each.group, ())
    ]


def is_same_version(one: FileVersion, other: FileVersion) -> bool:
    """Return whether two versions are equal: size and ETag, or size and time without ETags.

    Stores report times with different precision in different responses, so an ETag is preferred.
    """
    if one.size_bytes != other.size_bytes:
        return False
    if one.e_tag is not None and other.e_tag is not None:
        return one.e_tag == other.e_tag
    return one.modified_at == other.modified_at


def read_ledger(store: object) -> Ledger:
    """Return the ledger of a session, empty if it has none."""
    with without_codec_warnings():
        group = find_group(store, PATH)
        if group is None:
            return Ledger()
        arrays = dict(group.arrays())
        count = arrays["source"].shape[0]
        columns = {
            name: np.asarray(arrays[name][...]).tolist()
            if name in arrays or name not in _LATER
            else [""] * count
            for name in _COLUMNS
        }
    # One document is decoded many times as fast as one a row.
    columns["place"] = json.loads(f"[{','.join(each or 'null' for each in columns['place'])}]")
    texts = {text: frozenset(json.loads(text)) for text in set(columns["variables"]) if text}
    columns["variables"] = [texts.get(text) for text in columns["variables"]]
    return Ledger.of(_entry(*row) for row in zip(*columns.values(), strict=True))


def write_ledger(store: object, before: Ledger, entries: Sequence[Entry]) -> None:
    """Write entries; each replaces the row of the same group and source, or is appended."""
    merged = list(before.entries)
    for entry in entries:
        row = before.rows.get((entry.group, entry.source))
        if row is None:
            merged.append(entry)
        else:
            merged[row] = entry
    replaced = [before.rows[key] for e in entries if (key := (e.group, e.source)) in before.rows]
    first = min([*replaced, len(before.entries)])
    with without_codec_warnings():
        arrays, is_older = _open(store)
        first = 0 if is_older else first
        columns = zip(*map(_row, merged[first:]), strict=True)
        for (name, dtype), values in zip(_COLUMNS.items(), columns, strict=True):
            arrays[name].resize((len(merged),))
            arrays[name][first:] = np.array(values, object if dtype is str else dtype)


def _open(store: object) -> tuple[dict[str, zarr.Array[Any]], bool]:
    """Return the columns of the ledger, and whether some were missing."""
    group = zarr.open_group(as_zarr(store), path=PATH, mode="a", zarr_format=3)
    arrays: dict[str, zarr.Array[Any]] = dict(group.arrays())
    is_older = "source" in arrays and any(name not in arrays for name in _LATER)
    for name, dtype in _COLUMNS.items():
        if name not in arrays:
            arrays[name] = group.create_array(
                name,
                shape=(0,),
                chunks=(_CHUNK_ROWS,),
                dtype=dtype,
                dimension_names=("entry",),
                attributes=_ATTRIBUTES.get(name, {}),
            )
    return arrays, is_older


def _row(entry: Entry) -> tuple[object, ...]:
    version = entry.version
    microseconds = (version.modified_at - _EPOCH) // timedelta(microseconds=1)
    start, stop = next(iter(entry.place.values()), (-1, -1))
    variables = "" if entry.variables is None else json.dumps(sorted(entry.variables))
    return (
        entry.source, entry.group, version.e_tag or "", version.size_bytes, microseconds,
        start, stop, entry.job, json.dumps(dict(entry.place)), variables,
    )  # fmt: skip


def _entry(
    source: str, group: str, etag: str, size: int, mtime: int, start: int, stop: int, job: str,
    place: dict[str, list[int]] | None, variables: frozenset[str] | None,
) -> Entry:  # fmt: skip
    version = FileVersion(etag or None, _EPOCH + timedelta(microseconds=mtime), size)
    places: Place = {} if start < 0 else {UNNAMED: (start, stop)}
    if place is not None:
        places = {dim: (first, last) for dim, (first, last) in place.items()}
    return Entry(source, group, version, places, job, variables)
