"""What changed between two versions."""

from frazil.repository import Repository
from frazil.snapshots import Diff


def find_changes(repository: Repository, old_id: str, new_id: str) -> Diff:
    """The changes from a snapshot to a later one; none from one to itself."""
    if old_id == new_id:
        return Diff()
    return repository.diff(from_snapshot_id=old_id, to_snapshot_id=new_id)
