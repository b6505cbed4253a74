"""Rewrite all manifests with the current configuration, in one commit."""

from collections.abc import Mapping

from frazil.config.conditions import SplitSizes
from frazil.config.saved_config import SplitSizesShape
from frazil.errors import FormatError, InvalidInputError
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.metadata import JsonValue
from frazil.ops import CommitMethod, SessionMode
from frazil.repository.commit import amend, commit, describe, write_all_manifests
from frazil.repository.context import RepositoryContext, SessionState

_RESERVED = "__icechunk"
"""Key of commit metadata that is reserved for the library."""


def rewrite_manifests(
    context: RepositoryContext,
    branch: str,
    message: str,
    metadata: Mapping[str, JsonValue],
    commit_method: CommitMethod,
) -> SnapshotId:
    """Rewrite the manifests of a branch's tip, in a new commit or an amend.

    Parameters
    ----------
    context
        The context of the repository; its settings define the split sizes.
    branch
        The branch to rewrite.
    message
        The commit message.
    metadata
        The commit metadata; the split sizes are added to it.
    commit_method
        `"new_commit"` or `"amend"`.

    Returns
    -------
    SnapshotId
        The new tip.

    Raises
    ------
    InvalidInputError
        If the method is unknown.
    FormatError
        For an amend before V2.
    """
    protocol = context.protocol
    is_amend = is_amending(commit_method, protocol.dialect)
    protocol.refuse_unless_writable()
    tip = context.assets.read_snapshot(protocol.lookup_branch(branch))
    state = SessionState(context, tip, mode=SessionMode.writable, branch=branch)
    rules = context.settings.split_sizes
    text = describe(state, message, record_rules(metadata, rules))
    finish = amend if is_amend else commit
    return finish(state, text, allow_empty=True, write=write_all_manifests)


def is_amending(commit_method: CommitMethod, dialect: Dialect) -> bool:
    """Return whether a commit method amends the last commit.

    Raises InvalidInputError for an unknown method, FormatError for an amend before V2.
    """
    if commit_method not in ("new_commit", "amend"):
        raise InvalidInputError(
            f"invalid commit_method {commit_method!r}: it is neither 'new_commit' nor 'amend'"
        )
    is_amend = commit_method == "amend"
    if is_amend and not dialect.has_repo_info:
        raise FormatError(
            f"a repository of the generation {dialect.value} can't amend: use 'new_commit'",
            kind="unsupported-operation-for-version",
        )
    return is_amend


def record_rules(metadata: Mapping[str, JsonValue], rules: SplitSizes) -> dict[str, JsonValue]:
    """Return commit metadata that records the split sizes of the manifests."""
    reserved = metadata.get(_RESERVED)
    tree = {"split_sizes": SplitSizesShape().encode(rules, "splitting")}
    kept = reserved if isinstance(reserved, dict) else {}
    return {**metadata, _RESERVED: {**kept, "splitting_config": tree}}
