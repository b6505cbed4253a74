"""Which snapshots expire where refs are files and snapshots name their own parents: pure.

Each ref is looked at by itself. The oldest snapshot on its way that is not too old, or its tip if all
are, continues from the first snapshot. What is between is released, as the official library counts it:
with a tip that is too old, though a ref still leads to it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from frazil.format.ids import SnapshotId
from frazil.format.repo_info import SnapshotInfo
from frazil.maintenance.expiry import ExpiryPolicy
from frazil.protocols.interface import MAIN

Line = tuple[SnapshotInfo, ...]
"""A snapshot and those before it, newest first."""


@dataclass(frozen=True, slots=True)
class FileExpiryPlan:
    """What an expiry does."""

    released: frozenset[SnapshotId]
    lines: tuple[Line, ...]
    """What is left of each ref that loses snapshots; the last of a line is the first snapshot."""
    branches: tuple[str, ...]
    """To be deleted."""
    tags: tuple[str, ...]
    """To be deleted."""


def plan_file_expiry(
    branches: Mapping[str, Line], tags: Mapping[str, Line], policy: ExpiryPolicy
) -> FileExpiryPlan:
    """What leaves the history, from the whole line of each ref."""
    released: set[SnapshotId] = set()
    lines = []
    for line in (*branches.values(), *tags.values()):
        left = plan_line(line, policy)
        if len(left) < len(line):
            lines.append(left)
            released |= _ids(line) - _ids(left) | _ids(filter(policy.is_expired, line[:1]))
    others = {name: line for name, line in branches.items() if name != MAIN}
    return FileExpiryPlan(
        frozenset(released),
        tuple(lines),
        _expired_refs(others, policy) if policy.deletes_branches else (),
        _expired_refs(tags, policy) if policy.deletes_tags else (),
    )


def plan_line(line: Line, policy: ExpiryPolicy) -> Line:
    """What is left of a line: up to the oldest that is recent, or else its tip; and the first."""
    *others, first = line
    while len(others) > 1 and policy.is_expired(others[-1]):
        others.pop()
    return (*others, first)


def _expired_refs(refs: Mapping[str, Line], policy: ExpiryPolicy) -> tuple[str, ...]:
    return tuple(sorted(name for name, line in refs.items() if policy.is_expired(line[0])))


def _ids(snapshots: Iterable[SnapshotInfo]) -> set[SnapshotId]:
    return {each.id for each in snapshots}
