"""A process that dies during upkeep leaves a whole repository; the next one completes the work."""

from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest

from frazil import ConflictDetector, RebaseFailedError, Repository
from frazil.errors import IcechunkError
from frazil.format.header import Dialect
from tests.gc_programs import CONFIG, Lines, World
from tests.session_states import set_array, set_group
from tests.timed_storage import DiedError, MortalStorage, at

GENERATIONS = [Dialect.V2, Dialect.V1, Dialect.ALPHA_H, Dialect.DRAFT]
NOW = at(20)


def grow(dialect: Dialect) -> World:
    """Two branches and a tag, a commit that nothing leads to, and a flushed one."""
    world = World.create(dialect)
    with world.clocks.are_running():
        for number, letter in enumerate("123"):
            world.clocks.seconds += 1
            kept = world.commit("main", {("/a", number): letter, ("/b", 0): letter})
            world.repository.create_branch(f"branch-{number}", kept)
        world.repository.create_tag("tag", kept)
        for index in range(3):
            world.commit("main", {("/b", index): "g"})
        world.repository.reset_branch("main", kept)
        world.flush("main", {("/a", 1): "f"})
        world.commit("branch-1", {("/b", 2): "4"})
    world.clocks.seconds = 20
    return world


def collect(repository: Repository) -> None:
    repository.garbage_collect(NOW)


def expire(repository: Repository) -> None:
    repository.expire_snapshots(at(3), delete_expired_branches=True)


def outcome(world: World) -> tuple[set[str], Lines]:
    """What is left when nobody dies."""
    return world.files(), world.check()


@pytest.mark.parametrize("dialect", GENERATIONS, ids=lambda dialect: dialect.value)
@pytest.mark.parametrize("act", [collect, expire])
def test_who_dies_before_any_write_leaves_a_whole_repository_to_the_next(
    dialect: Dialect, act: Callable[[Repository], None]
) -> None:
    grown = grow(dialect)
    undisturbed = grown.copied()
    with undisturbed.clocks.are_running():
        act(undisturbed.repository)
        wanted = outcome(undisturbed)

    for number in count():
        world = grown.copied()
        storage = MortalStorage(world.storage, number)
        with world.clocks.are_running():
            with suppress(DiedError):
                act(Repository.open(storage, CONFIG))
            world.check()
            act(world.repository)
            assert outcome(world) == wanted
        if not storage.is_dead:
            break

    assert number > 1


@pytest.mark.parametrize("dialect", GENERATIONS, ids=lambda dialect: dialect.value)
def test_a_session_on_a_branch_that_was_collected_meanwhile_cannot_commit(dialect: Dialect) -> None:
    world = grow(dialect)
    with world.clocks.are_running():
        running = world.begin("branch-1", {("/a", 0): "n"})
        world.repository.delete_branch("branch-1")
        world.collect(NOW)

        with pytest.raises(IcechunkError):
            world.finish(running)

        world.check()


def test_diffs_and_rebases_see_what_was_expired_and_collected() -> None:
    world = World.create(Dialect.V2)
    with world.clocks.are_running():
        repository = world.repository
        first = world.lines()["branch", "main"][-1]
        repository.create_branch("early", first)
        one, other = (repository.writable_session("early") for _ in range(2))
        set_group(one.state, "/")
        set_array(other.state, "/a", 1)
        repository.reset_branch("early", repository.lookup_branch("main"))
        for number, letter in enumerate("12"):
            world.clocks.seconds += 1
            tip = world.commit("early", {("/a", number): letter})
        before = repository.diff(from_snapshot_id=first, to_snapshot_id=tip)

        released = repository.expire_snapshots(at(2))
        world.collect(NOW)

        assert len(released) == 1
        assert world.lines()["branch", "early"] == (tip, first)
        assert world.repository.diff(from_snapshot_id=first, to_snapshot_id=tip) == before
        for session in (one, other):
            with pytest.raises(RebaseFailedError):
                session.rebase(ConflictDetector())
