"""State of a session, and the context it shares with other sessions."""

import threading
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import field
from functools import partial
from itertools import islice
from typing import Protocol
from uuid import uuid4

from frazil.async_names import run_both
from frazil.config.settings import EffectiveConfig, RepositoryConfig
from frazil.errors import IcechunkError, ReadOnlyError, SessionStateError
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.metadata import JsonValue
from frazil.format.snapshot import Node, Snapshot
from frazil.format.timestamps import Nanoseconds
from frazil.lazy import dataclass
from frazil.ops import SessionMode
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import CommitProtocol, read_clock
from frazil.repository.changes import ChangeSet
from frazil.repository.view import View
from frazil.virtual.access import VirtualChunkAccess

_SENT = ("context", "mode", "branch", "is_fork", "started_at", "origins")


@dataclass(frozen=True, slots=True)
class RepositoryContext:
    """Context that all sessions of one repository share."""

    protocol: CommitProtocol
    config: RepositoryConfig
    settings: EffectiveConfig
    virtual: VirtualChunkAccess
    default_commit_metadata: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def assets(self) -> Assets:
        """Return the access to the repository's files."""
        return self.protocol.assets

    @property
    def dialect(self) -> Dialect:
        """Return the dialect of the repository."""
        return self.protocol.dialect


class SessionState:
    """State of one session: its base snapshot, its changes and its mode."""

    def __init__(
        self,
        context: RepositoryContext,
        snapshot: Snapshot,
        *,
        mode: SessionMode = SessionMode.readonly,
        branch: str | None = None,
        is_fork: bool = False,
    ) -> None:
        self.context = context
        self.mode = mode
        self.branch = branch
        self.is_fork = is_fork
        self.instance_id = uuid4().hex
        self.lock = threading.RLock()
        self.started_at: Nanoseconds = read_clock()
        self.origins = frozenset((snapshot.id,))
        """Snapshots of the history that have the chunks of the base; a fork's base is in no history."""
        self.view = self._view_of(snapshot, self.new_changes())

    def _view_of(self, snapshot: Snapshot, changes: ChangeSet) -> View:
        return View(self.assets, snapshot, changes, is_fixed=self.is_read_only)

    def new_changes(self) -> ChangeSet:
        """Return an empty change set for the dialect of the repository."""
        return ChangeSet.of(self.context.dialect)

    @property
    def changes(self) -> ChangeSet:
        """Return the pending changes."""
        return self.view.changes

    @property
    def assets(self) -> Assets:
        """Return the access to the repository's files."""
        return self.context.assets

    @property
    def is_read_only(self) -> bool:
        """Return True if the session can't be changed; a fork can."""
        return self.mode is SessionMode.readonly and not self.is_fork

    def set_base(self, snapshot: Snapshot, changes: ChangeSet | None = None) -> None:
        """Replace the base snapshot and the changes over it."""
        if snapshot.id != self.view.snapshot_id:
            self.origins = frozenset((snapshot.id,))
        self.view = self._view_of(snapshot, changes or self.new_changes())

    @property
    def sources(self) -> Set[SnapshotId]:
        """Return the snapshots other than the base whose chunks the changes reference."""
        return self.changes.sources - {self.view.snapshot_id}

    def finish(self, snapshot: Snapshot) -> None:
        """Turn into a read-only session of a new snapshot."""
        self.mode, self.branch, self.is_fork = SessionMode.readonly, None, False
        self.set_base(snapshot)

    def refuse_unless_writable(self) -> None:
        """Raise ReadOnlyError for a read-only session, SessionStateError for a rearrange session."""
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
            "context": self.context,
            "snapshot": self.view.snapshot.id,
            "changes": self.changes.copy(),
            "mode": self.mode,
            "branch": self.branch,
            "is_fork": self.is_fork,
            "started_at": self.started_at,
            "origins": self.origins,
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        # The snapshot is not pickled but read again by the receiving process.
        for name in _SENT:
            setattr(self, name, state[name])
        self.instance_id = uuid4().hex  # a copy has changes of its own, so it equals nothing else
        self.lock = threading.RLock()
        snapshot = self.assets.read_snapshot(state["snapshot"])  # type: ignore[arg-type]
        self.view = self._view_of(snapshot, state["changes"])  # type: ignore[arg-type]


def open_state(
    context: RepositoryContext,
    resolve: Callable[[], SnapshotId],
    guess: SnapshotId | None,
    mode: SessionMode = SessionMode.readonly,
    branch: str | None = None,
) -> SessionState:
    """Open a session on the snapshot that `resolve` returns, and start to preload its manifests.

    The snapshot that is probably needed is read at the same time, where requests take long.
    """
    assets = context.assets
    storage = assets.storage
    if guess is None or storage.is_local or storage.concurrency < 2 or assets.has_snapshot(guess):
        snapshot = assets.read_snapshot(resolve())
    else:
        # If the guess is wrong, or its file is gone, reading it did no harm.
        read: Callable[[], Snapshot | None] = partial(_find_snapshot, assets, guess)
        id, found = run_both(resolve, read)
        snapshot = found if found is not None and guess == id else assets.read_snapshot(id)
    state = SessionState(context, snapshot, mode=mode, branch=branch)
    preload(state)
    return state


def _find_snapshot(assets: Assets, id: SnapshotId) -> Snapshot | None:
    try:
        return assets.read_snapshot(id)
    except IcechunkError:
        return None  # it may be gone, and something else be wanted


class StoreOwner(Protocol):
    """Session as its store uses it."""

    @property
    def state(self) -> SessionState:
        """Return the state of the session."""

    @property
    def read_only(self) -> bool:
        """Return True if the session can't be written to."""


def preload(state: SessionState) -> None:
    """Start to fetch the manifests to preload in the background; does nothing for local storage."""
    if state.assets.storage.is_local or not state.context.settings.preload.max_total_refs:
        return
    chosen = list(plan_preload(state))
    if chosen:
        threading.Thread(target=_fetch, args=(state, chosen), daemon=True).start()


def plan_preload(state: SessionState) -> Iterator[ManifestId]:
    """Yield the manifests to preload: of the first arrays that match, up to the allowed references."""
    rules = state.context.settings.preload
    sizes = {file.id: file.num_chunk_refs or 0 for file in state.view.snapshot.manifest_files}
    left = rules.max_total_refs
    arrays = (node for node in state.view.nodes() if node.array is not None)
    for node in islice(arrays, rules.max_arrays_to_scan):
        for id in _manifests(node):
            count = sizes.get(id, 0)
            if count <= left and rules.preload_if.matches(node.path, count):
                left -= count
                yield id


def _manifests(node: Node) -> Iterator[ManifestId]:
    if node.array is not None:
        yield from (ref.id for ref in node.array.manifests)


def _fetch(state: SessionState, ids: list[ManifestId]) -> None:
    for id in ids:
        try:
            state.assets.read_manifest(id)
        except IcechunkError:
            return  # the reader that needs it will get the error and can handle it
