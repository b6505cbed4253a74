"""Moving a branch on to what another one has built on it; nothing is written but the ref."""

from frazil.engine.rebase_path import find_steps
from frazil.errors import DivergedError
from frazil.format.ids import SnapshotId
from frazil.protocols.interface import CommitProtocol


def fast_forward(protocol: CommitProtocol, branch: str, to: str) -> SnapshotId:
    """Move a branch, also a protected one, to the tip of another; gives that tip.

    Raises DivergedError if the branch has commits that the other has not, and ConflictError if it gets
    one meanwhile.
    """
    tip, target = protocol.lookup_branch(branch), protocol.lookup_branch(to)
    if tip == target:
        return target
    # An expiry may have taken the tip out of the ancestry, but not out of the list of logs.
    if find_steps(protocol.ancestry(target), {tip}) is None:
        raise DivergedError(
            message=f"branch {branch!r} can't be moved on to {target}, the tip of {to!r}: its own"
            f" tip {tip} is no ancestor of that, so that commits would be lost; cherry-pick"
            " commits instead, or reset the branch",
            expected_parent=str(tip),
            actual_parent=str(target),
        )
    protocol.advance_branch(branch, target, tip)
    return target
