"""Who takes over chunks of garbage while it is collected commits a whole snapshot, or nothing.

Somebody else collects all garbage between any two requests of an edit. Each edit lands with all its
chunks, or is refused by an error that says what is gone, and then its branch is where it was.
"""

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from frazil import (
    BasicConflictSolver,
    IcechunkError,
    Repository,
    SnapshotNotFoundError,
    VersionSelection,
)
from frazil.format.header import Dialect
from tests.gc_programs import CONFIG, Lines, World, read_values
from tests.repositories import dangling_files
from tests.timed_storage import CountedStorage, at

CUTOFF = at(10)
USE_OURS = BasicConflictSolver(on_chunk_conflict=VersionSelection.UseOurs)

Edit = Callable[[Repository, str], object]
"""Of a repository that has some garbage."""
Disturbance = Callable[[Repository], object]


def collect(repository: Repository) -> None:
    repository.garbage_collect(CUTOFF)


def reset_and_collect(repository: Repository) -> None:
    """Make garbage of the tip of `main`, too."""
    repository.reset_branch("main", repository.lookup_tag("second"))
    collect(repository)


def delete_side_and_collect(repository: Repository) -> None:
    repository.delete_branch("side")
    collect(repository)


def pick(repository: Repository, garbage: str) -> None:
    repository.cherry_pick(garbage, onto="main")


def point_to_it(repository: Repository, garbage: str) -> None:
    repository.reset_branch("main", garbage)


def amend(repository: Repository, _: str) -> None:
    session = repository.writable_session("main")
    session.amend("amended", allow_empty=True)


def squash(repository: Repository, _: str) -> None:
    repository.squash("main", repository.lookup_tag("second"))


def fast_forward(repository: Repository, _: str) -> None:
    repository.fast_forward("old", "side")


def flush_and_point_to_it(repository: Repository, _: str) -> None:
    session = repository.writable_session("main")
    flushed = session.flush("flushed")
    repository.reset_branch("old", flushed)


def shift_and_rebase(repository: Repository, _: str) -> None:
    session = repository.writable_session("main")
    session.shift_array("/b", (-1,))
    session.commit("shifted", rebase_with=USE_OURS, rebase_tries=3)


def shift_in_a_fork(repository: Repository, _: str) -> None:
    session = repository.writable_session("main")
    session.shift_array("/a", (-1,))
    fork = session.fork()
    fork.shift_array("/b", (-1,))
    session.merge(fork)
    session.commit("shifted", rebase_with=USE_OURS, rebase_tries=3)


EVERYWHERE: list[tuple[Edit, Disturbance]] = [
    (pick, collect),
    (squash, reset_and_collect),
    (shift_and_rebase, reset_and_collect),
    (shift_in_a_fork, reset_and_collect),
]
WITH_REPO_INFO: list[tuple[Edit, Disturbance]] = [
    (point_to_it, collect),
    (amend, reset_and_collect),
    (fast_forward, delete_side_and_collect),
    (flush_and_point_to_it, reset_and_collect),
]
REFUSALS: dict[Edit, type[IcechunkError]] = {pick: SnapshotNotFoundError}
CASES = [(dialect, *case) for dialect in (Dialect.V1, Dialect.ALPHA_H) for case in EVERYWHERE] + [
    (Dialect.V2, *case) for case in EVERYWHERE + WITH_REPO_INFO
]


def grow(dialect: Dialect) -> tuple[World, str]:
    """Branches, a tag, and a commit that nothing leads to; all old."""
    world = World.create(dialect)
    with world.clocks.are_running():
        world.clocks.seconds += 1
        id = world.commit("main", {("/a", 0): "1"})
        world.repository.create_tag("second", id)
        for name in ("old", "side"):
            world.repository.create_branch(name, id)
        garbage = world.commit("main", {("/b", 0): "g", ("/b", 1): "g"})
        world.repository.reset_branch("main", id)
        world.commit("main", {("/a", 2): "3", ("/b", 2): "4"})
        world.commit("side", {("/a", 1): "5"})
    world.clocks.seconds = 20
    return world, garbage


def disturbed(grown: World, disturb: Disturbance) -> Lines:
    """What branches and tags lead to if there is no edit."""
    world = grown.copied()
    with world.clocks.are_running():
        disturb(world.repository)
        return world.lines()


def check_whole(world: World, lines: Lines) -> None:
    assert dangling_files(world.repository) == set()
    for id in {id for line in lines.values() for id in line}:
        read_values(world.repository.readonly_session(snapshot_id=id).state)


@pytest.mark.parametrize(
    ("dialect", "edit", "disturb"), CASES, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_an_edit_lands_whole_or_not_at_all(
    dialect: Dialect, edit: Edit, disturb: Disturbance
) -> None:
    grown, garbage = grow(dialect)
    without_edit = disturbed(grown, disturb)

    refused = []
    for number in count():
        world = grown.copied()
        storage = CountedStorage(world.storage, number, partial(act, world, disturb))
        with world.clocks.are_running():
            try:
                edit(Repository.open(storage, CONFIG), garbage)
            except REFUSALS.get(edit, IcechunkError):
                refused.append(number)
            lines = world.lines()
            check_whole(world, lines)
        assert refused[-1:] != [number] or lines == without_edit
        if not storage.has_happened:
            break

    assert refused
    assert number not in refused


def act(world: World, disturb: Disturbance) -> None:
    disturb(world.repository)
