"""State of a dataset: plan of a run, drift, freshness, completeness, checks of a sample, replicas."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from frazil.datasets.cycle import count_dropped, find_newest, shorten
from frazil.datasets.dataset_file import load
from frazil.datasets.declaration import Declaration
from frazil.datasets.guards import (
    Version,
    count_covered,
    find_drift,
    find_due,
    find_required,
    read_version,
    show_moment,
)
from frazil.datasets.opened_dataset import CheckAt, Opened, list_checks, list_patterns
from frazil.datasets.publication import BACKFILL
from frazil.display import Item, Listed, Table
from frazil.errors import InvalidInputError, RepositoryNotFoundError
from frazil.repository.locate import open_repository
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.spark.audit import FileRegion, Finding, NewRegion, is_partial
from frazil.spark.checks import (
    count_different,
    find_duplicates,
    find_gaps,
    find_missing,
    find_turns,
    select_arrays,
)
from frazil.spark.ingestion.ledger import subtract
from frazil.storage.constructors import in_memory_storage
from frazil.virtual.combine_plan import join
from frazil.virtual.source_formats import without_codec_warnings


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class PlanReport(Listed):
    """Actions of the next run.

    Attributes
    ----------
    creates
        Whether the repository would be created.
    drift
        Differences from what is published that a run refuses.
    growth
        Differences that a run carries out: new variables, longer axes, attributes.
    patterns
        Number of patterns that are listed.
    new, changed, known
        Number of files.
    bad
        Files that can't be ingested, with the reason.
    dimensions, variables
        Axes and variables after the run.
    dropped
        Number of steps that retention would drop.
    due
        Newest step whose files are due.
    problem
        Why the files can't be ingested, if that is so.
    """

    creates: bool
    drift: tuple[str, ...] = ()
    growth: tuple[str, ...] = ()
    patterns: int = 0
    new: int = 0
    changed: int = 0
    known: int = 0
    bad: Mapping[str, str] = field(default_factory=dict)
    dimensions: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    dropped: int = 0
    due: str | None = None
    problem: str | None = None

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 13 if a run would be refused."""
        return 13 if self.drift or self.problem else 0

    def shown_items(self) -> Iterator[Item]:
        """Yield the items with a value."""
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if name == "bad":
                yield from (Item("left out", f"{place}: {why}") for place, why in value.items())
            elif isinstance(value, tuple):
                yield from (Item(name.removesuffix("s"), each) for each in value)
            elif value is not None and value is not False:
                yield Item(name, value)


def plan(
    dataset: str | Path | Mapping[str, Any] | Declaration,
    *,
    now: Callable[[], datetime] | None = None,
) -> PlanReport:
    """Show what a run would do, and how the declaration differs from what is published.

    New files are opened, and nothing is written.

    Parameters
    ----------
    dataset
        Path of a declaration, a mapping of its fields, or a `Declaration`.
    now
        Function that returns the time. Default: the clock.

    Returns
    -------
    PlanReport
        Drift, growth, files and the shape of the dataset after the run.

    Raises
    ------
    DeclarationError
        If the declaration is invalid.

    Examples
    --------
    >>> print(plan("dataset.toml"))
    """
    declaration = load(dataset)
    moment = (now or (lambda: datetime.now(UTC)))()
    try:
        opened, creates = Opened.open(declaration), False
    except RepositoryNotFoundError:
        opened, creates = Opened.open_in(declaration, Repository.create(in_memory_storage())), True
    published = opened.read_published()
    patterns = list_patterns(declaration, published, moment)
    work = subtract(opened.discover(patterns, published), published.ledger, declaration.group)
    due = find_due(declaration, moment)
    drift = tuple(text for _, text in find_drift(declaration, published))
    report, problem = None, None
    if work.files and not drift:
        try:
            report = opened.ingest(work.files, published, declaration.branch, "", dry_run=True)
        except InvalidInputError as error:
            problem = error.message
    return PlanReport(
        creates=creates,
        drift=drift,
        growth=tuple(_find_growth(declaration, published)),
        patterns=len(patterns),
        new=len(work.new),
        changed=len(work.changed),
        known=len(work.known),
        bad={} if report is None else {e.location: shorten(e.reason) for e in report.bad},
        dimensions=() if report is None else tuple(
            f"{each.name}: {each.steps} from {each.first} to {each.last}"
            for each in report.dimensions
        ),
        variables=() if report is None else tuple(
            f"{each.name}: {' × '.join(map(str, each.shape)) or 'scalar'}, {each.treatment}"
            for each in report.variables
        ),
        dropped=count_dropped(declaration, published),
        due=None if due is None else show_moment(due),
        problem=problem,
    )  # fmt: skip


def _find_growth(declaration: Declaration, published: Version) -> Iterator[str]:
    if published.is_empty:
        return
    for name, each in declaration.variables.items():
        about = published.arrays.get(name)
        if about is None:
            yield f"variable {name} is new: it is filled by files that are not ingested yet"
            continue
        for key, value in each.attributes.items():
            if about["attributes"].get(key) != value:
                yield f"attribute {key} of {name} becomes {value!r}"
    for key, value in declaration.attributes.items():
        if published.attributes.get(key) != value:
            yield f"attribute {key} becomes {value!r}"
    for dim, declared in declaration.dimensions.items():
        values, axis = declared.list_values(), published.axes.get(dim)
        if values is not None and axis is not None:
            more = [each for each in values if each not in set(axis.values.tolist())]
            if more:
                yield f"{dim} grows by {len(more)} values, the first is {more[0]}"


_SHOWN_GAPS = 10


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class StatusReport(Listed):
    """State of a published dataset.

    Attributes
    ----------
    state
        `ok`, `late` (a step is due and not complete), `stale` (older than `guards.freshness`), `drift`
        (published is other than declared), or `empty`.
    snapshot_id, published_at, message
        Newest version.
    newest, newest_complete
        Newest step with data, and newest complete one.
    due
        Newest step whose files are due.
    age_hours
        Age of the newest complete step.
    steps, complete, partial, missing
        Number of steps, by state.
    gaps
        Steps that are missing or partial, the newest ones.
    files
        Number of ingested files.
    drift
        How the published structure differs from the declaration.
    backfills
        Branches of backfills that are not published.
    """

    state: Literal["ok", "late", "stale", "drift", "empty"]
    repository: str
    branch: str
    snapshot_id: str
    published_at: datetime
    message: str
    newest: str | None = None
    newest_complete: str | None = None
    due: str | None = None
    age_hours: float | None = None
    steps: int = 0
    complete: int = 0
    partial: int = 0
    missing: int = 0
    gaps: tuple[str, ...] = ()
    files: int = 0
    drift: tuple[str, ...] = ()
    backfills: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 14 for a stale or empty dataset, 13 for drift."""
        return {"stale": 14, "empty": 14, "drift": 13}.get(self.state, 0)

    def shown_items(self) -> Iterator[Item]:
        """Yield the items with a value."""
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value in (None, ()) or (name == "age_hours" and value is None):
                continue
            shown = ", ".join(value) if isinstance(value, tuple) else value
            yield Item(name.replace("_", " "), shown)


def status(
    dataset: str | Path | Mapping[str, Any] | Declaration,
    *,
    now: Callable[[], datetime] | None = None,
) -> StatusReport:
    """Return the state of a published dataset; no data is read.

    Parameters
    ----------
    dataset
        Path of a declaration, a mapping of its fields, or a `Declaration`.
    now
        Function that returns the time. Default: the clock.

    Returns
    -------
    StatusReport
        Newest version, steps, gaps and age.

    Raises
    ------
    RepositoryNotFoundError
        If nothing was ever published.

    Examples
    --------
    >>> status("dataset.toml").state
    'ok'
    """
    declaration = load(dataset)
    moment = (now or (lambda: datetime.now(UTC)))()
    opened = Opened.open(declaration)
    version = opened.read_published()
    tip = next(iter(opened.repository.ancestry(branch=declaration.branch)))
    newest, complete = find_newest(version, declaration)
    parts = count_covered(version, declaration)
    due = find_due(declaration, moment)
    drift = tuple(text for _, text in find_drift(declaration, version))
    backfills = [each for each in opened.repository.list_branches() if each.startswith(BACKFILL)]
    axis = None if declaration.growing is None else version.axes.get(declaration.growing)
    gaps = [] if axis is None else [axis.show(at) for at in np.flatnonzero(parts < 1).tolist()]
    age = None
    if complete is not None and axis is not None and axis.moments is not None:
        age = (moment - datetime.fromisoformat(complete)).total_seconds() / 3600
    freshness = declaration.guards.freshness
    state: Any = "ok"
    if version.is_empty or (axis is not None and not np.any(parts > 0)):
        state = "empty"
    elif drift:
        state = "drift"
    elif freshness is not None and (
        complete is None or freshness.after(datetime.fromisoformat(complete)) < moment
    ):
        state = "stale"
    elif due is not None and (complete is None or datetime.fromisoformat(complete) < due):
        state = "late"
    return StatusReport(
        state=state,
        repository=declaration.repository,
        branch=declaration.branch,
        snapshot_id=tip.id,
        published_at=tip.written_at,
        message=tip.message,
        newest=newest,
        newest_complete=complete,
        due=None if due is None else show_moment(due),
        age_hours=None if age is None else round(age, 2),
        steps=len(parts),
        complete=int(np.sum(parts >= 1)),
        partial=int(np.sum((parts > 0) & (parts < 1))),
        missing=int(np.sum(parts <= 0)),
        gaps=tuple(gaps[-_SHOWN_GAPS:]),
        files=version.ledger.count,
        drift=drift,
        backfills=tuple(sorted(backfills)),
    )


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class ValidationReport(Listed):
    """Findings in a published dataset.

    Attributes
    ----------
    snapshot_id
        Version that was validated.
    findings
        What is wrong.
    steps
        Steps of the sample whose data was read.
    complete
        Fraction of the steps that are complete, by the ledger and by manifests.
    replica
        Number of steps that were compared with the replica.
    """

    snapshot_id: str
    findings: tuple[Finding, ...] = ()
    steps: tuple[str, ...] = ()
    complete: float = 0.0
    replica: int = 0

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 13 if something is wrong."""
        return 13 if self.findings else 0

    def shown_items(self) -> Iterator[Item]:
        """Yield the items."""
        yield Item("snapshot id", self.snapshot_id)
        yield Item("steps read", ", ".join(self.steps) or "none")
        yield Item("complete", f"{self.complete:.1%}")
        if self.replica:
            yield Item("compared with the replica", f"{self.replica} steps")
        rows = tuple((e.check, e.variable or "", e.message) for e in self.findings)
        if rows:
            yield Item("findings", Table(("check", "variable", "finding"), rows))


def validate(
    dataset: str | Path | Mapping[str, Any] | Declaration,
    *,
    steps: int | None = None,
    replica: str | None = None,
    seed: int | None = None,
    now: Callable[[], datetime] | None = None,
) -> ValidationReport:
    """Run checks on what is already published.

    Structure, axes and completeness are checked without reading data: the ledger says what was
    ingested, and manifests which chunks are there. Values are checked in whole steps: the newest
    complete one and a random sample. Where a variable has a mask, missing values count inside of it
    only; without one, cells that are missing in every step of the sample do not count.

    Parameters
    ----------
    dataset
        Path of a declaration, a mapping of its fields, or a `Declaration`.
    steps
        Number of steps to read. Default: as declared.
    replica
        URL of a repository that must be equal. Default: as declared.
    seed
        Seed of the sample. Default: the day, so that runs of a day read the same steps.
    now
        Function that returns the time. Default: the clock.

    Returns
    -------
    ValidationReport
        All findings.

    Raises
    ------
    RepositoryNotFoundError
        If nothing was ever published.

    Examples
    --------
    >>> validate("dataset.toml", steps=20).findings
    ()
    """
    declaration = load(dataset)
    moment = (now or (lambda: datetime.now(UTC)))()
    opened = Opened.open(declaration)
    repository = opened.readable()
    session = repository.readonly_session(declaration.branch)
    version = read_version(session, declaration)
    found = [Finding(text, "drift", name) for name, text in find_drift(declaration, version)]
    if version.is_empty:
        found.append(Finding("nothing is published", "completeness"))
        return ValidationReport(snapshot_id=version.snapshot_id, findings=tuple(found))
    found += _check_axes(declaration, version)
    parts = count_covered(version, declaration)
    chunks = list(_find_absent(session, declaration, version, parts))
    found += chunks
    drawn = _draw(parts, steps or declaration.validation.steps, seed or moment.toordinal())
    with without_codec_warnings():
        data = _open(session, declaration)
        found += _check_values(declaration, version, data, drawn)
        other = replica or declaration.validation.replica
        compared = 0
        if other is not None:
            place = open_repository(declaration.resolve(other)).authorize("*")
            found += _compare(declaration, version, data, place, drawn)
            compared = len(drawn)
    axis = version.axes.get(str(declaration.growing))
    return ValidationReport(
        snapshot_id=version.snapshot_id,
        findings=tuple(found),
        steps=() if axis is None else tuple(map(axis.show, drawn)),
        complete=float(np.mean(parts >= 1)) if len(parts) else 1.0,
        replica=compared,
    )


def _open(session: Session, declaration: Declaration) -> xr.Dataset:
    store: Any = session.store
    found: xr.Dataset = xr.open_zarr(
        store, group=declaration.group or None, consolidated=False, chunks=None
    )
    return found


def _check_axes(declaration: Declaration, version: Version) -> Iterator[Finding]:
    """Yield duplicates, values out of order and gaps of the axes."""
    for dim, axis in version.axes.items():
        for at, first in find_duplicates(axis.values):
            yield Finding(f"{axis.show(at)} is at {first}, too", "duplicates", dim)
        if axis.values.dtype.kind not in "iuf" or declaration.dimensions[dim].values is not None:
            continue
        for at in find_turns(axis.values):
            yield Finding(f"{axis.show(at)} is out of order", "order", dim)
        steps = declaration.dimensions[dim].steps
        if steps is not None and not steps.step.months:
            for at in find_gaps(axis.values):
                yield Finding(f"a gap before {axis.show(at)}", "gap", dim)


def _find_absent(
    session: Session, declaration: Declaration, version: Version, parts: NDArray[np.float64]
) -> Iterator[Finding]:
    """Yield complete steps of which a variable has no chunk at all; manifests tell."""
    growing = str(declaration.growing)
    for name in find_required(version, declaration):
        about = version.arrays.get(name)
        if about is None or growing not in about["dims"]:
            continue
        axis = about["dims"].index(growing)
        view = session.state.view
        node = view.get_node("/" + join(declaration.group, name))
        there: set[int] = set()
        for coordinates in view.coordinates(node):
            there.update(np.unique(coordinates[:, axis]).tolist())
        length = about["chunks"][axis]
        absent = [at for at in np.flatnonzero(parts >= 1).tolist() if at // length not in there]
        if absent:
            first = version.axes[growing].show(absent[0])
            text = f"{len(absent)} complete steps have no chunk, the first is {first}"
            yield Finding(text, "completeness", name)


def _draw(parts: NDArray[np.float64], count: int, seed: int) -> list[int]:
    """Return the newest complete step, and a random sample of the others."""
    whole = np.flatnonzero(parts >= 1)
    if not len(whole):
        return []
    others = np.random.default_rng(seed).permutation(whole[:-1])[: count - 1]
    return sorted({int(whole[-1]), *map(int, others)})


def _check_values(
    declaration: Declaration, version: Version, data: xr.Dataset, drawn: Sequence[int]
) -> list[Finding]:
    growing = declaration.growing
    if growing is None:
        parts = [(0, data)]
    else:
        parts = [(at, data.isel({growing: slice(at, at + 1)})) for at in drawn]
    absent = {
        name: _find_never(declaration, name, data, [part for _, part in parts])
        for name in declaration.variables
        if name in data.variables
    }
    found = []
    for at, part in parts:
        where = "" if growing is None else f"step {version.axes[growing].show(at)}: "
        region = FileRegion("", growing, at, at + 1)
        for check in list_checks(declaration):
            if not is_partial(check) or check.name == "samples_equal_source":
                continue
            selected: xr.Dataset | None = part
            if isinstance(check, CheckAt):
                selected, check = check.select(part), check.check
            if selected is None:
                continue
            own = _leave_out_masked(check, selected, absent)
            for each in check.check_region(NewRegion(own, region, _no_source)):
                found.append(replace(each, message=where + each.message, files=()))
    return found


def _no_source() -> xr.Dataset:
    raise InvalidInputError("validate reads no source files")


def _find_never(
    declaration: Declaration, name: str, data: xr.Dataset, parts: Sequence[xr.Dataset]
) -> xr.DataArray | None:
    """Return the cells where a variable never has values: outside of its mask, or of the sample."""
    mask = declaration.variables[name].mask
    if mask is not None:
        if mask not in data.variables:
            raise InvalidInputError(f"there is no variable {mask!r}, the mask of {name}")
        outside: xr.DataArray = (data[mask] == 0) | data[mask].isnull()
        return outside
    growing = declaration.growing
    if growing is None or len(parts) < 2 or growing not in data[name].dims:
        return None
    never = None
    for each in parts:
        missing = each[name].isel({growing: 0}, drop=True)
        missing = missing.copy(data=find_missing(np.asarray(missing.values)))
        never = missing if never is None else never & missing
    return never


def _leave_out_masked(
    check: Any, part: xr.Dataset, absent: Mapping[str, xr.DataArray | None]
) -> xr.Dataset:
    """Return the data with the cells that never have values left out, for checks of missing ones."""
    if check.name != "fill_share":
        return part
    inner = getattr(check, "check", check)
    names = [name for name, _ in select_arrays(part, None, "f")]
    wanted = [each for each in inner.variables or names if each in part.variables]
    kept = {}
    for name in wanted:
        never = absent.get(name)
        array = part[name]
        if never is not None and bool(never.any()):
            inside = (~never.reindex_like(array)).broadcast_like(array).values
            values = np.asarray(array.values)[np.asarray(inside, bool)]
            array = xr.DataArray(values, dims=("cell",))
        kept[name] = array
    if not any("cell" in each.dims for each in kept.values()):
        return part
    return xr.Dataset({name: each.rename(cell=f"cell_{name}") if "cell" in each.dims else each
                       for name, each in kept.items()})  # fmt: skip


def _compare(
    declaration: Declaration,
    version: Version,
    data: xr.Dataset,
    replica: Repository,
    drawn: Sequence[int],
) -> Iterator[Finding]:
    """Yield how a replica differs: in its version, its structure, or the values of the sample."""
    session = replica.readonly_session(declaration.branch)
    if session.snapshot_id == version.snapshot_id:
        return
    other = read_version(session, declaration)
    for dim, axis in version.axes.items():
        there = other.axes.get(dim)
        if there is None or not np.array_equal(there.values, axis.values):
            have = "none" if there is None else f"{len(there.values)}"
            text = f"the replica has {have} values, published are {len(axis.values)}"
            yield Finding(text, "replica", dim)
    for name, about in version.arrays.items():
        same = other.arrays.get(name)
        if same is None or any(same[key] != about[key] for key in ("dims", "dtype", "units")):
            yield Finding("it is another array in the replica", "replica", name)
    theirs, growing = _open(session, declaration), declaration.growing
    if growing is None or growing not in other.axes:
        return
    known = other.axes[growing].values.tolist()
    for at in drawn:
        value = version.axes[growing].values[at].item()
        if value not in known:
            continue
        for name in find_required(version, declaration):
            if name not in theirs.variables or growing not in data[name].dims:
                continue
            mine = np.asarray(data[name].isel({growing: at}).values)
            here = np.asarray(theirs[name].isel({growing: known.index(value)}).values)
            count = count_different(mine, here) if mine.shape == here.shape else mine.size
            if count:
                step = version.axes[growing].show(at)
                yield Finding(f"step {step}: {count} values differ", "replica", name)
