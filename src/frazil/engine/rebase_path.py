"""Which commits lie between a session's base and the tip of its branch.

Usually the base is an ancestor of the tip. It is not where the branch was reset or its tip amended:
then the commits after the last common ancestor count. Nor is it in the history where it has expired:
then a later snapshot still names it among the logs that belong before its own.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from frazil.errors import SnapshotNotFoundError
from frazil.format.ids import SnapshotId
from frazil.format.repo_info import SnapshotInfo
from frazil.protocols.interface import CommitProtocol


@dataclass(frozen=True, slots=True)
class Step:
    """A commit to pass, and which logs of expired ancestors belong before its own."""

    snapshot_id: SnapshotId
    pruned_logs: tuple[SnapshotId, ...] = ()
    has_log: bool = True
    """False where the branch only went back: nothing was committed, but nodes may be gone."""


def plan_steps(protocol: CommitProtocol, base: SnapshotId, tip: SnapshotId) -> list[Step]:
    """The commits to pass, oldest first; none if the base is the tip."""
    if base == tip:
        return []
    steps = find_steps(protocol.ancestry(tip), {base})
    if steps is None:
        infos = list(protocol.ancestry(tip))
        # The first snapshot is empty in every repository: there all histories meet.
        steps = find_steps(infos, _find_history(protocol, base) | {infos[-1].id}) or []
    return steps[::-1] or [Step(tip, has_log=False)]


def find_steps(ancestry: Iterable[SnapshotInfo], known: Set[SnapshotId]) -> list[Step] | None:
    """The commits of an ancestry before one that is known, newest first; None if none is known."""
    steps: list[Step] = []
    for info in ancestry:
        if info.id in known:
            return steps
        pruned = info.pruned_ancestor_tx_logs
        last = max((at for at, id in enumerate(pruned) if id in known), default=None)
        if last is not None:
            return [*steps, Step(info.id, pruned[last + 1 :])]
        steps.append(Step(info.id, pruned))
    return None


def _find_history(protocol: CommitProtocol, base: SnapshotId) -> set[SnapshotId]:
    """All that a base builds on, as far as it is known: a base may be forgotten itself."""
    try:
        infos = list(protocol.ancestry(base))
    except SnapshotNotFoundError:
        infos = []
    ids = {base}
    for info in infos:
        ids.update((info.id, *info.pruned_ancestor_tx_logs))
    return ids
