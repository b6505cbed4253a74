"""Making one commit of several, without writing anything but a snapshot and a transaction log."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from frazil.assets import Assets, new_snapshot_id
from frazil.engine.commits import CommitText, write_files
from frazil.engine.diffing import commits_between
from frazil.engine.net_log import net_log
from frazil.engine.state import Surroundings
from frazil.errors import ObjectNotFoundError
from frazil.format.ids import SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.metadata import Metadata
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import Snapshot
from frazil.format.transaction_log import TransactionLog
from frazil.protocols.clock import read_clock, time_after
from frazil.protocols.history import snapshot_parent_id
from frazil.protocols.interface import Replaced
from frazil.protocols.recorded_history import continue_history
from frazil.protocols.snapshot_infos import read_snapshot


def squash(
    surroundings: Surroundings,
    branch: str,
    since: SnapshotId,
    message: str | None,
    metadata: Mapping[str, JsonValue],
) -> SnapshotId:
    """Make one commit of all that a branch has after a snapshot; gives its id.

    Raises InvalidInputError unless the snapshot is an ancestor of the tip, ReadOnlyError for a
    protected branch, ConflictError if somebody commits meanwhile: then the branch has that commit.
    """
    protocol, assets = surroundings.protocol, surroundings.assets
    protocol.refuse_unless_writable()
    tip_id = protocol.lookup_branch_to_change(branch)
    commits = commits_between(protocol, since, tip_id)[::-1]
    base, tip = read_snapshot(assets, since), read_snapshot(assets, tip_id)
    text = list_messages(commits) if message is None else message
    said = {**surroundings.default_commit_metadata, **metadata}
    snapshot = _build(base, tip, CommitText(text, said), assets)
    logs, lost = _read_logs(assets, commits)
    write_files(assets, snapshot, net_log(logs, base, tip, snapshot.id))
    protocol.squash(branch, snapshot, Replaced(since, tip_id, lost))
    return snapshot.id


def list_messages(commits: Sequence[SnapshotInfo]) -> str:
    """What a commit says that takes the place of others, oldest first."""
    if len(commits) == 1:
        return commits[0].message
    lines = [f"- {commit.message}" for commit in commits]
    return "\n".join([f"Squashed {len(commits)} commits:", "", *lines])


def _build(base: Snapshot, tip: Snapshot, text: CommitText, assets: Assets) -> Snapshot:
    """The tip's nodes and manifests right after the base."""
    now = read_clock()
    return replace(
        tip,
        id=new_snapshot_id(assets.dialect),
        parent_id=snapshot_parent_id(base, assets.dialect),
        flushed_at=time_after(tip.flushed_at, now),
        message=text.message,
        metadata=Metadata(text.metadata),
        history=continue_history(assets, base.id, now),
    )


def _read_logs(
    assets: Assets, commits: Iterable[SnapshotInfo]
) -> tuple[list[TransactionLog], tuple[SnapshotId, ...]]:
    """The logs of commits, in their order, and the ids of those that are gone with expired ones."""
    logs: list[TransactionLog] = []
    lost: list[SnapshotId] = []
    if assets.layout.transactions is None:
        return logs, ()
    for info in commits:
        for id in info.pruned_ancestor_tx_logs:
            try:
                logs.append(assets.read_transaction_log(id))
            except ObjectNotFoundError:
                lost.append(id)
        logs.append(assets.read_transaction_log(info.id))
    return logs, tuple(lost)
