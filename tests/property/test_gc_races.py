"""Whatever somebody else does between any two requests of a collector, nothing of it gets lost.

Before V2 a ref to what is already garbage is not among it: refs are files of their own there, and no
collector can see one that comes after it has looked.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count

import pytest

from frazil import Repository, SnapshotNotFoundError
from frazil.format.header import Dialect
from tests.gc_programs import CONFIG, World
from tests.timed_storage import CountedStorage, at

DEEP = "FRAZIL_DEEP" in os.environ
CUTOFF = at(10)

Act = Callable[[World, str], object]


def commit(world: World, _: str) -> None:
    world.commit("main", {("/a", 0): "n"})


def commit_to_a_new_branch(world: World, _: str) -> None:
    repository = world.repository
    repository.create_branch("new", repository.lookup_tag("second"))
    world.commit("new", {("/b", 1): "n"})


def flush_and_point_to_it(world: World, _: str) -> None:
    world.repository.create_tag("flushed", world.flush("main", {("/a", 1): "n"}))


def expire(world: World, _: str) -> None:
    world.repository.expire_snapshots(at(1000))


def amend(world: World, _: str) -> None:
    world.amend("main", {("/a", 2): "n"})


def take_up(world: World, garbage: str) -> None:
    world.repository.create_branch("rescue", garbage)


def build_on(world: World, garbage: str) -> None:
    world.repository.create_branch("rescue", garbage)
    world.commit("rescue", {("/a", 2): "n"})


def build_on_and_expire(world: World, garbage: str) -> None:
    build_on(world, garbage)
    world.repository.expire_snapshots(at(15))


def replace_it(world: World, garbage: str) -> None:
    world.repository.create_branch("rescue", garbage)
    world.amend("rescue", {("/a", 2): "n"})


def pick(world: World, garbage: str) -> None:
    repository = world.repository
    before = world.values[repository.lookup_branch("main")]
    world.values[repository.cherry_pick(garbage, onto="main")] = {**before, "/b": "gg0"}


ALWAYS = [commit, commit_to_a_new_branch, flush_and_point_to_it, expire]
WITH_REPO_INFO = [*ALWAYS, amend, take_up, build_on, build_on_and_expire, replace_it, pick]
CASES: list[tuple[Dialect, Act]] = [(dialect, pick) for dialect in (Dialect.V1, Dialect.ALPHA_H)]
CASES += [(Dialect.V2, act) for act in WITH_REPO_INFO] + [
    (dialect, act)
    for dialect in (Dialect.V1, Dialect.ALPHA_H, Dialect.DRAFT)
    for act in ALWAYS
    if DEEP or dialect is Dialect.V1 or act is commit
]


def grow(dialect: Dialect) -> tuple[World, str]:
    """A branch, a tag, a commit that nothing leads to, and a running session's chunk; all old."""
    world = World.create(dialect)
    with world.clocks.are_running():
        world.clocks.seconds += 1
        id = world.commit("main", {("/a", 0): "1"})
        world.repository.create_tag("second", id)
        garbage = world.commit("main", {("/b", 0): "g", ("/b", 1): "g"})
        world.repository.reset_branch("main", id)
        world.commit("main", {("/a", 2): "3"})
        world.begin("main", {("/a", 1): "9"})
    world.clocks.seconds = 20
    return world, garbage


def collect_while(world: World, number: int, act: Callable[[], object]) -> bool:
    """Collect garbage while somebody acts before a request; whether there are so many."""
    storage = CountedStorage(world.storage, number, act)
    Repository.open(storage, CONFIG).garbage_collect(CUTOFF)
    return storage.has_happened


@pytest.mark.parametrize(
    ("dialect", "act"), CASES, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_nothing_is_lost_whatever_happens_between_two_requests(dialect: Dialect, act: Act) -> None:
    grown, garbage = grow(dialect)

    # Before V2 a walk reads each snapshot several times: not each request is another moment.
    for number in count(step=1 if DEEP or dialect is Dialect.V2 else 3):
        world = grown.copied()
        with world.clocks.are_running():
            has_happened = collect_while(world, number, partial(try_to, act, world, garbage))
            world.check()
        if not has_happened:
            break

    assert number > 10


def try_to(act: Act, world: World, garbage: str) -> None:
    """Do something, unless what it is about is gone already, which must be said at once."""
    with suppress(SnapshotNotFoundError):
        act(world, garbage)
