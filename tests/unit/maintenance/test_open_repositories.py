"""Before V2, what others expire and collect is seen by a repository that was open before."""

from collections.abc import Callable

import pytest

from frazil import Repository, SnapshotNotFoundError, upgrade_icechunk_repository
from frazil.format.header import Dialect
from frazil.repository import context as opening
from frazil.storage.memory import MemoryStorage
from tests.unit.maintenance.repositories import (
    ALL_NATIVE,
    later,
    messages,
    write,
    write_chunk,
    written_at,
)

FIRST = "Repository initialized"
GENERATIONS = [Dialect.V1, Dialect.ALPHA_H, Dialect.ALPHA_G, Dialect.DRAFT]


@pytest.fixture(params=GENERATIONS, ids=lambda dialect: dialect.value)
def repository(request: pytest.FixtureRequest) -> Repository:
    storage = MemoryStorage()
    opening.create(storage, request.param)
    return Repository.open(storage, ALL_NATIVE)


@pytest.fixture
def other(repository: Repository) -> Repository:
    """The same repository, opened by somebody else."""
    return Repository.open(repository.storage, ALL_NATIVE)


def fill(repository: Repository) -> list[str]:
    """Four commits, all of which the repository has looked at."""
    ids = [write(repository, 1), *(write_chunk(repository, at, at + 2) for at in range(3))]
    assert len(messages(repository, branch="main")) == 5
    return ids


def test_its_ancestry_is_what_is_left(repository: Repository, other: Repository) -> None:
    ids = fill(repository)

    other.expire_snapshots(written_at(other, ids[2]))

    assert messages(repository, branch="main") == ["chunk 2 is 4", "chunk 1 is 3", FIRST]
    first = [*repository.ancestry(branch="main")][-1].id
    assert repository.lookup_snapshot(ids[2]).parent_id == first


def test_the_picture_of_its_history_is_what_is_left(
    repository: Repository, other: Repository
) -> None:
    ids = fill(repository)

    other.expire_snapshots(written_at(other, ids[2]))

    assert "numbers are 1" not in str(repository.ancestry_graph(plain=True))


def test_what_a_session_commits_that_began_before_reports_what_is_left(
    repository: Repository, other: Repository
) -> None:
    ids = fill(repository)
    session = repository.writable_session("main")

    other.expire_snapshots(written_at(other, ids[2]))
    other.garbage_collect(later())
    session.commit("late", allow_empty=True)

    assert messages(other, branch="main") == ["late", "chunk 2 is 4", "chunk 1 is 3", FIRST]


def test_a_second_expiry_goes_on_from_the_first(repository: Repository, other: Repository) -> None:
    ids = fill(repository)
    other.expire_snapshots(written_at(other, ids[2]))

    released = repository.expire_snapshots(written_at(repository, ids[3]))

    assert released == {ids[2]}
    assert messages(other, branch="main") == ["chunk 2 is 4", FIRST]


@pytest.mark.parametrize(
    "point",
    [
        lambda repository, id: repository.create_branch("late", id),
        lambda repository, id: repository.create_tag("late", id),
        lambda repository, id: repository.reset_branch("main", id),
        lambda repository, id: repository.readonly_session(snapshot_id=id),
    ],
    ids=["create_branch", "create_tag", "reset_branch", "readonly_session"],
)
def test_what_was_collected_is_refused(
    repository: Repository, other: Repository, point: Callable[[Repository, str], object]
) -> None:
    ids = fill(repository)
    other.reset_branch("main", ids[1])
    other.garbage_collect(later())

    with pytest.raises(SnapshotNotFoundError):
        point(repository, ids[3])

    assert (other.list_branches(), other.list_tags()) == ({"main"}, set())
    assert other.lookup_branch("main") == ids[1]


def test_nothing_is_flushed_on_what_was_collected(
    repository: Repository, other: Repository
) -> None:
    ids = fill(repository)
    session = repository.writable_session("main")
    other.reset_branch("main", ids[1])
    other.garbage_collect(later())

    with pytest.raises(SnapshotNotFoundError):
        session.flush("late")


def test_an_upgrade_takes_over_what_is_left() -> None:
    storage = MemoryStorage()
    repository = Repository.create(storage, ALL_NATIVE, spec_version=1)
    other = Repository.open(storage, ALL_NATIVE)
    ids = fill(repository)
    other.expire_snapshots(written_at(other, ids[2]))
    other.garbage_collect(later())

    upgraded = upgrade_icechunk_repository(repository, dry_run=False)

    assert messages(upgraded, branch="main") == ["chunk 2 is 4", "chunk 1 is 3", FIRST]
