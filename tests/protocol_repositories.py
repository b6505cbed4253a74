"""Small repositories of every generation, written through their commit protocols."""

from collections.abc import Callable

from frazil.errors import AlreadyExistsError, ConflictError
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.metadata import Metadata
from frazil.format.snapshot import Snapshot, TransactionLog
from frazil.protocols.assets import Assets, new_snapshot_id
from frazil.protocols.protocol import MAIN, CommitProtocol, UpdatePolicy, read_clock, time_after
from frazil.protocols.sequence_protocol import SequenceProtocol
from frazil.protocols.v1_protocol import V1Protocol, next_history, snapshot_parent_id
from frazil.protocols.v2_protocol import V2Protocol, create_v2
from frazil.storage.interface import Storage

OLDER = [dialect for dialect in Dialect if dialect is not Dialect.V2]
SEQUENCED = [dialect for dialect in OLDER if dialect is not Dialect.V1]
EAGER = UpdatePolicy(max_tries=1000, initial_backoff_seconds=0.001, max_backoff_seconds=0.02)
"""Tests race more than people do, and have less time."""


def unknown_id(dialect: Dialect) -> SnapshotId:
    """An id that no snapshot has."""
    return SnapshotId(b"never there!" + (b"!!!!" if dialect is Dialect.DRAFT else b""))


UNKNOWN_ID = unknown_id(Dialect.V2)


def create_repository(storage: Storage, policy: UpdatePolicy = EAGER) -> V2Protocol:
    """A repository of one empty snapshot."""
    return create_v2(Assets(storage, Dialect.V2), None, policy)


def open_repository(storage: Storage, policy: UpdatePolicy = EAGER) -> V2Protocol:
    """A repository as another process would open it."""
    return V2Protocol(Assets(storage, Dialect.V2), policy)


def open_as(storage: Storage, dialect: Dialect) -> CommitProtocol:
    """An older repository as another process would open it that knows what it is."""
    assets = Assets(storage, dialect)
    return V1Protocol(assets) if dialect is Dialect.V1 else SequenceProtocol(assets)


def plan_snapshot(
    repository: CommitProtocol, parent_id: SnapshotId, message: str = "a change"
) -> Snapshot:
    """An empty snapshot on top of another."""
    parent = repository.assets.read_snapshot(parent_id)
    now = time_after(parent.flushed_at, read_clock())
    return Snapshot(
        new_snapshot_id(repository.dialect),
        snapshot_parent_id(parent, repository.dialect),
        now,
        message,
        Metadata({"by": "a test"}),
        history=next_history(parent, repository.dialect, now),
    )


def write_snapshot(
    repository: CommitProtocol, parent_id: SnapshotId, message: str = "a change"
) -> Snapshot:
    """Write the files of an empty snapshot that no ref points to."""
    snapshot = plan_snapshot(repository, parent_id, message)
    repository.assets.write_snapshot(snapshot)
    repository.assets.write_transaction_log(TransactionLog(snapshot.id))
    return snapshot


def commit(repository: CommitProtocol, branch: str = MAIN, message: str = "a change") -> SnapshotId:
    """Commit an empty snapshot on top of a branch."""
    tip = repository.lookup_branch(branch)
    snapshot = write_snapshot(repository, tip, message)
    repository.commit(branch, snapshot, tip)
    return snapshot.id


def messages(repository: CommitProtocol, branch: str = MAIN) -> list[str]:
    """Of the commits of a branch, newest first, without that of the first snapshot."""
    return [info.message for info in repository.ancestry(repository.lookup_branch(branch))][:-1]


def commit_until_it_lands(repository: CommitProtocol, message: str) -> SnapshotId:
    """Commit on top of whatever is the tip of `main` by then."""
    while True:
        try:
            return commit(repository, message=message)
        except ConflictError as error:
            if error.kind != "commit-conflict":
                raise


def succeeds(act: Callable[..., object], *arguments: object) -> bool:
    """Whether something is done, or somebody else was faster."""
    try:
        act(*arguments)
    except (AlreadyExistsError, ConflictError):
        return False
    return True
