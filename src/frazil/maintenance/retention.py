"""Which snapshots the policies of branches and tags let go: pure.

A policy goes with a pattern for the names of branches and tags. A ref keeps what any policy that fits
its name keeps, and everything if none fits. Who loses a parent continues from the nearest ancestor that
stays. What no ref leads to is not judged here: garbage collection knows whether it is old enough.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from fnmatch import fnmatchcase

from frazil.config.retention import RetentionPolicy
from frazil.errors import InvalidTypeError
from frazil.format.ids import SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.repo_info import RepoInfo, SnapshotInfo
from frazil.format.times import Nanoseconds
from frazil.maintenance.expiry import ExpiryPlan
from frazil.maintenance.parents import ancestors_of, release
from frazil.protocols.reserved_metadata import read_section, with_section

_SECTION = "retention"

Policies = Mapping[str, RetentionPolicy]
"""By the pattern that names must fit, as `fnmatch` has them; upper and lower case differ."""


def read_policies(metadata: Mapping[str, JsonValue]) -> dict[str, RetentionPolicy]:
    """The policies in a repository's metadata; raises FormatError for what is none."""
    entries = read_section(metadata, _SECTION)
    return {pattern: RetentionPolicy.decode(tree) for pattern, tree in entries.items()}


def with_policies(metadata: Mapping[str, JsonValue], policies: Policies) -> dict[str, JsonValue]:
    """The metadata with these policies instead of others."""
    for pattern, policy in policies.items():
        if not isinstance(policy, RetentionPolicy):
            raise InvalidTypeError(
                f"invalid policy {policy!r} of {pattern!r}: give a RetentionPolicy"
            )
    tree = {pattern: policy.encode() for pattern, policy in policies.items()}
    return with_section(metadata, _SECTION, tree)


def plan_retention(
    info: RepoInfo, now: Nanoseconds, policies: Policies | None = None
) -> ExpiryPlan:
    """What policies, or those of the repository, let go, and what is left of it."""
    if policies is None:
        policies = read_policies(info.metadata)
    reached: set[SnapshotId] = set()
    kept: set[SnapshotId] = set()
    for name, tip in (*info.branches.items(), *info.tags.items()):
        line = _line(info, tip)
        reached.update(each.id for each in line)
        kept.update(_kept_by(_policies_for(policies, name), line, now))
    released = frozenset(reached - kept)
    return ExpiryPlan(released, release(info, released, released))


def _kept_by(
    policies: list[RetentionPolicy], line: list[SnapshotInfo], now: Nanoseconds
) -> Iterator[SnapshotId]:
    """What a ref keeps of its line, newest first: its tip and the first snapshot in any case."""
    for number, each in enumerate(line):
        age = timedelta(microseconds=(now - each.flushed_at) // 1000)
        is_end = number == 0 or each.parent_id is None
        if is_end or not policies or any(policy.keeps(number, age) for policy in policies):
            yield each.id


def _line(info: RepoInfo, tip: SnapshotId) -> list[SnapshotInfo]:
    snapshot = info.snapshots[tip]
    return [snapshot, *ancestors_of(info.snapshots, snapshot)]


def _policies_for(policies: Policies, name: str) -> list[RetentionPolicy]:
    return [policy for pattern, policy in policies.items() if fnmatchcase(name, pattern)]
