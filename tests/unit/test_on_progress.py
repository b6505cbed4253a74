"""Long work reports its progress to `on_progress`, and to nobody else."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import zarr

from frazil import Repository, RepositoryConfig, in_memory_storage
from frazil.progress import count, on_progress, track

LATER = datetime(2100, 1, 1, tzinfo=UTC)


class Notes:
    """The last report of each step."""

    def __init__(self) -> None:
        self.steps: dict[str, tuple[int, int | None, str]] = {}

    def show(self, what: str, done: int, total: int | None, unit: str) -> None:
        """Take note."""
        self.steps[what] = (done, total, unit)


@pytest.fixture(scope="module")
def repo() -> Repository:
    """Two commits of an array of three chunks, and an abandoned session."""
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = Repository.create(in_memory_storage(), config)
    for number in range(2):
        session = repo.writable_session("main")
        group = zarr.open_group(session.store, mode="w")
        values = group.create_array("x", shape=(300,), chunks=(100,), dtype="i8", filters=None)
        values[:] = range(number, 300 + number)
        session.commit("values")
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="x")[:] = range(5, 305)
    return repo


def test_steps_are_reported_to_on_progress() -> None:
    notes = Notes()

    with on_progress(notes):
        assert list(track("abc", "reading", "letters", total=3)) == ["a", "b", "c"]
        count("listing", "files").add(7)

    assert notes.steps == {"reading": (3, 3, "letters"), "listing": (7, None, "files")}


def test_without_anybody_nothing_is_reported() -> None:
    notes = Notes()
    with on_progress(notes), on_progress(None):
        assert list(track("abc", "reading", "letters")) == ["a", "b", "c"]
    count("listing", "files").add(7)

    assert notes.steps == {}


@pytest.mark.parametrize(
    ("work", "reported"),
    [
        (
            lambda repo: repo.check(deep=True),
            {
                "reading snapshots": (3, 3, "files"),
                "reading manifests": (2, 2, "manifests"),
                "reading logs": (3, 3, "files"),
            },
        ),
        (
            lambda repo: repo.chunk_storage_stats(),
            {"reading snapshots": (3, 3, "snapshots"), "reading manifests": (2, 2, "manifests")},
        ),
        (
            lambda repo: repo.garbage_collect(LATER, dry_run=True),
            {
                "reading snapshots": (3, 3, "snapshots"),
                "reading manifests": (2, 2, "manifests"),
                "looking through chunks": (9, None, "files"),
            },
        ),
    ],
    ids=["check", "stats", "garbage"],
)
def test_upkeep_reports_how_far_it_is(
    repo: Repository,
    work: Callable[[Repository], object],
    reported: dict[str, tuple[int, int | None, str]],
) -> None:
    notes = Notes()

    with on_progress(notes):
        work(repo)

    assert notes.steps.items() >= reported.items()
