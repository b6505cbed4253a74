"""Version control beyond the official library, in commits that it reads like any other."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from frazil.asynchronous import asynchronous
from frazil.config import RetentionPolicy
from frazil.conflicts import ConflictDetector, ConflictSolver
from frazil.engine import cherry_picking, fast_forwarding, squashing
from frazil.format.times import from_datetime, require_zone
from frazil.maintenance import retaining
from frazil.maintenance.retention import read_policies
from frazil.ops import ExpirySummary
from frazil.protocols.protection import read_protected
from frazil.repository.base import RepositoryPart, parse_snapshot_id


class Editing(RepositoryPart):
    """Edits of the history, and what holds for single branches and tags."""

    # History

    def squash(
        self,
        branch: str,
        since: str,
        *,
        message: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Make one commit of all that a branch has after the snapshot `since`; gives its id.

        Without a message it lists those of the commits. Only a snapshot and a transaction log are
        written; the commits stay until garbage is collected. Raises ConflictError if somebody
        commits to the branch meanwhile, and then changes nothing.
        """
        return str(
            squashing.squash(
                self._surroundings, branch, parse_snapshot_id(since), message, metadata or {}
            )
        )

    squash_async = asynchronous(squash)

    def cherry_pick(
        self,
        snapshot_id: str,
        *,
        onto: str,
        message: str | None = None,
        rebase_with: ConflictSolver | None = None,
    ) -> str:
        """Commit what one commit changed to the branch `onto` as well; gives the new snapshot id.

        Message and metadata are those of the commit, and the metadata tells where it came from.
        Raises RebaseFailedError with all conflicts that the solver does not solve; a commit that
        moved nodes can't be picked.
        """
        id, solver = parse_snapshot_id(snapshot_id), rebase_with or ConflictDetector()
        return str(cherry_picking.cherry_pick(self._surroundings, id, onto, message, solver))

    cherry_pick_async = asynchronous(cherry_pick)

    def fast_forward(self, branch: str, to: str) -> str:
        """Move a branch to the tip of the branch `to`, which builds on it; gives that snapshot id.

        Raises DivergedError if the branch has commits that `to` has not.
        """
        return str(fast_forwarding.fast_forward(self._protocol, branch, to))

    fast_forward_async = asynchronous(fast_forward)

    # Protected branches

    def protect_branch(self, branch: str, *, by: str | None = None) -> None:
        """Let a branch move by `fast_forward` only; V2 repositories only.

        Whoever uses Frazil gets a ReadOnlyError that names `by`. The official library does not know
        of it.
        """
        self._protocol.protect_branch(branch, by)

    protect_branch_async = asynchronous(protect_branch)

    def unprotect_branch(self, branch: str) -> None:
        """Let a branch move in any way again; raises RefNotFoundError if it is not protected."""
        self._protocol.unprotect_branch(branch)

    unprotect_branch_async = asynchronous(unprotect_branch)

    def protected_branches(self) -> dict[str, str | None]:
        """The names of protected branches, and who protects each, if that was said."""
        return read_protected(self._protocol.read_repo_info().metadata)

    protected_branches_async = asynchronous(protected_branches)

    # Retention

    def set_retention(self, policies: Mapping[str, RetentionPolicy]) -> None:
        """Say what branches and tags keep, by patterns of their names such as `"nightly-*"`.

        These policies replace all others. They hold for `expire`; V2 repositories only.
        """
        retaining.set_policies(self._protocol, policies)

    set_retention_async = asynchronous(set_retention)

    def retention(self) -> dict[str, RetentionPolicy]:
        """What branches and tags keep, by patterns of their names."""
        return read_policies(self._protocol.read_repo_info().metadata)

    retention_async = asynchronous(retention)

    def expire(
        self,
        *,
        now: datetime | None = None,
        policies: Mapping[str, RetentionPolicy] | None = None,
        dry_run: bool = False,
    ) -> ExpirySummary:
        """Take snapshots out of the history that no branch or tag keeps by its policies.

        They are those of the repository, unless others are given. A branch or tag without a policy
        keeps all that leads to it. Files are only deleted when garbage is collected. A dry run tells
        what would be released.
        """
        time = from_datetime(require_zone(now or datetime.now(UTC), "now"))
        return retaining.expire_by_policies(self._protocol, time, policies, dry_run=dry_run)

    expire_async = asynchronous(expire)
