"""The language of the programs: steps, and the values that they name without having them.

A step says which public method is called with what; both libraries have the same names, so a step is
the same for either. Everything here is frozen, and its `repr` is how it is written: that is how steps
get to the child process, and how a program that failed is kept as a test.
"""

from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

Arguments = dict[str, Any]
"""Of a call, by keyword."""


# Values that exist only where a program runs


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The snapshot with this number, in the order in which a repository got them."""

    number: int


@dataclass(frozen=True, slots=True)
class WrittenAt:
    """The time of a snapshot, and some microseconds."""

    snapshot: Any
    microseconds: int = 0


@dataclass(frozen=True, slots=True)
class Slot:
    """The session in a slot."""

    name: str


@dataclass(frozen=True, slots=True)
class Build:
    """What a public class of the library makes of some arguments."""

    name: str
    arguments: Arguments = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a public enumeration."""

    name: str
    member: str


@dataclass(frozen=True, slots=True)
class Range:
    """A range of bytes, as Zarr asks for it: the name of its class, and what goes in."""

    name: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """An array of unsigned numbers."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """A function that moves chunks of an array of one axis, those that stay in its grid."""

    by: int
    num_chunks: int


@dataclass(frozen=True, slots=True)
class Settings:
    """A configuration: what is inline, and in how many chunks manifests are split along each axis."""

    inline_chunk_threshold_bytes: int | None = None
    split: tuple[tuple[str | int | None, int], ...] = ()
    """Pairs of a dimension's name, an axis or None for any, and a size."""
    num_updates_per_repo_info_file: int | None = None


# Steps


@dataclass(frozen=True, slots=True)
class OnRepository:
    """Call a method of the repository, or get a property; `by` is who does it when they take turns."""

    method: str
    arguments: Arguments = field(default_factory=dict)
    by: int = 0


@dataclass(frozen=True, slots=True)
class Open:
    """Put a new session of the repository into a slot."""

    slot: str
    method: str
    arguments: Arguments = field(default_factory=dict)
    by: int = 0


@dataclass(frozen=True, slots=True)
class OnSession:
    """Call a method of the session in a slot, or get a property."""

    slot: str
    method: str
    arguments: Arguments = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OnStore:
    """Call a method of the store of a session."""

    slot: str
    method: str
    arguments: Arguments = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fork:
    """Put a fork of a session into another slot, by way of bytes if it is sent."""

    slot: str
    into: str
    is_sent: bool = False


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge forks into a session."""

    slot: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Transaction:
    """Set keys in a transaction, which fails at its end if told so."""

    branch: str
    sets: tuple[tuple[str, bytes], ...]
    fails: bool = False
    by: int = 0


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Open the repository anew with other settings, and save them if told so."""

    settings: Settings
    is_saved: bool = False


@dataclass(frozen=True, slots=True)
class Reopen:
    """Open the repository from its storage again."""


@dataclass(frozen=True, slots=True)
class SetDefaultCommitMetadata:
    """Metadata for every commit from now on."""

    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Forget:
    """Empty all slots whose names start so."""

    prefix: str


@dataclass(frozen=True, slots=True)
class LookAtRepository:
    """Read refs, history and what the repo info says."""


@dataclass(frozen=True, slots=True)
class LookAtSnapshot:
    """Read all files of a snapshot, and all keys that it has."""

    snapshot: Any


Step = (
    OnRepository | Open | OnSession | OnStore | Fork | Merge | Transaction | Reconfigure | Reopen
    | SetDefaultCommitMetadata | Forget | LookAtRepository | LookAtSnapshot
)  # fmt: skip


def with_snapshots(value: Any, snapshots: list[str]) -> Any:
    """A step with ids in place of the numbers of snapshots; numbers start again after the last."""
    match value:
        case Snapshot(number):
            return snapshots[number % len(snapshots)]
        case dict():
            return {key: with_snapshots(each, snapshots) for key, each in value.items()}
        case tuple() | list():
            return type(value)(with_snapshots(each, snapshots) for each in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {f.name: with_snapshots(getattr(value, f.name), snapshots) for f in fields(value)}
    return replace(value, **changed)
