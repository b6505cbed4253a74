"""The state of a published dataset: freshness and completeness, without reading data."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from frazil.datasets.cycle import find_newest
from frazil.datasets.dataset_file import load
from frazil.datasets.declaration import Declaration
from frazil.datasets.guards import count_covered, find_drift, find_due, show_moment
from frazil.datasets.opened_dataset import Opened
from frazil.datasets.publication import BACKFILL
from frazil.display import Item, Listed

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
