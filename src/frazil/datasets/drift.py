"""Plan a run: what it would do, and how the declaration differs from what is published."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from frazil.datasets.cycle import count_dropped, shorten
from frazil.datasets.dataset_file import load
from frazil.datasets.declaration import Declaration
from frazil.datasets.guards import Version, find_drift, find_due, show_moment
from frazil.datasets.opened_dataset import Opened, list_patterns
from frazil.display import Item, Listed
from frazil.errors import InvalidInputError, RepositoryNotFoundError
from frazil.repository.repository import Repository
from frazil.spark.ingestion.ledger import subtract
from frazil.storage.constructors import in_memory_storage


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
    work = subtract(opened.discover(patterns), published.ledger, declaration.group)
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
