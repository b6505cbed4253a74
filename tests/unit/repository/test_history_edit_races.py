"""What becomes of edits of the history when somebody commits meanwhile: nothing is lost."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import zarr

from frazil import ConflictError, RebaseFailedError, Repository, RetentionPolicy, create_legacy
from frazil.format.header import Dialect
from frazil.storage.interface import NO_OPTIONS, Buffer, PutOptions, Version
from frazil.storage.memory import MemoryStorage
from tests.repositories import create, keys_of

GENERATIONS = [Dialect.ALPHA_C, Dialect.ALPHA_H, Dialect.V1, Dialect.V2]


class BusyStorage(MemoryStorage):
    """A storage where something else happens right before a ref moves, each thing once."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[Callable[[], object]] = []

    def replace(
        self, key: str, data: Buffer, version: Version, options: PutOptions = NO_OPTIONS
    ) -> Version:
        self._interrupt(key)
        return super().replace(key, data, version, options)

    def create(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> Version:
        self._interrupt(key)
        return super().create(key, data, options)

    def _interrupt(self, key: str) -> None:
        if self.before and (key == "repo" or key.startswith("refs/")):
            (act, *later), self.before = self.before, []
            act()
            self.before = later


@pytest.fixture(params=GENERATIONS, ids=lambda dialect: dialect.value)
def repository(request: pytest.FixtureRequest) -> Repository:
    """Two commits on `main`, and one of `side` after the first."""
    created = make(request.param)
    created.create_branch("side", commit_group(created, "main", "first"))
    commit_group(created, "main", "second")
    commit_group(created, "side", "third")
    return created


def make(dialect: Dialect) -> Repository:
    if dialect in (Dialect.V1, Dialect.V2):
        return create(BusyStorage(), spec_version=1 if dialect is Dialect.V1 else 2)
    return create_legacy(BusyStorage(), dialect.value)


def commit_group(repository: Repository, branch: str, path: str) -> str:
    session = repository.writable_session(branch)
    zarr.create_group(session.store, path=path)
    return session.commit(f"made {path}")


def meanwhile(repository: Repository, branch: str, *paths: str) -> None:
    """Let somebody else make groups, one right before each of our next attempts to move a ref."""
    other = Repository.open(repository.storage)
    storage = repository.storage
    assert isinstance(storage, BusyStorage)
    storage.before = [lambda path=path: commit_group(other, branch, path) for path in paths]  # type: ignore[misc]


def groups(repository: Repository, branch: str = "main") -> set[str]:
    keys = keys_of(repository.readonly_session(branch))
    return {key.removesuffix("/zarr.json") for key in keys} - {"zarr.json"}


def messages(repository: Repository, branch: str = "main") -> list[str]:
    return [info.message for info in repository.ancestry(branch=branch)]


def test_a_squash_that_would_lose_a_commit_is_refused(repository: Repository) -> None:
    *_, first = repository.ancestry(branch="main")
    meanwhile(repository, "main", "theirs")

    with pytest.raises(ConflictError):
        repository.squash("main", first.id)

    assert messages(repository)[:3] == ["made theirs", "made second", "made first"]
    repository.squash("main", first.id, message="all")
    assert messages(repository) == ["all", "Repository initialized"]
    assert groups(repository) == {"first", "second", "theirs"}


def test_a_cherry_pick_lands_on_top_of_the_first(repository: Repository) -> None:
    meanwhile(repository, "main", "theirs", "more-of-theirs")

    repository.cherry_pick(repository.lookup_branch("side"), onto="main")

    assert messages(repository)[:3] == ["made third", "made more-of-theirs", "made theirs"]
    assert groups(repository) == {"first", "second", "third", "theirs", "more-of-theirs"}


def test_a_cherry_pick_is_refused_if_what_came_first_contradicts_it(
    repository: Repository,
) -> None:
    meanwhile(repository, "main", "third")

    with pytest.raises(RebaseFailedError):
        repository.cherry_pick(repository.lookup_branch("side"), onto="main")

    assert messages(repository)[0] == "made third"
    assert len(messages(repository)) == 4


def test_a_fast_forward_that_would_lose_a_commit_is_refused(repository: Repository) -> None:
    repository.create_branch("ahead", repository.lookup_branch("main"))
    commit_group(repository, "ahead", "fourth")
    meanwhile(repository, "main", "theirs")

    with pytest.raises(ConflictError):
        repository.fast_forward("main", "ahead")

    assert messages(repository)[0] == "made theirs"
    with pytest.raises(ConflictError, match="no ancestor"):
        repository.fast_forward("main", "ahead")


def test_a_fast_forward_moves_to_the_tip_that_it_saw(repository: Repository) -> None:
    repository.create_branch("ahead", repository.lookup_branch("main"))
    commit_group(repository, "ahead", "fourth")
    meanwhile(repository, "ahead", "fifth")

    repository.fast_forward("main", "ahead")

    assert messages(repository)[0] == "made fourth"
    repository.fast_forward("main", "ahead")
    assert messages(repository)[0] == "made fifth"


def test_policies_are_asked_about_the_history_that_is_replaced() -> None:
    repository = make(Dialect.V2)
    for path in ("a", "b"):
        commit_group(repository, "main", path)
    repository.set_retention({"main": RetentionPolicy(keep_last=1)})
    meanwhile(repository, "main", "theirs")

    released = repository.expire().released_snapshots

    assert len(released) == 2
    assert messages(repository) == ["made theirs", "Repository initialized"]


@pytest.mark.parametrize("spec_version", [1, 2])
def test_many_threads_pick_onto_one_branch_and_every_pick_is_there(spec_version: int) -> None:
    repository = create(spec_version=spec_version)
    base = commit_group(repository, "main", "base")
    names = [f"n{number}" for number in range(6)]
    for name in names:
        repository.create_branch(name, base)
        commit_group(repository, name, name)

    def pick(name: str) -> str:
        mine = Repository.open(repository.storage)
        return mine.cherry_pick(mine.lookup_branch(name), onto="main")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(pick, names))

    assert groups(repository) == {"base", *names}
    assert len(messages(repository)) == 2 + len(names)
