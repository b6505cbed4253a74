"""Guards: what a version must keep before it is published, and how complete its steps are."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from xarray.coding.times import decode_cf_datetime

from frazil.datasets.declaration import Declaration
from frazil.datasets.steps import in_utc
from frazil.display import suggest
from frazil.errors import InvalidInputError
from frazil.repository.session import Session
from frazil.spark.ingestion.ledger import Covered, Ledger, find_group, read_ledger
from frazil.virtual.source_formats import without_codec_warnings

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Values of a dimension of a version."""

    values: NDArray[Any]
    """As stored."""
    moments: tuple[datetime, ...] | None = None
    """In UTC, if they are times of the standard calendar."""

    def show(self, position: int) -> str:
        """Return one value as people write it."""
        if self.moments is None:
            return str(self.values[position])
        return show_moment(self.moments[position])


def show_moment(moment: datetime) -> str:
    """Return a time in UTC, no finer than needed."""
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return text.removesuffix(":00") + "Z"


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A version of a dataset: axes, arrays and ingested files, without any data."""

    snapshot_id: str
    axes: Mapping[str, Axis] = field(default_factory=dict)
    arrays: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`shape`, `dims`, `dtype`, `chunks` and `units` of each array."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    group: str = ""

    @property
    def is_empty(self) -> bool:
        """True if nothing was published."""
        return not self.arrays

    @property
    def covered(self) -> Covered:
        """Places of the ingested files along the dimensions that there are."""
        return self.ledger.read_covered(self.group, list(self.axes))

    def files_at(self, dim: str, positions: Iterable[int]) -> set[str]:
        """Return the files that were placed at some positions along a dimension."""
        covered = self.covered
        starts, stops = covered.boxes[:, list(self.axes).index(dim)].T
        rows = {
            row for at in positions for row in covered.rows[(starts <= at) & (at < stops)].tolist()
        }
        return set(self.list_sources(rows))

    def list_sources(self, rows: Iterable[int]) -> list[str]:
        """Return the sources of some rows of the ledger."""
        return [self.ledger["source"][row].as_py() for row in rows]

    def find_new_rows(self, before: "Version") -> NDArray[np.int64]:
        """Return the rows of the ledger that other jobs wrote since an earlier version."""
        rows = self.ledger.find_group(self.group)
        if not len(rows):
            return rows
        there = before.ledger.find(self.group, self.ledger["source"].take(pa.array(rows)))
        known = there >= 0
        mine = self.ledger["job"].take(pa.array(rows[known]))
        theirs = before.ledger["job"].take(pa.array(there[known]))
        is_new = ~known
        is_new[known] = pc.not_equal(mine, theirs).to_numpy(zero_copy_only=False)
        return rows[is_new]


def read_version(session: Session, declaration: Declaration) -> Version:
    """Read axes, arrays and ledger of the group of a declaration; no chunk of data is read."""
    with without_codec_warnings():
        group = find_group(session.store, declaration.group)
        if group is None:
            return Version(session.snapshot_id)
        arrays, axes = {}, {}
        for name, array in group.arrays():
            dims = getattr(array.metadata, "dimension_names", None) or ()
            arrays[name] = {
                "shape": tuple(array.shape),
                "dims": tuple(str(each) for each in dims),
                "dtype": str(array.dtype),
                "chunks": tuple(array.chunks),
                "attributes": dict(array.attrs),
                "units": array.attrs.get("units"),
            }
            if name in declaration.dimensions:
                values = np.asarray(array[...])
                axes[name] = Axis(values, _find_moments(values, dict(array.attrs)))
        ledger = read_ledger(session.store)
    return Version(
        session.snapshot_id,
        axes,
        arrays,
        dict(group.attrs),
        ledger,
        declaration.group,
    )


def _find_moments(values: NDArray[Any], attributes: dict[str, Any]) -> tuple[datetime, ...] | None:
    units = attributes.get("units")
    if not isinstance(units, str) or " since " not in units or values.dtype.kind not in "iuf":
        return None
    try:
        # Not by a Dataset, which takes ten times as long.
        decoded = decode_cf_datetime(values, units, attributes.get("calendar"))
    except ValueError:
        return None
    if decoded.dtype.kind != "M" or np.any(np.isnat(decoded)):
        return None
    return tuple(in_utc(each) for each in decoded.astype("M8[us]").tolist())


def find_coverage(version: Version, declaration: Declaration, first: int = 0) -> Mask:
    """Return which steps are complete, of those from a position on.

    A step is complete if files brought every variable that is not optional at every position of the
    other dimensions. The ledger knows that without reading data.
    """
    return count_covered(version, declaration, first) >= 1.0


def count_covered(
    version: Version, declaration: Declaration, first: int = 0
) -> NDArray[np.float64]:
    """Return the fraction of each step, from a position on, that files brought."""
    growing = declaration.growing
    if growing is None or growing not in version.axes:
        return np.zeros(0)
    dims = [dim for dim in declaration.dimensions if dim in version.axes]
    lengths = [len(version.axes[dim].values) for dim in dims]
    names = find_required(version, declaration)
    covered = np.zeros((len(names), max(0, lengths[0] - first), *lengths[1:]), np.bool_)
    covered_by, texts = version.covered, version.ledger["variables"]
    brought: dict[str, list[int]] = {}
    for (start, stop), *others, row in zip(
        *np.moveaxis(covered_by.boxes, 1, 0).tolist(), covered_by.rows.tolist(), strict=True
    ):
        if start < 0:
            start, stop = 0, lengths[0]
        if stop <= first:
            continue
        sizes = zip(others, lengths[1:], strict=True)
        box = (
            slice(max(0, start - first), stop - first),
            *(slice(a, b) if a >= 0 else slice(0, size) for (a, b), size in sizes),
        )
        text = texts[row].as_py()
        if text not in brought:
            here = set(json.loads(text)) if text else set(names)
            brought[text] = [at for at, name in enumerate(names) if name in here]
        for at in brought[text]:
            covered[at][box] = True
    if not names:
        return np.zeros(covered.shape[1])
    parts: NDArray[np.float64] = covered.mean(axis=(0, *range(2, covered.ndim)))
    return parts


def find_required(version: Version, declaration: Declaration) -> list[str]:
    """Return the variables that a complete step has."""
    if declaration.variables:
        return [name for name, each in declaration.variables.items() if not each.optional]
    growing = declaration.growing
    return [
        name
        for name, each in version.arrays.items()
        if growing in each["dims"] and name not in version.axes and len(each["dims"]) > 1
    ] or [
        name
        for name, each in version.arrays.items()
        if growing in each["dims"] and name not in version.axes
    ]


@dataclass(frozen=True, slots=True)
class Violation:
    """A guard that a version does not keep, and the new files that are the reason."""

    guard: str
    message: str
    files: frozenset[str] = frozenset()
    """Files to leave out; empty if none would help."""
    is_waiting: bool = False
    """True if the files only wait for others."""


def find_violations(
    declaration: Declaration, before: Version, after: Version, now: datetime, *, dropped: int = 0
) -> list[Violation]:
    """Compare a new version with the published one and with the declaration.

    `dropped` is the number of steps that retention removes from the front.
    """
    new = set(after.list_sources(after.find_new_rows(before).tolist()))
    return [
        *_find_shrinking(declaration, before, after, dropped),
        *_find_changed_structure(before, after),
        *_find_undeclared(declaration, before, after, new),
        *_find_off_axis(declaration, after, new, now),
        *_find_incomplete(declaration, before, after, new, now),
    ]


def _find_shrinking(
    declaration: Declaration, before: Version, after: Version, dropped: int
) -> Iterator[Violation]:
    for name in before.arrays.keys() - after.arrays.keys():
        yield Violation("extent", f"the published array {name} would vanish")
    for dim, axis in before.axes.items():
        kept = axis.values[dropped:] if dim == declaration.growing else axis.values
        lost = np.setdiff1d(kept, after.axes[dim].values) if dim in after.axes else kept
        if len(lost):
            text = f"{len(lost)} published values of {dim} would vanish, the first is {lost[0]}"
            yield Violation("extent", text)
    for name, each in before.arrays.items():
        if name not in after.arrays:
            continue
        for dim, old, new in zip(
            each["dims"], each["shape"], after.arrays[name]["shape"], strict=False
        ):
            least = old - dropped if dim == declaration.growing else old
            if new < least:
                text = f"{name} would shrink along {dim}, from {old} to {new}"
                yield Violation("extent", text)
    if declaration.growing is None or before.is_empty or declaration.growing not in after.axes:
        return
    was = count_covered(before, declaration)[dropped:]
    now = count_covered(after, declaration)
    common = min(len(was), len(now))
    # Steps before the first new one can't move on a regular axis.
    if declaration.steps is not None and np.any(now[:common] < was[:common] - 1e-9):
        at = int(np.argmax(now[:common] < was[:common] - 1e-9))
        text = f"step {after.axes[declaration.growing].show(at)} would lose data that is published"
        yield Violation("extent", text)


_STRUCTURE = ("dims", "dtype", "chunks", "units")


def _find_changed_structure(before: Version, after: Version) -> Iterator[Violation]:
    for name, each in before.arrays.items():
        if name in before.axes or name not in after.arrays:
            continue
        for what in _STRUCTURE:
            old, new = each[what], after.arrays[name][what]
            if old != new:
                yield Violation("drift", f"{what} of {name} would change from {old} to {new}")


def _find_undeclared(
    declaration: Declaration, before: Version, after: Version, new: set[str]
) -> Iterator[Violation]:
    """Report variables that are other than declared, with the new files that bring them."""
    for name, text in find_drift(declaration, after):
        if name in before.arrays:
            yield Violation("drift", text)
            continue
        rows = after.ledger.find(after.group, sorted(new)).tolist()
        entries = map(after.ledger.read, rows)
        bringing = (e.source for e in entries if e.variables is None or name in e.variables)
        yield Violation("drift", text, frozenset(bringing))


def find_drift(declaration: Declaration, version: Version) -> Iterator[tuple[str, str]]:
    """Yield each array that differs from its declaration in structure, and how."""
    for name, wanted in declaration.variables.items():
        found = version.arrays.get(name)
        if found is None:
            continue
        if wanted.dtype is not None and np.dtype(wanted.dtype) != np.dtype(found["dtype"]):
            yield name, f"{name} has the data type {found['dtype']}, declared is {wanted.dtype}"
        if wanted.units is not None and wanted.units != found["units"]:
            yield name, f"{name} has the units {found['units']!r}, declared is {wanted.units!r}"
        chunks = {**declaration.chunks, **wanted.chunks}
        for dim, length, own in zip(found["dims"], found["chunks"], found["shape"], strict=False):
            asked = chunks.get(dim)
            if asked is not None and length != (asked if asked > 0 else length):
                text = f"{name} has chunks of {length} along {dim}, declared are {asked}"
                yield name, f"{text} (its length is {own})"
        for dim in chunks.keys() - set(found["dims"]):
            if dim in wanted.chunks:
                dims = ", ".join(found["dims"])
                yield name, f"{name} has the dimensions {dims}, declared are chunks along {dim}"
    if version.is_empty:
        return
    for dim in declaration.dimensions:
        if dim not in version.axes:
            yield dim, f"there is no coordinate {dim}, which is declared"
    known = {**version.arrays, **declaration.variables}
    for number, check in enumerate(declaration.checks):
        for name in check.variables or ():
            if name not in known:
                yield name, f"checks.{number} has no variable {name!r}: {suggest(name, known)}"


def _find_off_axis(
    declaration: Declaration, after: Version, new: set[str], now: datetime
) -> Iterator[Violation]:
    """Report values that the declared axes do not have, and times in the future."""
    for dim, declared in declaration.dimensions.items():
        axis = after.axes.get(dim)
        if axis is None:
            continue
        values = declared.list_values()
        wrong: list[int] = []
        if values is not None:
            known = set(values)
            wrong = [at for at, each in enumerate(axis.values.tolist()) if each not in known]
        steps = declared.steps
        if steps is not None and axis.moments is not None and axis.moments:
            regular = set(steps.until(axis.moments[-1]))
            wrong = [at for at, each in enumerate(axis.moments) if each not in regular]
            future = [at for at, each in enumerate(axis.moments) if each > now + timedelta(days=1)]
            if future and (blamed := after.files_at(dim, future) & new):
                text = f"{axis.show(future[0])} is in the future"
                yield Violation("axis", text, frozenset(blamed))
        if wrong:
            text = f"{axis.show(wrong[0])} is no value of {dim} as it is declared"
            yield Violation("axis", text, frozenset(after.files_at(dim, wrong) & new))


def _find_incomplete(
    declaration: Declaration, before: Version, after: Version, new: set[str], now: datetime
) -> Iterator[Violation]:
    """Report steps that would be published for the first time, and are incomplete."""
    growing = declaration.growing
    if declaration.guards.newest == "partial" or growing is None or growing not in after.axes:
        return
    parts, axis = count_covered(after, declaration), after.axes[growing]
    published: set[Any] = set()
    if growing in before.axes:
        was = count_covered(before, declaration)
        published = set(before.axes[growing].values[was > 0].tolist())
    for at in np.flatnonzero((parts > 0) & (parts < 1)).tolist():
        if axis.values[at].item() in published or _is_overdue(declaration, axis, at, now):
            continue
        files = frozenset(after.files_at(growing, [at]) & new)
        text = f"step {axis.show(at)} is incomplete: {parts[at]:.0%} of it is there"
        yield Violation("newest", text, files, is_waiting=True)


def _is_overdue(declaration: Declaration, axis: Axis, at: int, now: datetime) -> bool:
    after = declaration.guards.partial_after
    if after is None or axis.moments is None:
        return False
    return now >= after.after(declaration.delay.after(axis.moments[at]))


def find_due(declaration: Declaration, now: datetime) -> datetime | None:
    """Return the newest step whose files are due, or None before the first one."""
    steps = declaration.steps
    if steps is None:
        return None
    due = None
    for each in steps.until(now):
        if declaration.delay.after(each) > now:
            break
        due = each
    return due


def require_moments(version: Version, declaration: Declaration) -> Sequence[datetime]:
    """Return the times of the dimension that grows; raises InvalidInputError if it has none."""
    growing = declaration.growing
    axis = None if growing is None else version.axes.get(growing)
    if axis is None or axis.moments is None:
        raise InvalidInputError(
            f"the dimension {growing!r} has no times of the standard calendar to compare"
        )
    return axis.moments
