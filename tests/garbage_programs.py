"""Random programs of changes and upkeep, which check after each step that nothing needed has gone."""

from collections.abc import Callable
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil import RetentionPolicy
from frazil.errors import IcechunkError
from frazil.format.header import Dialect
from tests.garbage_worlds import CHUNKS, PATHS, Lines, Running, World
from tests.timed_storage import at

SKEWS = st.sampled_from([-5.0, -1.0, 0.0, 0.5, 4.0])
EDITS = st.dictionaries(
    st.tuples(st.sampled_from(PATHS), st.integers(0, CHUNKS - 1)),
    st.sampled_from("xyz"),
    min_size=1,
    max_size=3,
)
POLICIES = st.builds(
    RetentionPolicy,
    st.none() | st.integers(1, 3),
    st.none() | st.integers(0, 6).map(lambda seconds: timedelta(seconds=seconds)),
)


class Program:
    """What is done to a repository, step by step."""

    def __init__(self, world: World, dialect: Dialect, data: st.DataObject) -> None:
        self.world = world
        self.dialect = dialect
        self.data = data
        self.running: list[Running] = []
        self.lines: Lines = self.world.lines()
        self.names = 0

    def run(self, act: "Callable[[Program], None]") -> None:
        """One step, a second after the last; it keeps what it must keep."""
        self.world.clocks.seconds += 1
        act(self)
        self.lines = self.world.check()

    # Changes

    def commit(self) -> None:
        self.world.commit(self.branch(), self.edits())

    def amend(self) -> None:
        branch = self.branch()
        if self.dialect is Dialect.V2 and len(self.lines["branch", branch]) > 1:
            self.world.amend(branch, self.edits())

    def flush(self) -> None:
        self.world.flush(self.branch(), self.edits())

    def create_ref(self) -> None:
        id = self.snapshot()
        self.names += 1
        if self.data.draw(st.booleans()):
            self.world.repository.create_branch(f"branch-{self.names}", id)
        else:
            self.world.repository.create_tag(f"tag-{self.names}", id)

    def reset(self) -> None:
        self.world.repository.reset_branch(self.branch(), self.snapshot())

    def delete_ref(self) -> None:
        kinds = ["branch"] if self.dialect is Dialect.DRAFT else ["branch", "tag"]
        others = [ref for ref in self.lines if ref[1] != "main" and ref[0] in kinds]
        if others:
            kind, name = self.data.draw(st.sampled_from(others))
            if kind == "tag":
                self.world.repository.delete_tag(name)
            else:
                self.world.repository.delete_branch(name)

    def set_clocks(self) -> None:
        self.world.clocks.writers_ahead = self.data.draw(SKEWS)
        self.world.clocks.storage_ahead = self.data.draw(SKEWS)

    # Sessions that last

    def begin(self) -> None:
        running = self.world.begin(self.branch(), self.edits())
        if self.data.draw(st.booleans()):
            self.world.fork(running, self.edits())
        self.running.append(running)

    def finish(self) -> None:
        if not self.running:
            return
        running = self.running.pop(0)
        line = self.lines.get(("branch", running.branch), ("nothing",))
        if line[0] != running.base:
            with pytest.raises(IcechunkError):
                self.world.finish(running)
            return

        id = self.world.finish(running)

        assert tuple(self.world.ancestry(id))[1:] == line

    # Upkeep

    def expire(self) -> None:
        older_than = self.moment()
        branches, tags = self.data.draw(st.booleans()), self.data.draw(st.booleans())
        has_tags = any(kind == "tag" for kind, _ in self.lines)
        tags = tags and (self.dialect is not Dialect.DRAFT or not has_tags)
        is_old = {id: time < older_than for id, time in self.world.times().items()}

        released = self.world.repository.expire_snapshots(
            older_than, delete_expired_branches=branches, delete_expired_tags=tags
        )

        for id in released & self.world.detached.keys():
            del self.world.detached[id]
        after = self.world.lines()
        for ref, line in self.lines.items():
            if ref not in after:
                assert is_old[line[0]]
                assert ref != ("branch", "main")
                assert branches if ref[0] == "branch" else tags
                continue
            self.check_shortened(line, after[ref])
            assert {id for id in line if not is_old[id]} <= set(after[ref])

    def expire_by_policies(self) -> None:
        if self.dialect is not Dialect.V2:
            return
        patterns = st.sampled_from(["main", "branch-*", "tag-[12]", "*"])
        policies = self.data.draw(st.dictionaries(patterns, POLICIES, max_size=3))
        self.world.repository.set_retention(policies)
        now, times = self.moment(), self.world.times()

        dry = self.world.repository.expire(now=now, dry_run=True)
        summary = self.world.repository.expire(now=now)

        assert dry == summary
        after = self.world.lines()
        assert after.keys() == self.lines.keys()
        for (kind, name), line in self.lines.items():
            self.check_shortened(line, after[kind, name])
            fitting = [p for pattern, p in policies.items() if fnmatchcase(name, pattern)]
            for number, id in enumerate(line):
                age = now - times[id]
                if not fitting or any(policy.keeps(number, age) for policy in fitting):
                    assert id in after[kind, name]

    def collect(self) -> None:
        cutoff = self.moment()
        times = self.world.storage.times
        files = self.world.files()

        self.world.collect(cutoff)

        assert self.world.lines() == self.lines
        assert all(times[key] < cutoff for key in files - self.world.files())
        assert self.world.repository.garbage_collect(cutoff, dry_run=True).bytes_deleted == 0
        is_young = {key for key in files if times[key] >= cutoff}
        self.running = [each for each in self.running if each.keys <= is_young]
        kept = {id: keys for id, keys in self.world.detached.items() if keys <= is_young}
        self.world.detached = kept
        if self.dialect is Dialect.V2:
            self.world.check_whole(kept)

    def check_shortened(self, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        """A line that was shortened has its ends, and what is left in its order."""
        assert (after[0], after[-1]) == (before[0], before[-1])
        assert after == tuple(id for id in before if id in after)

    # What is drawn

    def branch(self) -> str:
        return self.data.draw(st.sampled_from([n for kind, n in self.lines if kind == "branch"]))

    def edits(self) -> dict[tuple[str, int], str]:
        return self.data.draw(EDITS)

    def snapshot(self) -> str:
        """One that a ref leads to, or one that was flushed and must still be there."""
        known = list(dict.fromkeys(id for line in self.lines.values() for id in line))
        detached = list(self.world.detached) if self.dialect is Dialect.V2 else []
        return self.data.draw(st.sampled_from(known + detached))

    def moment(self) -> datetime:
        seconds = self.world.clocks.seconds
        return at(self.data.draw(st.floats(-6, seconds + 6).map(lambda x: round(x * 2) / 2)))


ACTIONS: list[Callable[[Program], None]] = [
    Program.commit, Program.commit, Program.amend, Program.flush, Program.create_ref,
    Program.reset, Program.delete_ref, Program.set_clocks, Program.begin, Program.finish,
    Program.expire, Program.expire_by_policies, Program.collect, Program.collect,
]  # fmt: skip


def run_programs(world: type[World], dialect: Dialect, examples: int) -> None:
    """So many programs, each in a world of its own."""

    @settings(max_examples=examples, deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        program = Program(world.create(dialect), dialect, data)
        with program.world.clocks.are_running():
            for act in data.draw(st.lists(st.sampled_from(ACTIONS), min_size=4, max_size=16)):
                program.run(act)

    run()
