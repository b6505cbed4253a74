"""A repository beside dicts that say what it must still have, whatever is expired and collected."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from frazil import ForkSession, GCSummary, Repository, Session
from frazil.format.header import Dialect
from frazil.repository import context as opening
from frazil.repository.session_state import SessionState
from tests.engine_sessions import read_chunks, set_array, set_group, write_chunks
from tests.repositories import dangling_files, split_every
from tests.timed_storage import Clocks, TimedStorage

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
