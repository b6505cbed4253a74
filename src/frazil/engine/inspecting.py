"""What is in the metadata files of a repository, as dictionaries for people and their scripts."""

from frazil.assets import Assets
from frazil.engine.describing import (
    describe_header,
    describe_log,
    describe_manifest,
    describe_snapshot,
)
from frazil.engine.describing_repo_info import Description, describe_repo_info
from frazil.engine.log_merging import merge_logs
from frazil.errors import NotFoundError, ObjectNotFoundError
from frazil.format.files import decode_repo_info
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.transaction_log import TransactionLog
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.repo_file import REPO
from frazil.snapshots import ManifestFileInfo
from frazil.snapshots.infos import public_manifest_file_info


def inspect_snapshot(protocol: CommitProtocol, id: SnapshotId) -> Description:
    """A snapshot's file; raises ObjectNotFoundError."""
    return describe_snapshot(protocol.assets.read_snapshot_file(id))


def list_manifest_files(protocol: CommitProtocol, id: SnapshotId) -> list[ManifestFileInfo]:
    """The manifests that a snapshot's arrays are in, by id; raises ObjectNotFoundError."""
    files = protocol.assets.read_snapshot(id).manifest_files
    return [public_manifest_file_info(info) for info in sorted(files, key=lambda info: info.id)]


def inspect_manifest(protocol: CommitProtocol, id: ManifestId) -> Description:
    """A manifest's file; its size is that of the payload, decompressed. Raises ObjectNotFoundError."""
    return describe_manifest(protocol.assets.read_manifest_data(id), str(id))


def inspect_transaction_log(protocol: CommitProtocol, id: SnapshotId) -> Description:
    """A snapshot's log, with those of expired ancestors that belong before it.

    Raises ObjectNotFoundError if it has no log of its own.
    """
    decoded = protocol.assets.read_transaction_log_file(id)
    pruned = _find_pruned_logs(protocol, id)
    if not pruned:
        return {"header": describe_header(decoded.header), **describe_log(decoded.value)}
    found = {each: _find_log(protocol.assets, each) for each in pruned}
    logs = [log for log in found.values() if log is not None]
    return {
        "header": describe_header(decoded.header),
        **describe_log(merge_logs([*logs, decoded.value], id)),
        "synthetic_composite": {
            "note": "the header is that of the snapshot's own log; what follows is that log together"
            " with those of the expired commits that came before it",
            "merged_pruned_ancestor_tx_logs": [str(each) for each in pruned if found[each]],
            "missing_tx_logs": [str(each) for each in pruned if found[each] is None],
        },
    }


def _find_pruned_logs(protocol: CommitProtocol, id: SnapshotId) -> tuple[SnapshotId, ...]:
    try:
        return protocol.lookup_snapshot(id).pruned_ancestor_tx_logs
    except NotFoundError:
        return ()  # the snapshot of a fork, which no history lists


def _find_log(assets: Assets, id: SnapshotId) -> TransactionLog | None:
    try:
        return assets.read_transaction_log(id)
    except ObjectNotFoundError:
        return None


def inspect_repo_info(protocol: CommitProtocol) -> Description:
    """The repo info's file as it is now; raises FormatError where the generation has none."""
    protocol.read_repo_info()
    decoded = decode_repo_info(bytes(protocol.assets.storage.get(REPO)))
    return {"header": describe_header(decoded.header), **describe_repo_info(decoded.value)}
