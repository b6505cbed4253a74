"""Repositories of the generations before V2 for tests: small ones, written through the protocol."""

from collections.abc import Callable

from frazil.errors import AlreadyExistsError, ConflictError
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.metadata import Metadata
from frazil.format.snapshot import Snapshot
from frazil.format.transaction_log import TransactionLog
from frazil.protocols.assets import Assets, new_snapshot_id
from frazil.protocols.history import next_history, snapshot_parent_id
from frazil.protocols.protocol import MAIN, CommitProtocol, read_clock
from frazil.protocols.sequence_protocol import SequenceProtocol
from frazil.protocols.v1_protocol import V1Protocol
from frazil.storage.interface import Storage

OLDER = [dialect for dialect in Dialect if dialect is not Dialect.V2]
SEQUENCED = [dialect for dialect in OLDER if dialect is not Dialect.V1]


def unknown_id(dialect: Dialect) -> SnapshotId:
    """An id that no snapshot has."""
    return SnapshotId(b"never there!" + (b"!!!!" if dialect is Dialect.DRAFT else b""))


def open_as(storage: Storage, dialect: Dialect) -> CommitProtocol:
    """A repository as another process would open it that knows what it is."""
    assets = Assets(storage, dialect)
    return V1Protocol(assets) if dialect is Dialect.V1 else SequenceProtocol(assets)


def plan_snapshot(
    repository: CommitProtocol, parent_id: SnapshotId, message: str = "a change"
) -> Snapshot:
    """An empty snapshot on top of another."""
    parent, now = repository.assets.read_snapshot(parent_id), read_clock()
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


def succeeds(act: Callable[..., object], *arguments: object) -> bool:
    """Whether something is done, or somebody else was faster."""
    try:
        act(*arguments)
    except (AlreadyExistsError, ConflictError):
        return False
    return True
