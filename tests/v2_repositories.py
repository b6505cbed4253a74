"""V2 repositories for tests of what lies above the format: small ones, written through the protocol."""

from frazil.errors import ConflictError
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.metadata import Metadata
from frazil.format.snapshot import Snapshot
from frazil.format.transaction_log import TransactionLog
from frazil.protocols.assets import Assets, new_snapshot_id
from frazil.protocols.protocol import MAIN, UpdatePolicy, read_clock, time_after
from frazil.protocols.v2_protocol import V2Protocol, create_v2
from frazil.storage.interface import Storage

EAGER = UpdatePolicy(max_tries=1000, initial_backoff_seconds=0.001, max_backoff_seconds=0.02)
"""Tests race more than people do, and have less time."""

UNKNOWN_ID = SnapshotId(b"never there!")


def create_repository(storage: Storage, policy: UpdatePolicy = EAGER) -> V2Protocol:
    """A repository of one empty snapshot."""
    return create_v2(Assets(storage, Dialect.V2), None, policy)


def open_repository(storage: Storage, policy: UpdatePolicy = EAGER) -> V2Protocol:
    """A repository as another process would open it."""
    return V2Protocol(Assets(storage, Dialect.V2), policy)


def write_snapshot(
    repository: V2Protocol, parent_id: SnapshotId, message: str = "a change"
) -> Snapshot:
    """Write the files of an empty snapshot that no ref points to."""
    parent = repository.lookup_snapshot(parent_id)
    snapshot = Snapshot(
        new_snapshot_id(Dialect.V2),
        None,
        time_after(parent.flushed_at, read_clock()),
        message,
        Metadata({"by": "a test"}),
    )
    repository.assets.write_snapshot(snapshot)
    repository.assets.write_transaction_log(TransactionLog(snapshot.id))
    return snapshot


def commit(repository: V2Protocol, branch: str = MAIN, message: str = "a change") -> SnapshotId:
    """Commit an empty snapshot on top of a branch."""
    tip = repository.lookup_branch(branch)
    snapshot = write_snapshot(repository, tip, message)
    repository.commit(branch, snapshot, tip)
    return snapshot.id


def commit_until_it_lands(repository: V2Protocol, message: str) -> SnapshotId:
    """Commit on top of whatever is the tip of `main` by then."""
    while True:
        try:
            return commit(repository, message=message)
        except ConflictError as error:
            if error.kind != "commit-conflict":
                raise


def messages(repository: V2Protocol, branch: str = MAIN) -> list[str]:
    """Of the commits of a branch, newest first, without that of the first snapshot."""
    return [info.message for info in repository.ancestry(repository.lookup_branch(branch))][:-1]
