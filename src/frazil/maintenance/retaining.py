"""Performing what the policies of branches and tags say. No file is deleted."""

from frazil.format.repo_info import ExpirationRan, RepoInfo
from frazil.format.times import Nanoseconds
from frazil.maintenance.expiry import ExpiryPlan
from frazil.maintenance.retention import Policies, plan_retention, with_policies
from frazil.ops import ExpirySummary
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.repo_changes import Change
from frazil.protocols.v2 import RepoObject


def set_policies(protocol: CommitProtocol, policies: Policies) -> None:
    """Let these policies hold, and no others."""
    _require_v2(protocol).update_metadata(lambda before: with_policies(before, policies))


def expire_by_policies(
    protocol: CommitProtocol, now: Nanoseconds, policies: Policies | None = None, *, dry_run: bool
) -> ExpirySummary:
    """Take out of the history what no policy of a ref that leads to it keeps.

    The policies are those of the repository, unless others are given.

    Nothing is written in a dry run, nor where there is nothing to be released.
    """
    repository = _require_v2(protocol)
    plans = [plan_retention(repository.read_repo_info(), now, policies)]

    def expire(info: RepoInfo) -> Change:
        plans.append(plan_retention(info, now, policies))
        return Change(plans[-1].info, ExpirationRan())

    if plans[0].released and not dry_run:
        repository.update(expire)
    return summarize(plans[-1])


def summarize(plan: ExpiryPlan) -> ExpirySummary:
    """A plan as users see it."""
    return ExpirySummary(set(map(str, plan.released)), len(plan.info.snapshots))


def _require_v2(protocol: CommitProtocol) -> RepoObject:
    if not isinstance(protocol, RepoObject):
        raise protocol.unsupported("retention policies")
    return protocol
