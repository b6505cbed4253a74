"""What a session is made of.

`SessionState` is the one thing that changes: the base, the edits, and whether it may still be written
to. The modules beside it are functions of it. Everything that edits holds `lock`; whoever reads does
not need it.
"""

import threading
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from uuid import uuid4

from frazil.assets import Assets
from frazil.config import RepositoryConfig
from frazil.config.effective import EffectiveConfig
from frazil.engine.changes import ChangeSet
from frazil.engine.view import View
from frazil.errors import ReadOnlyError, SessionStateError
from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.snapshot import Snapshot
from frazil.format.times import Nanoseconds
from frazil.protocols.clock import read_clock
from frazil.protocols.interface import CommitProtocol
from frazil.states import SessionMode
from frazil.virtual.access import VirtualChunkAccess

_SENT = ("surroundings", "mode", "branch", "is_fork", "started_at", "origins")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all sessions of one repository share."""

    protocol: CommitProtocol
    config: RepositoryConfig
    settings: EffectiveConfig
    virtual: VirtualChunkAccess
    default_commit_metadata: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def assets(self) -> Assets:
        """The repository's files."""
        return self.protocol.assets

    @property
    def dialect(self) -> Dialect:
        """In which it is written."""
        return self.protocol.dialect


class SessionState:
    """One session: where it stands, what it changed, what it may do."""

    def __init__(
        self,
        surroundings: Surroundings,
        snapshot: Snapshot,
        *,
        mode: SessionMode = SessionMode.readonly,
        branch: str | None = None,
        is_fork: bool = False,
    ) -> None:
        self.surroundings = surroundings
        self.mode = mode
        self.branch = branch
        self.is_fork = is_fork
        self.instance_id = uuid4().hex
        self.lock = threading.RLock()
        self.started_at: Nanoseconds = read_clock()
        self.origins = frozenset((snapshot.id,))
        """Snapshots of the history that have the chunks of the base; that of a fork is in none."""
        self.view = View(surroundings.assets, snapshot, self.new_changes())

    def new_changes(self) -> ChangeSet:
        """No changes, in the form that the dialect asks for."""
        return ChangeSet.of(self.surroundings.dialect)

    @property
    def changes(self) -> ChangeSet:
        """The pending edits."""
        return self.view.changes

    @property
    def assets(self) -> Assets:
        """The repository's files."""
        return self.surroundings.assets

    @property
    def is_read_only(self) -> bool:
        """Whether nothing can be changed; a fork can."""
        return self.mode is SessionMode.readonly and not self.is_fork

    def rest_on(self, snapshot: Snapshot, changes: ChangeSet | None = None) -> None:
        """Take another base, with these changes or none over it."""
        if snapshot.id != self.view.snapshot_id:
            self.origins = frozenset((snapshot.id,))
        self.view = View(self.assets, snapshot, changes or self.new_changes())

    @property
    def sources(self) -> Set[SnapshotId]:
        """Snapshots besides the base whose chunks the changes refer to."""
        return self.changes.sources - {self.view.snapshot_id}

    def finish(self, snapshot: Snapshot) -> None:
        """Become a read-only session of a new snapshot."""
        self.rest_on(snapshot)
        self.mode, self.branch, self.is_fork = SessionMode.readonly, None, False

    def refuse_unless_writable(self) -> None:
        """Raise ReadOnlyError where nothing, SessionStateError where only moves can be made."""
        if self.is_read_only:
            raise ReadOnlyError("Read only sessions cannot modify the repository")
        if self.mode is SessionMode.rearrange:
            raise SessionStateError(
                "This session was created to rearrange the hierarchy, other write operations cannot be"
                " executed: commit it, and open a writable session",
                kind="rearrange-session-only",
            )

    def __getstate__(self) -> dict[str, object]:
        if self.changes:  # which may be committed through another storage, that syncs only its own
            self.assets.storage.flush()
        return {
            "surroundings": self.surroundings,
            "snapshot": self.view.snapshot.id,
            "changes": self.changes.copy(),
            "mode": self.mode,
            "branch": self.branch,
            "is_fork": self.is_fork,
            "started_at": self.started_at,
            "origins": self.origins,
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        # The snapshot is read where the session is used, not sent there.
        for name in _SENT:
            setattr(self, name, state[name])
        self.instance_id = uuid4().hex  # a copy has changes of its own, so it equals nothing else
        self.lock = threading.RLock()
        snapshot = self.assets.read_snapshot(state["snapshot"])  # type: ignore[arg-type]
        self.view = View(self.assets, snapshot, state["changes"])  # type: ignore[arg-type]


def with_metadata(surroundings: Surroundings, metadata: Mapping[str, JsonValue]) -> Surroundings:
    """The same with other metadata for every commit."""
    return replace(surroundings, default_commit_metadata=dict(metadata))
