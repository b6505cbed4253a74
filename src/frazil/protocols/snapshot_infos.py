"""What snapshot files say of the history, in the generations that list it nowhere else."""

from collections.abc import Callable, Iterator

from frazil.assets import Assets
from frazil.errors import ObjectNotFoundError, SnapshotNotFoundError
from frazil.format.ids import SnapshotId
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import Snapshot


class SnapshotFileNotFoundError(SnapshotNotFoundError, ObjectNotFoundError):
    """A snapshot has no file: to the official library a matter of the storage, to callers of the id."""

    default_kind = ObjectNotFoundError.default_kind


def read_snapshot(assets: Assets, id: SnapshotId) -> Snapshot:
    """A snapshot; raises SnapshotFileNotFoundError."""
    try:
        return assets.read_snapshot(id)
    except ObjectNotFoundError as error:
        raise SnapshotFileNotFoundError(f"there is no snapshot {id}") from error


def read_snapshot_anew(assets: Assets, id: SnapshotId) -> Snapshot:
    """A snapshot as its file is now; raises SnapshotFileNotFoundError, also for a collected one."""
    try:
        return assets.read_snapshot_file_anew(id).value
    except ObjectNotFoundError as error:
        raise SnapshotFileNotFoundError(f"there is no snapshot {id}") from error


def describe_snapshot(snapshot: Snapshot) -> SnapshotInfo:
    """A snapshot without its nodes."""
    return SnapshotInfo(
        id=snapshot.id,
        parent_id=snapshot.parent_id,
        flushed_at=snapshot.flushed_at,
        message=snapshot.message,
        metadata=snapshot.metadata,
    )


def follow_parents(
    lookup: Callable[[SnapshotId], SnapshotInfo], info: SnapshotInfo
) -> Iterator[SnapshotInfo]:
    """A snapshot and those before it, newest first, each by the parent that its file names."""
    yield info
    while info.parent_id is not None:
        info = lookup(info.parent_id)
        yield info
