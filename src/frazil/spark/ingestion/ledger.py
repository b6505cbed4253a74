"""Ledger of the ingested source files, stored as arrays of the repository."""

import json
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zarr
from numpy.typing import NDArray

from frazil.errors import StorageError
from frazil.maintenance.reachability import in_batches
from frazil.spark.ingestion.discovery import EPOCH, SourceFile, count_microseconds, list_files
from frazil.virtual.combine_plan import Problem, ProblemKind, as_zarr, join
from frazil.virtual.combine_sources import ERA
from frazil.virtual.source import FileVersion, SourceHeader
from frazil.virtual.source_formats import (
    DIGEST,
    UNCERTAIN,
    SourceStores,
    digest,
    have_equal_content,
    key_url,
    observe_any,
    without_codec_warnings,
)


def find_group(store: object, path: str) -> zarr.Group | None:
    """Return the group at a path, read-only, or None if there is none."""
    try:
        return zarr.open_group(as_zarr(store), path=path, mode="r", zarr_format=3)
    except FileNotFoundError:
        return None


RESERVED = "_frazil"
"""Group of the repository that jobs keep their own arrays in."""
PATH = f"{RESERVED}/ledger"
_CHUNK_ROWS = 8192
_WRITTEN_ROWS = 8 * _CHUNK_ROWS
_NAMES = "source_names"
"""Attribute with the names in the files, by group."""
_DIGESTS = "source_digests"
"""Attribute with the digests of arrays that were taken from one file for all, by group."""
_COLUMNS: Mapping[str, Any] = {
    "source": str, "group": str, "etag": str, "size": "int64", "mtime": "int64",
    "start": "int64", "stop": "int64", "job": str, "place": str, "variables": str,
    "left_out": str, "copy_of": str,
}  # fmt: skip
_NUMBERS = ("size", "mtime", "start", "stop")
_SELDOM = ("left_out", "copy_of")
"""Columns that a ledger gets with the first entry that needs them."""
_LATER = ("place", "variables", *_SELDOM)
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
    left_out: frozenset[str] = frozenset()
    """Arrays that options left out, by their name in the source."""
    copy_of: str = ""
    """Source with equal content that was ingested instead; such an entry has no place."""

    def place_along(self, dims: Sequence[str]) -> Place:
        """Return the place with the names of its dimensions."""
        if UNNAMED in self.place and dims:
            return {dims[0]: self.place[UNNAMED]}
        return self.place


@dataclass(frozen=True, slots=True)
class SourceNames:
    """Names in the files that were ingested into a group: those that options may have."""

    arrays: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """Groups that were read."""

    def __or__(self, other: "SourceNames") -> "SourceNames":
        pairs = zip(astuple(self), astuple(other), strict=True)
        return SourceNames(*(tuple(dict.fromkeys([*one, *two])) for one, two in pairs))


class Ledger:
    """Columns of a ledger, each read when it is first asked for.

    Texts are columns of Arrow, numbers those of numpy.
    """

    def __init__(
        self,
        stored: Mapping[str, Any] | None = None,
        count: int = 0,
        names: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
        digests: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._stored = stored or {}
        self._names = names or {}
        self._digests = digests or {}
        self._columns: dict[str, Any] = {}
        self.count = count

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Ledger":
        """Build a ledger from its rows."""
        types = {n: pa.large_string() if t is str else pa.int64() for n, t in _COLUMNS.items()}
        schema = pa.schema(types)
        # Columns take a part of the memory that the values of many rows do.
        tables = [
            pa.table(list(map(list, zip(*rows, strict=True))), schema=schema)
            for rows in in_batches(map(_row, entries), _CHUNK_ROWS)
        ]
        joined = pa.concat_tables(tables) if tables else schema.empty_table()
        made = cls(dict.fromkeys(_COLUMNS), len(joined))
        del tables
        for name, dtype in _COLUMNS.items():
            column = joined[name].combine_chunks()
            made._columns[name] = column if dtype is str else column.to_numpy()
            joined = joined.drop_columns(name)  # so that each is there only once
        return made

    def __getitem__(self, name: str) -> Any:
        if name not in self._columns:
            with without_codec_warnings():
                values = self._stored[name][:] if name in self._stored else []
                if name in _LATER:  # a Frazil that doesn't know a column doesn't extend it
                    values = [*values, *[""] * (self.count - len(values))]
            is_text = _COLUMNS[name] is str
            self._columns[name] = (
                pa.array(np.asarray(values, object), pa.large_string())
                if is_text
                else np.asarray(values, "int64")
            )
        return self._columns[name]

    def has(self, name: str) -> bool:
        """Return whether the ledger has a column."""
        return name in self._stored

    @property
    def entries(self) -> list[Entry]:
        """Return all rows."""
        return [self.read(row) for row in range(self.count)]

    @property
    def groups(self) -> list[str]:
        """Return the groups that files were ingested into."""
        found: list[str] = pc.unique(self["group"]).to_pylist()
        return sorted(found)

    def read(self, row: int) -> Entry:
        """Return a row."""
        source, group, etag, job, place, variables, left_out, copy_of = (
            self[name][row].as_py() for name in ("source", "group", "etag", "job", *_LATER)
        )
        size, mtime, start, stop = (int(self[name][row]) for name in _NUMBERS)
        version = FileVersion(etag or None, EPOCH + timedelta(microseconds=mtime), size)
        places: Place = {} if start < 0 else {UNNAMED: (start, stop)}
        if place:
            places = {dim: (first, last) for dim, (first, last) in json.loads(place).items()}
        names = frozenset(json.loads(variables)) if variables else None
        left = frozenset(json.loads(left_out or "[]"))
        return Entry(source, group, version, places, job, names, left, copy_of)

    def find_names(self, group: str) -> SourceNames:
        """Return the names in the files of a group; none if a ledger lacks them."""
        found = self._names.get(group, {})
        return SourceNames(**{name: tuple(each) for name, each in found.items()})

    def with_digests(self, header: SourceHeader, group: str) -> SourceHeader:
        """Return the header of a group with the digests of arrays that are the same in all files."""
        own = self._digests.get(group, {})
        arrays = {n: replace(e, digest=own.get(n)) for n, e in header.arrays.items()}
        return replace(header, arrays=arrays) if own else header

    def list_arrays(
        self, store: object, group: str, *, is_tree: bool
    ) -> dict[str, tuple[str, ...]]:
        """Return the dimensions of the arrays of a group, or of all groups below that files are in."""
        base = f"{group}/".lstrip("/")
        below = [each for each in self.groups if f"{each}/".startswith(base)] if is_tree else []
        found = [find_group(store, each) for each in (group, *below)]
        with without_codec_warnings():
            arrays: list[tuple[str, Any]] = [p for e in found if e is not None for p in e.arrays()]
        return {name: tuple(each.metadata.dimension_names or ()) for name, each in arrays}

    def find(self, group: str, sources: Any) -> NDArray[np.int64]:
        """Return the row of each source in a group, or -1."""
        rows = self.find_group(group)
        if not len(rows) or not len(sources):
            return np.full(len(sources), -1, np.int64)
        among = self["source"] if len(rows) == self.count else self["source"].take(pa.array(rows))
        wanted = pa.array(sources, pa.large_string())
        # The smaller side is the one to be hashed.
        if 4 * len(wanted) < len(rows):
            numbers = pc.fill_null(pc.index_in(among, value_set=wanted), -1).to_numpy()
            found = np.full(len(wanted), -1, np.int64)
            hits = np.flatnonzero(numbers >= 0)
            found[numbers[hits]] = rows[hits]
            return found
        places = pc.fill_null(pc.index_in(wanted, value_set=among), -1).to_numpy()
        return np.where(places < 0, -1, rows[places])

    def find_group(self, group: str) -> NDArray[np.int64]:
        """Return the rows of a group."""
        return np.flatnonzero(pc.equal(self["group"], group).to_numpy(zero_copy_only=False))

    def read_covered(
        self, group: str, dims: Sequence[str], without: Collection[str] = ()
    ) -> "Covered":
        """Return the places that sources have in a group, without those of some sources."""
        rows = self.find_group(group)
        left_out = self.find(group, list(without))
        rows = np.setdiff1d(rows, left_out)
        texts = self["place"].take(pa.array(rows))
        starts, stops = self["start"][rows], self["stop"][rows]
        is_placed = starts >= 0
        boxes = np.full((len(rows), len(dims), 2), -1, np.int64)
        for at, dim in enumerate(dims):
            name = json.dumps(dim)
            # The first dimension of a place, or its only one without a name, has columns of its own.
            is_first = pc.starts_with(texts, f"{{{name}: [").to_numpy(zero_copy_only=False)
            if at == 0:
                is_first |= pc.equal(texts, "").to_numpy(zero_copy_only=False)
            boxes[is_first, at] = np.stack([starts, stops], axis=1)[is_first]
            others = np.flatnonzero(~is_first & is_placed)
            if len(others):
                pattern = rf", {re.escape(name)}: \[(?P<a>\d+), (?P<b>\d+)\]"
                found = pc.extract_regex(texts.take(pa.array(others)), pattern)
                ends = [pc.struct_field(found, each).cast(pa.int64()) for each in (0, 1)]
                boxes[others, at] = np.stack(
                    [pc.fill_null(each, -1).to_numpy() for each in ends], axis=1
                )
        kept = np.flatnonzero(is_placed)
        return Covered(self, rows[kept], tuple(dims), boxes[kept])


@dataclass(frozen=True, slots=True, eq=False)
class Covered:
    """Places of sources that were ingested before, in the positions of the repository."""

    ledger: Ledger
    rows: NDArray[np.int64]
    dims: tuple[str, ...]
    boxes: NDArray[np.int64]
    """First and last by row and dimension; negative along a dimension that a source lacks."""

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, at: int) -> Entry:
        """Return the entry of one of them."""
        return self.ledger.read(int(self.rows[at]))


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Files split into new, changed and already ingested ones."""

    new: tuple[SourceFile, ...]
    changed: tuple[tuple[SourceFile, Entry], ...]
    known: Any
    """Column of the locations of files that were ingested before, which may be many."""
    again: tuple[tuple[SourceFile, Entry], ...] = ()
    """Files that were ingested before without arrays that are wanted now."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Files with the content of another one for their place, each with that one."""

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """Return the files that are to be ingested."""
        return (*self.new, *(file for file, _ in (*self.changed, *self.again)))

    def without(self, locations: Collection[str]) -> "Work":
        """Return the work without some files."""
        return Work(
            tuple(each for each in self.new if each.location not in locations),
            tuple(each for each in self.changed if each[0].location not in locations),
            self.known,
            tuple(each for each in self.again if each[0].location not in locations),
            self.copies,
        )

    def without_former(self, headers: Iterable[SourceHeader]) -> list[SourceHeader]:
        """Return headers without the variables that were ingested from their files before."""
        former = {file.location: entry.variables or frozenset() for file, entry in self.again}
        found = []
        for header in headers:
            before = former.get(header.location, frozenset())
            arrays = {
                k: each for k, each in header.arrays.items() if each.is_index or k not in before
            }
            found.append(replace(header, arrays=arrays) if before else header)
        return found

    def brought_before(self, problem: Problem) -> bool:
        """Return whether the files of a problem brought its variable when they were ingested before."""
        entries = {file.location: entry for file, entry in self.again}
        return all(
            each in entries and problem.subject in (entries[each].variables or ())
            for each in problem.files
        )

    def with_corrections(self, entries: Mapping[str, Entry]) -> "Work":
        """Return the work with some of its new files as changed ones, which had these entries."""
        pairs = [(each, entries[each.location]) for each in self.new if each.location in entries]
        new = tuple(each for each in self.new if each.location not in entries)
        return replace(self, new=new, changed=(*self.changed, *pairs))

    def without_copies(self, copies: Mapping[str, str]) -> "Work":
        """Return the work without files that are copies, which it notes."""
        return replace(self.without(copies.keys()), copies={**self.copies, **copies})


def subtract(
    files: pa.Table,
    ledger: Ledger,
    group: str,
    wants: Callable[[str], bool] | None = None,
    is_replacing: bool = False,
) -> Work:
    """Split files into new, changed and already ingested ones.

    Versions are equal if sizes and ETags are, or sizes and times without ETags: stores report times
    with different precision in different responses. Of files that `look_again` found to be uncertain,
    digests are compared. `wants` returns whether an array is wanted, by its name in the file. If files
    replace the data at their place, copies of others are new.
    """
    sources, etags = files["source"].combine_chunks(), files["etag"].combine_chunks()
    rows = ledger.find(group, sources)
    there = np.flatnonzero(rows >= 0)
    is_known = np.zeros(len(files), bool)
    if len(there):
        before = rows[there]
        theirs, mine = ledger["etag"].take(pa.array(before)), etags.take(pa.array(there))
        is_tagged = pc.and_(pc.not_equal(theirs, ""), pc.is_valid(mine)).to_numpy(False)
        are_digests = [pc.fill_null(pc.starts_with(each, DIGEST), False) for each in (theirs, mine)]
        is_tagged &= pc.equal(*are_digests).to_numpy(False)
        is_equal = pc.fill_null(pc.equal(theirs, mine), False).to_numpy(False)
        is_timely = files["mtime"].to_numpy()[there] == ledger["mtime"][before]
        has_size = files["size"].to_numpy()[there] == ledger["size"][before]
        is_known[there] = has_size & np.where(is_tagged, is_equal, is_timely)
    is_again = np.zeros(len(files), bool)
    if wants is not None and ledger.has("left_out"):
        at = np.flatnonzero(is_known)
        texts = ledger["left_out"].take(pa.array(rows[at]))
        wanted = [each for each in pc.unique(texts).to_pylist() if any(map(wants, _parse(each)))]
        is_again[at] = pc.is_in(texts, pa.array(wanted, pa.large_string())).to_numpy(False)
    is_new = rows < 0
    if ledger.has("copy_of"):
        # A copy that has changed is a file of its own, and one may outlive the file that it copies.
        at = np.flatnonzero(~is_new & (is_replacing | ~is_known))
        copies = ledger["copy_of"].take(pa.array(rows[at]))
        is_new[at] = pc.not_equal(copies, "").to_numpy(False)
        is_known &= ~is_new

    def pair(which: NDArray[np.bool_]) -> tuple[tuple[SourceFile, Entry], ...]:
        found = list_files(files.filter(pa.array(which)))
        return tuple(zip(found, map(ledger.read, rows[which].tolist()), strict=True))

    return Work(
        tuple(list_files(files.filter(pa.array(is_new)))),
        pair(~is_new & ~is_known),
        sources.filter(pa.array(is_known & ~is_again)),
        pair(is_again),
    )


def _parse(names: str) -> list[str]:
    found: list[str] = json.loads(names or "[]")
    return found


def find_copies(
    problems: Iterable[Problem],
    locations: Mapping[str, str],
    work: Work,
    ledger: Ledger,
    group: str,
    stores: SourceStores,
) -> dict[str, str]:
    """Return the locations of new files with the content of the file at their place, with that one.

    Of new files with equal content for one place the oldest is no copy.

    Parameters
    ----------
    problems
        Problems of files for the same place.
    locations
        Locations of files, by their names in problems.
    work
        Files to ingest.
    ledger, group
        Ledger, and the group that it knows files by.
    stores
        Stores of the files.
    """
    found: dict[str, str] = {}
    files = {each.location: each for each in work.files}
    new = {each.location for each in work.new}

    def is_same(file: SourceFile, other: SourceFile) -> bool:
        size = file.version.size_bytes
        if file.location not in new or size != other.version.size_bytes:
            return False
        urls = key_url(file.location), key_url(other.location)
        try:
            return have_equal_content(stores, *urls)
        except StorageError:  # one of them is gone
            return False

    def rank(file: SourceFile) -> tuple[object, ...]:
        return file.location in new, file.version.modified_at, len(file.location), file.location

    for problem in problems:
        if problem.kind is not ProblemKind.DUPLICATE and not problem.occupants:
            continue
        rivals = [
            SourceFile(each, version)
            for each in problem.occupants
            if (version := _observe_known(each, ledger, group, stores)) is not None
        ]
        named = {locations.get(each, each) for each in problem.files} & files.keys()
        for file in sorted((files[each] for each in named), key=rank):
            same = next((each.location for each in rivals if is_same(file, each)), None)
            if same is None:
                rivals.append(file)
            else:
                found[file.location] = same
    return found


def find_corrections(
    problems: Iterable[Problem],
    locations: Mapping[str, str],
    work: Work,
    ledger: Ledger,
    group: str,
) -> dict[str, Entry]:
    """Return the entries of the files at whose place are corrected copies of theirs, by location.

    A copy had the content of the file that was ingested. If it has changed since, and fits the same
    place, it is the next version of that content, as if that file had changed.
    """
    new = {each.location for each in work.new}
    found = {}
    for problem in problems:
        for location in {locations.get(each, each) for each in problem.files} & new:
            row = int(ledger.find(group, [location])[0])
            twin = ledger.read(row).copy_of if row >= 0 else ""
            if twin and twin in problem.occupants:
                entry = ledger.read(int(ledger.find(group, [twin])[0]))
                found[location] = replace(entry, source=location)
    return found


def _observe_known(
    location: str, ledger: Ledger, group: str, stores: SourceStores
) -> FileVersion | None:
    """Return the version of a source, or None if it isn't the one that was ingested."""
    row = int(ledger.find(group, [location])[0])
    if row < 0:
        return None
    before = ledger.read(row).version
    try:
        if before.e_tag is not None and before.e_tag.startswith(DIGEST):
            return before if digest(stores, key_url(location)) == before.e_tag else None
        now = observe_any(stores, key_url(location))
    except StorageError:
        return None
    return before if is_same_version(before, now) else None


def look_again(files: pa.Table, ledger: Ledger, group: str, stores: SourceStores) -> pa.Table:
    """Return the files with digests instead of ETags where the ledger has a digest.

    Those files were modified shortly before they were ingested, and may have been again since, at the
    same time by a coarse clock.
    """
    is_uncertain = pc.starts_with(ledger["etag"], DIGEST)
    if not pc.any(is_uncertain).as_py():
        return files
    rows = np.flatnonzero(pc.and_(is_uncertain, pc.equal(ledger["group"], group)).to_numpy(False))
    sources = ledger["source"].take(pa.array(rows))
    places = pc.index_in(sources, value_set=files["source"].combine_chunks())
    etags = files["etag"].to_pylist()
    for row, place in zip(rows.tolist(), places.to_pylist(), strict=True):
        if place is None:
            continue
        version = tuple(int(files[name][place].as_py()) for name in ("size", "mtime"))
        if version != tuple(int(ledger[name][row]) for name in ("size", "mtime")):
            etags[place] = None  # it has changed in any case
            continue
        key = (ledger["source"][row].as_py(), *version)
        if key not in _certain:
            # A file that is gone by now is reported by whoever opens it.
            with suppress(StorageError):
                before = datetime.now(UTC)
                found = digest(stores, key_url(key[0]))
                if before - EPOCH > timedelta(microseconds=version[1]) + UNCERTAIN:
                    _certain[key] = found
                etags[place] = found
        else:
            etags[place] = _certain[key]
    column = pa.array(etags, pa.large_string())
    return files.set_column(files.schema.get_field_index("etag"), "etag", column)


def _find_certain(ledger: Ledger) -> NDArray[np.int64]:
    """Return the rows with digests that are not needed any more."""
    if not _certain or not ledger.count:
        return np.empty(0, np.int64)
    rows = np.flatnonzero(pc.starts_with(ledger["etag"], DIGEST).to_numpy(False)).tolist()
    keys = [
        (ledger["source"][row].as_py(), int(ledger["size"][row]), int(ledger["mtime"][row]))
        for row in rows
    ]
    found = [r for r, key in zip(rows, keys, strict=True)
             if _certain.get(key) == ledger["etag"][r].as_py()]  # fmt: skip
    return np.array(found, np.int64)


_certain: dict[tuple[str, int, int], str] = {}
"""Digests that no change can have made wrong without another time."""


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
        text = (
            "the file was in this group, and lacks it, or its encoding is that of another era now"
        )
    if not changed:
        return []
    is_changed = pc.is_in(ledger["source"], pa.array(list(changed), pa.large_string()))
    rows = np.flatnonzero(is_changed.to_numpy(False)).tolist()
    return [
        Problem(ProblemKind.LENGTH, each.group, text, (each.source,))
        for each in map(ledger.read, rows)
        if each.group != join(base, WHOLE_TREE)
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
        arrays: dict[str, zarr.Array[Any]] = dict(group.arrays())
    attributes: Any = group.attrs
    return Ledger(
        arrays, arrays["source"].shape[0], attributes.get(_NAMES), attributes.get(_DIGESTS)
    )


def write_ledger(
    store: object,
    before: Ledger,
    entries: Sequence[Entry],
    moved: Iterable[Covered] = (),
    names: Mapping[str, SourceNames] | None = None,
    headers: Mapping[str, tuple[Sequence[SourceHeader], Container[str]]] | None = None,
) -> None:
    """Write entries: each replaces the row of the same group and source, or is appended.

    `names` are those in the sources, by group, and `headers` those of the sources, with the names of
    those that replace what was there.

    Only the chunks of these rows are written, those of rows that have moved, and those of files whose
    versions are certain now.
    """
    rows = np.full(len(entries), -1, np.int64)
    groups = np.array([each.group for each in entries], object)
    for group in dict.fromkeys(groups.tolist()):
        own = np.flatnonzero(groups == group)
        rows[own] = before.find(group, [entries[at].source for at in own.tolist()])
    new = Ledger.of(each for each, row in zip(entries, rows.tolist(), strict=True) if row < 0)
    replaced = Ledger.of(e for e, row in zip(entries, rows.tolist(), strict=True) if row >= 0)
    with without_codec_warnings():
        group = zarr.open_group(as_zarr(store), path=PATH, mode="a", zarr_format=3)
        arrays: dict[str, zarr.Array[Any]] = dict(group.arrays())
        joined = {path: before.find_names(path) | each for path, each in (names or {}).items()}
        if any(each != before.find_names(path) for path, each in joined.items()):
            there: Any = group.attrs.get(_NAMES, {})
            group.attrs[_NAMES] = {**there, **{path: asdict(e) for path, e in joined.items()}}
        digests = {
            path: {
                **_find_digests(each),
                **before._digests.get(path, {}),
                **_find_digests(header for header in each if header.name in replacing),
            }
            for path, (each, replacing) in (headers or {}).items()
        }
        if any(each != before._digests.get(path, {}) for path, each in digests.items()):
            group.attrs[_DIGESTS] = {**before._digests, **digests}
        for name, dtype in _COLUMNS.items():
            if name not in arrays:
                if name in _SELDOM and not (_has(new, name) or _has(replaced, name)):
                    continue
                arrays[name] = group.create_array(
                    name,
                    shape=(before.count,),
                    chunks=(_CHUNK_ROWS,),
                    dtype=dtype,
                    dimension_names=("entry",),
                    attributes=_ATTRIBUTES.get(name, {}),
                )
            if name == "etag":
                certain = _find_certain(before)
                _put(arrays[name], certain, np.full(len(certain), "", object))
            if arrays[name].shape[0] < before.count:
                arrays[name].resize((before.count,))
            _put(arrays[name], rows[rows >= 0], replaced[name])
            if new.count:
                _append(arrays[name], before.count, new[name])
        for each in moved:
            boxes = each.boxes.tolist()
            texts = [json.dumps(dict(zip(each.dims, box, strict=True))) for box in boxes]
            _put(arrays["start"], each.rows, each.boxes[:, 0, 0])
            _put(arrays["stop"], each.rows, each.boxes[:, 0, 1])
            _put(arrays["place"], each.rows, np.array(texts, object))


def _find_digests(headers: Iterable[SourceHeader]) -> dict[str, str]:
    """Return the digest of each array in the first source that has one."""
    found: dict[str, str] = {}
    for header in headers:
        for name, array in header.arrays.items():
            if array.digest and name not in found:
                found[name] = array.digest
    return found


def _has(ledger: Ledger, name: str) -> bool:
    return bool(pc.any(pc.not_equal(ledger[name], "")).as_py())


def _put(array: zarr.Array[Any], rows: NDArray[np.int64], values: Any) -> None:
    if len(rows):
        array.set_coordinate_selection((rows,), _to_numpy(values))


def _append(array: zarr.Array[Any], start: int, values: Any) -> None:
    """Write rows behind those of an array; texts are objects of Python for some chunks at a time."""
    end = start + len(values)
    array.resize((end,))
    edges = [start, *range((start // _WRITTEN_ROWS + 1) * _WRITTEN_ROWS, end, _WRITTEN_ROWS), end]
    for first, last in pairwise(edges):
        array[first:last] = _to_numpy(values[first - start : last - start])


def _to_numpy(values: Any) -> NDArray[Any]:
    return values if isinstance(values, np.ndarray) else values.to_numpy(zero_copy_only=False)


def _row(entry: Entry) -> tuple[object, ...]:
    version = entry.version
    start, stop = next(iter(entry.place.values()), (-1, -1))
    variables = "" if entry.variables is None else _render(entry.variables)
    return (
        entry.source, entry.group, version.e_tag or "", version.size_bytes,
        count_microseconds(version.modified_at), start, stop, entry.job,
        json.dumps(dict(entry.place)), variables,
        _render(entry.left_out) if entry.left_out else "", entry.copy_of,
    )  # fmt: skip


@lru_cache
def _render(names: frozenset[str]) -> str:
    """Return names as a column holds them; most rows have the same."""
    return json.dumps(sorted(names))
