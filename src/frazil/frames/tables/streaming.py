"""Commits of a branch as they land: which ones are next after a place in its history.

A place is the id of a snapshot, or "" before the first one. What lies between two places is the same
whenever it is asked, so that a batch that is run again has the same commits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from frazil.errors import ConflictError, InvalidInputError, SnapshotNotFoundError
from frazil.format.ids import SnapshotId
from frazil.frames.source import Source, find_branch
from frazil.frames.tables.commits import EARLIEST, Commit, list_line, resolve
from frazil.protocols.interface import MAIN, CommitProtocol
from frazil.repository import Repository

OnReset = Literal["fail", "ancestor", "latest"]
OnExpired = Literal["fail", "earliest"]
BEGINNING = ""
"""The place before the first commit."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a branch is followed."""

    branch: str = MAIN
    start: str = EARLIEST
    """Where a new stream begins: `earliest`, `latest`, or after a snapshot, a tag or a branch."""
    on_reset: OnReset = "fail"
    """What to do if the branch was reset, so that the last commit that was read is not in it."""
    on_expired: OnExpired = "fail"
    """What to do if the last commit that was read has expired."""
    max_commits: int | None = None
    """Of a batch."""


def parse_stream_options(source: Source) -> StreamOptions:
    """What the options of a source say about a stream; raises InvalidInputError."""
    more = source.options.more
    most = more.get("max_commits")
    if most is not None and (not most.isdecimal() or int(most) < 1):
        raise InvalidInputError(f"max_commits={most!r}: it is a number of commits, one at least")
    if "to" in more:
        raise InvalidInputError("a stream has no end: leave out the option `to`")
    return StreamOptions(
        branch=find_branch(source, "a stream"),
        start=more.get("from", EARLIEST),
        on_reset=cast("OnReset", _choose(more, "on_reset", OnReset)),
        on_expired=cast("OnExpired", _choose(more, "on_expired", OnExpired)),
        max_commits=None if most is None else int(most),
    )


def _choose(more: Mapping[str, str], name: str, choices: Any) -> str:
    known: Sequence[str] = get_args(choices)
    found = more.get(name, known[0])
    if found not in known:
        raise InvalidInputError(f"{name}={found!r}: it is one of {', '.join(known)}")
    return found


@dataclass(frozen=True, slots=True, eq=False)
class CommitStream:
    """A branch that is followed."""

    repository: Repository
    protocol: CommitProtocol
    options: StreamOptions

    def tip(self) -> str:
        """The newest commit of the branch; raises RefNotFoundError."""
        return self.repository.lookup_branch(self.options.branch)

    def initial(self) -> str:
        """Where a new stream begins."""
        match self.options.start:
            case "earliest":
                return BEGINNING
            case "latest":
                return self.tip()
            case name:
                return resolve(self.repository, name)

    def latest(self, start: str, most: int | None = None, target: str | None = None) -> str:
        """The place after so many commits from a place on, or at the tip or the target."""
        line = list_line(self.protocol, target or self.tip())
        todo = self._after(line, start)
        if todo:
            return todo[: most or len(todo)][-1].id
        is_on_line = any(commit.id == start for commit in line)
        return start if is_on_line else line[-1].id

    def between(self, start: str, end: str) -> list[Commit]:
        """The commits after a place up to another, oldest first."""
        if start == end:
            return []
        try:
            line = list_line(self.protocol, end)
        except SnapshotNotFoundError as error:
            if self.options.on_expired == "fail":
                raise self._expired(end) from error
            # What it was is not known any more; the next batch starts where history does.
            return []
        return self._after(line, start)

    def _after(self, line: list[Commit], start: str) -> list[Commit]:
        """What is left of a line after a place, which need not be on it."""
        if start == BEGINNING:
            return line
        numbers = {commit.id: number for number, commit in enumerate(line)}
        if start in numbers:
            return line[numbers[start] + 1 :]
        try:
            former = list(self.protocol.ancestry(SnapshotId.parse(start)))
        except SnapshotNotFoundError as error:
            if self.options.on_expired == "fail":
                raise self._expired(start) from error
            return line
        return self._after_reset(line, [numbers.get(str(info.id), -1) for info in former], start)

    def _after_reset(self, line: list[Commit], shared: list[int], start: str) -> list[Commit]:
        match self.options.on_reset:
            case "latest":
                return []
            case "ancestor":
                return line[max(shared) + 1 :]
        raise ConflictError(
            message=f"the branch {self.options.branch} was reset: {start}, the last commit that the"
            " stream has read, is not in its history any more. Say where to go on with"
            " the option `on_reset`: ancestor is where both histories part, latest the newest commit"
        )

    def _expired(self, id: str) -> SnapshotNotFoundError:
        return SnapshotNotFoundError(
            f"the commit {id}, which the stream has come to, has expired. With the option "
            "`on_expired` = earliest it reads all commits that are left, also those that it has read"
        )


def open_stream(source: Source) -> CommitStream:
    """The branch that the options of a source name."""
    protocol = source.session.state.surroundings.protocol
    return CommitStream(source.repository, protocol, parse_stream_options(source))
