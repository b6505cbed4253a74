"""Opening sessions."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from frazil.asynchronous import asynchronous
from frazil.conflicts import ConflictSolver
from frazil.engine.preloading import preload
from frazil.engine.state import SessionState
from frazil.errors import InvalidInputError, InvalidTypeError, SnapshotNotFoundError
from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.snapshot import Snapshot
from frazil.format.times import from_datetime
from frazil.protocols.feature_flags import MOVE_NODE, refuse_unless_enabled
from frazil.repository.base import RepositoryPart
from frazil.session import Session
from frazil.states import SessionMode
from frazil.store import IcechunkStore


class Sessions(RepositoryPart):
    """Views of the repository, to read and to write."""

    def readonly_session(
        self,
        branch: str | None = None,
        *,
        tag: str | None = None,
        snapshot_id: str | None = None,
        as_of: datetime | None = None,
    ) -> Session:
        """A session that reads a branch, a tag or a snapshot.

        `as_of` goes with a branch: the last version that was written then or before.
        """
        if as_of is None:
            id = self._resolve(branch, tag, snapshot_id)
        elif branch is None or tag is not None or snapshot_id is not None:
            raise InvalidInputError("as_of needs a branch, and nothing else")
        else:
            id = self._snapshot_as_of(branch, as_of)
        return self._open(id)

    readonly_session_async = asynchronous(readonly_session)

    def writable_session(self, branch: str) -> Session:
        """A session that collects changes for one commit to a branch."""
        self._protocol.refuse_unless_writable()
        return self._open(self._protocol.lookup_branch(branch), SessionMode.writable, branch)

    writable_session_async = asynchronous(writable_session)

    def rearrange_session(self, branch: str) -> Session:
        """A session that moves nodes, for one commit to a branch; V2 repositories only."""
        if self._protocol.dialect is not Dialect.V2:
            raise self._protocol.unsupported("rearrange sessions")
        self._protocol.refuse_unless_writable()
        refuse_unless_enabled(self._protocol.read_repo_info(), MOVE_NODE)
        return self._open(self._protocol.lookup_branch(branch), SessionMode.rearrange, branch)

    rearrange_session_async = asynchronous(rearrange_session)

    @contextmanager
    def transaction(
        self,
        branch: str,
        *,
        message: str,
        metadata: dict[str, Any] | None = None,
        rebase_with: ConflictSolver | None = None,
        rebase_tries: int = 1_000,
    ) -> Iterator[IcechunkStore]:
        """A store to write to, committed at the end of the `with` block unless that raises."""
        session = self.writable_session(branch)
        yield session.store
        session.commit(
            message=message, metadata=metadata, rebase_with=rebase_with, rebase_tries=rebase_tries
        )

    def _open(
        self,
        id: SnapshotId,
        mode: SessionMode = SessionMode.readonly,
        branch: str | None = None,
    ) -> Session:
        snapshot: Snapshot = self._surroundings.assets.read_snapshot(id)
        state = SessionState(self._surroundings, snapshot, mode=mode, branch=branch)
        preload(state)
        return Session(state)

    def _snapshot_as_of(self, branch: str, moment: datetime) -> SnapshotId:
        if moment.tzinfo is None:
            raise InvalidTypeError("as_of needs a time zone")
        limit = from_datetime(moment)
        for info in self._protocol.ancestry(self._protocol.lookup_branch(branch)):
            if info.flushed_at <= limit:
                return info.id
        raise SnapshotNotFoundError(
            f"branch {branch} does not have a snapshots before or at {moment.isoformat()}",
            kind="no-snapshot-at-time",
        )
