"""A month of an operational forecast: killed runs, a backfill beside it, every version valid."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from frazil.datasets import Declaration, backfill, load, run, status
from frazil.datasets.guards import count_covered, find_drift, read_version
from frazil.datasets.opened_dataset import Opened
from frazil.spark.arrays.derivation import STATE
from frazil.storage.constructors import storage_from_url
from frazil.storage.interface import Storage
from frazil.storage.wrappers import ForwardingStorage, Injection, Request
from tests.datasets.forecasts import DECLARATION, LEADS, MEMBERS, START, Centre, find_wrong, save
from tests.documentation.running import cloud

IS_DEEP = bool(os.environ.get("FRAZIL_DEEP"))
DAYS = 30 if IS_DEEP else 13


class KilledError(BaseException):
    """The process is dead: nothing catches this."""


class Mortal(ForwardingStorage):
    """Storage of a process that dies at one of its writes, and does nothing after that."""

    def __init__(self, inner: Storage, life: "Life") -> None:
        super().__init__(inner)
        self.life = life

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the storage itself to tasks of Spark, which outlive the driver."""
        return _same, (self._inner,)

    def _begin(self, request: Request) -> Injection:
        self.life.requests += 1
        if request.verb.is_write:
            self.life.writes -= 1
        if self.life.writes < 0:
            raise KilledError
        return super()._begin(request)


def _same(storage: Storage) -> Storage:
    return storage


@dataclass
class Life:
    """Writes that a process has left, and its requests so far."""

    writes: int = 1_000_000
    requests: int = 0

    def run(
        self, declaration: Declaration, clock: Callable[[], datetime], spark: Any = None
    ) -> Any:
        """Run a cycle; return its report, or None if the process died."""

        def open_mortal(*args: Any, **options: Any) -> Storage:
            return Mortal(storage_from_url(*args, **options), self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("frazil.datasets.opened_dataset.storage_from_url", open_mortal)
            try:
                return run(declaration, now=clock, spark=spark)
            except KilledError:
                return None


class Reader:
    """Looks at every published version, and remembers what was there."""

    def __init__(self, declaration: Declaration, centre: Centre | None = None) -> None:
        self.declaration, self.centre = declaration, centre
        self.seen: set[str] = set()
        self.complete: set[Any] = set()

    def look(self) -> None:
        """Assert that each version since the last look is valid, oldest first."""
        opened = Opened.open(self.declaration)
        for info in reversed(list(opened.repository.ancestry(branch="main"))):
            if info.id in self.seen:
                continue
            self.seen.add(info.id)
            session = opened.repository.readonly_session(snapshot_id=info.id)
            version = read_version(session, self.declaration)
            if version.is_empty:
                continue
            parts = count_covered(version, self.declaration)
            assert set(parts.tolist()) <= {0.0, 1.0}, "no step is published in part"
            whole = set(version.axes["init_time"].values[parts == 1].tolist())
            assert self.complete <= whole, "no step is missing once it was published"
            assert not list(find_drift(self.declaration, version))
            self.complete = whole
            if self.centre is not None:
                self._compare(opened.readable(), info.id, self.centre)

    def _compare(self, repository: Any, snapshot_id: str, centre: Centre) -> None:
        """Assert that a version has no values but those of files that were sent until now."""
        data = self.read(snapshot_id=snapshot_id)
        pieces = {each: n for each, n in centre.versions.items() if each[0] in self.complete}
        assert len(pieces) == len(self.complete) * len(LEADS) * len(MEMBERS)
        for former in range(max(pieces.values(), default=0) + 1):
            wrong = find_wrong(data, {each: max(n - former, 0) for each, n in pieces.items()})
            pieces = {each: pieces[each] for each in wrong}
        assert not pieces
        state = repository.lookup_snapshot(snapshot_id).metadata.get(STATE)
        if state is not None:
            source = self.read(snapshot_id=state["source_snapshot"])
            xr.testing.assert_equal(self.read("series", snapshot_id).t2m, source.t2m)

    def read(self, group: str | None = None, snapshot_id: str | None = None) -> xr.Dataset:
        """Return a published version of the dataset, or of one that is derived from it."""
        repository = Opened.open(self.declaration).readable()
        place: Any = {"branch": "main"} if snapshot_id is None else {"snapshot_id": snapshot_id}
        store: Any = repository.readonly_session(**place).store
        found: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False).load()
        return found


def simulate(folder: Path, repository: str, days: int, mode: str, spark: Any = None) -> None:
    centre = Centre(folder / "in")
    engine = "driver" if spark is None else "spark"
    text = DECLARATION.format(repository=repository, mode=mode, engine=engine, more="")
    (folder / "dataset.toml").write_text(text)
    declaration = load(folder / "dataset.toml")
    reader = Reader(declaration, centre)
    # Days before the first live one are there already: a backfill brings them.
    past = range(4)
    for day in past:
        for piece in [(day, lead, member) for lead in LEADS for member in MEMBERS]:
            centre.versions[piece] = 0
            save(centre.path(piece), *piece)
    first, last = START, START + timedelta(days=len(past) - 1)
    live, died = len(past) + 5, 0
    for day in range(live, days + 5):
        if day < days:
            centre.send(day)
        else:
            for piece in [e for each in list(centre.waiting) for e in centre.waiting.pop(each)]:
                centre.versions[piece] = 0
                save(centre.path(piece), *piece)
            for piece in centre.broken:
                save(centre.path(piece), *piece, centre.versions[piece])
            centre.broken = set()

        def clock(day: int = day) -> datetime:
            return START + timedelta(days=day, hours=4)

        if day == live + 2:
            # The backfill begins, live runs go on, and it is published after them.
            begun = backfill(
                declaration, first, last, publish_it=False, now=clock, files_per_commit=5
            )
            assert begun.snapshot_id is None
            assert begun.files == len(past) * len(LEADS) * len(MEMBERS)
        # In a month, once at each of the writes that a run has.
        died += Life((day * 3) % 23).run(declaration, clock, spark) is None
        reader.look()
        life = Life()
        report = life.run(declaration, clock, spark)
        # Requests don't grow with what is published.
        assert life.requests <= 260 + 10 * len(report.files)
        # Work is in proportion to what is new: one chunk a file.
        assert report.chunks <= len(report.files)
        if day % 5 == 0:
            assert run(declaration, now=clock, spark=spark).snapshot_id is None
        if day == live + 4:
            done = backfill(declaration, first, last, now=clock)
            assert done.snapshot_id is not None
            assert done.files == 0
        reader.look()
    assert died > 0

    assert not find_wrong(reader.read(), centre.versions)
    assert not find_wrong(reader.read("series"), centre.versions)
    found = status(declaration, now=lambda: START + timedelta(days=days - 1, hours=4))
    assert found.missing == live - len(past)
    assert found.state == "ok"
    names = Opened.open(declaration).repository.list_branches()
    assert not [name for name in names if "backfill" in name]


@pytest.mark.parametrize("mode", ["native", "virtual"])
def test_a_month_on_a_disk_ends_as_the_truth(tmp_path: Path, mode: str) -> None:
    days = DAYS if mode == "native" or IS_DEEP else 11
    simulate(tmp_path, str(tmp_path / "repo"), days, mode)


def test_days_on_s3_end_as_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cloud(monkeypatch, "bucket") as replaced:
        url = f"s3://bucket/forecast?{replaced['region=eu-central-1']}"
        simulate(tmp_path, url, 30 if IS_DEEP else 11, "native")
