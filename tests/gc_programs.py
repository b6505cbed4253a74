"""Random programs of changes, expiry and gc, beside dicts of what the repository must still have."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil import ForkSession, GCSummary, Repository, RetentionPolicy, Session
from frazil.errors import IcechunkError
from frazil.format.header import Dialect
from frazil.repository import context as opening
from frazil.repository.context import SessionState
from tests.repositories import dangling_files, split_every
from tests.session_states import read_chunks, set_array, set_group, write_chunks
from tests.timed_storage import Clocks, TimedStorage, at

CHUNKS = 3
PATHS = ("/a", "/b")
CONFIG = split_every(2, inline_up_to=0)
FOLDERS = {
    "snapshots": ("snapshots/", "s/"),
    "transaction_logs": ("transactions/", "t/"),
    "manifests": ("manifests/", "m/"),
    "chunks": ("chunks/", "c/"),
}

Values = dict[str, str]
"""The chunks of arrays in a row, a letter each."""
Lines = dict[tuple[str, str], tuple[str, ...]]
"""Branches and tags, and the snapshots that lead to them, newest first."""


@dataclass
class Running:
    """A session that somebody has not committed yet, and what its commit will have."""

    session: Session
    base: str
    branch: str
    values: Values
    keys: set[str]
    """Of what it has written."""
    fork: ForkSession | None = None


@dataclass
class World:
    """A repository with everything that was ever put into it."""

    storage: TimedStorage
    values: dict[str, Values] = field(default_factory=dict)
    detached: dict[str, set[str]] = field(default_factory=dict)
    """Snapshots that were flushed, and the files that were written with them."""

    @classmethod
    def create(cls, dialect: Dialect) -> Self:
        """A repository with some arrays."""
        storage = TimedStorage(Clocks())
        world = cls(storage)
        with world.clocks.are_running():
            opening.create(storage, dialect)
            first = world.repository.lookup_branch("main")
            session = world.repository.writable_session("main")
            set_group(session.state, "/")
            for path in PATHS:
                set_array(session.state, path, CHUNKS)
                write_chunks(session.state, path, *range(CHUNKS), data=b"0")
            planted = session.commit("arrays")
        world.values = {first: {}, planted: dict.fromkeys(PATHS, "0" * CHUNKS)}
        return world

    def copied(self) -> Self:
        """The same in a storage of its own."""
        return type(self)(self.storage.copied(), dict(self.values), dict(self.detached))

    @property
    def clocks(self) -> Clocks:
        return self.storage.clocks

    @property
    def repository(self) -> Repository:
        """As a process sees it that has just begun."""
        return Repository.open(self.storage, CONFIG)

    # What is there

    def listing(self) -> dict[str, int]:
        return {info.key: info.size_bytes for info in self.storage.list()}

    def files(self) -> set[str]:
        """All that garbage collection might delete."""
        prefixes = tuple(prefix for pair in FOLDERS.values() for prefix in pair)
        return {key for key in self.listing() if key.startswith(prefixes)}

    def lines(self) -> Lines:
        return _lines_of(self.repository)

    def ancestry(self, id: str) -> Iterator[str]:
        return (info.id for info in self.repository.ancestry(snapshot_id=id))

    def times(self) -> dict[str, datetime]:
        """When the snapshots that refs lead to were written, as they say."""
        repository = self.repository
        tips = {line[0] for line in _lines_of(repository).values()}
        infos = (info for tip in tips for info in repository.ancestry(snapshot_id=tip))
        return {info.id: info.written_at for info in infos}

    def check(self) -> Lines:
        """Everything that a ref leads to is there, and is what was put there."""
        repository = self.repository
        lines = _lines_of(repository)
        assert dangling_files(repository) == set()
        assert self.lost_logs(repository) == set()
        self.check_whole({id for line in lines.values() for id in line}, repository)
        return lines

    def check_whole(self, ids: Iterable[str], repository: Repository | None = None) -> None:
        """These snapshots read as what was put into them."""
        repository = repository or self.repository
        for id in ids:
            state = repository.readonly_session(snapshot_id=id).state
            assert read_values(state) == self.values[id]

    def lost_logs(self, repository: Repository) -> set[str]:
        """Logs of snapshots that left the history, which those that stayed still need."""
        if repository.dialect is not Dialect.V2:
            return set()
        snapshots = repository.protocol.read_repo_info().snapshots
        pruned = {log for each in snapshots.values() for log in each.pruned_ancestor_tx_logs}
        return {f"transactions/{log}" for log in pruned} - self.listing().keys()

    # What can be done

    def begin(self, branch: str, edits: Mapping[tuple[str, int], str]) -> Running:
        """A session that has written some chunks."""
        session = self.repository.writable_session(branch)
        base = session.snapshot_id
        running = Running(session, base, branch, dict(self.values[base]), set())
        self.write(running, session, edits)
        return running

    def write(
        self, running: Running, session: Session, edits: Mapping[tuple[str, int], str]
    ) -> None:
        before = self.files()
        for (path, index), letter in edits.items():
            if not running.values:
                continue
            write_chunks(session.state, path, index, data=letter.encode())
            row = running.values[path]
            running.values[path] = row[:index] + letter + row[index + 1 :]
        running.keys |= self.files() - before

    def fork(self, running: Running, edits: Mapping[tuple[str, int], str]) -> None:
        """Let a fork of a session write something."""
        before = self.files()
        running.fork = running.session.fork()
        running.keys |= self.files() - before
        self.write(running, running.fork, edits)

    def finish(self, running: Running) -> str:
        """Commit a session with what its fork has written."""
        if running.fork is not None:
            running.session.merge(running.fork)
        id = running.session.commit("a change", allow_empty=True)
        self.values[id] = running.values
        return id

    def commit(self, branch: str, edits: Mapping[tuple[str, int], str]) -> str:
        return self.finish(self.begin(branch, edits))

    def amend(self, branch: str, edits: Mapping[tuple[str, int], str]) -> str:
        running = self.begin(branch, edits)
        id = running.session.amend("an amended change", allow_empty=True)
        self.values[id] = running.values
        return id

    def flush(self, branch: str, edits: Mapping[tuple[str, int], str]) -> str:
        before = self.files()
        running = self.begin(branch, edits)
        id = running.session.flush("detached")
        self.values[id] = running.values
        self.detached[id] = self.files() - before
        return id

    def collect(self, cutoff: datetime) -> GCSummary:
        """Collect garbage, after a dry run that must tell of all of it."""
        before = self.listing()
        dry = self.repository.garbage_collect(cutoff, dry_run=True)
        assert self.listing() == before
        summary = self.repository.garbage_collect(cutoff)
        gone = before.keys() - self.listing().keys()
        assert dry == summary
        assert summary.bytes_deleted == sum(before[key] for key in gone)
        for kind, prefixes in FOLDERS.items():
            named = {key for key in gone if key.startswith(prefixes)}
            assert getattr(summary, f"{kind}_deleted") == len(named)
            gone -= named
        assert not gone
        return summary


def read_values(state: SessionState) -> Values:
    paths = [node.path for node in state.view.nodes() if node.array is not None]
    return {path: read_chunks(state, path, CHUNKS) for path in paths}


def _lines_of(repository: Repository) -> Lines:
    tips = {("branch", name): repository.lookup_branch(name) for name in repository.list_branches()}
    tips |= {("tag", name): repository.lookup_tag(name) for name in repository.list_tags()}
    return {
        ref: tuple(info.id for info in repository.ancestry(snapshot_id=tip))
        for ref, tip in sorted(tips.items())
    }


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
