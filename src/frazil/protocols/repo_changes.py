"""Apply operations to a V2 repo info. Pure functions that raise if an operation is not allowed."""

from collections.abc import Callable, Mapping, Sequence, Set

from frazil.config.settings import FeatureFlag
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    InvalidInputError,
    ReadOnlyError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.format import repo_info as model
from frazil.format.ids import SnapshotId
from frazil.format.metadata import JsonValue, Metadata, Value, encode_rfc3339
from frazil.format.repo_info import (
    Availability,
    RepoInfo,
    RepoStatus,
    SnapshotInfo,
    UpdateType,
    with_entries,
)
from frazil.lazy import dataclass, replace
from frazil.protocols.protocol import lost_source

MOVE_NODE = FeatureFlag(3, "move_node", default_enabled=True)
CREATE_TAG = FeatureFlag(4, "create_tag", default_enabled=True)
DELETE_TAG = FeatureFlag(5, "delete_tag", default_enabled=True)

FEATURE_FLAGS = (MOVE_NODE, CREATE_TAG, DELETE_TAG)
"""All flags of the specification; the ids 1 and 2 are reserved."""


def feature_flag_named(name: str) -> FeatureFlag:
    """Return the flag of a name; raises InvalidInputError."""
    for flag in FEATURE_FLAGS:
        if flag.name == name:
            return flag
    known = ", ".join(flag.name for flag in FEATURE_FLAGS)
    raise InvalidInputError(
        f"{name!r} is not a feature flag: expected one of {known}", kind="invalid-feature-flag"
    )


def list_feature_flags(info: RepoInfo) -> list[FeatureFlag]:
    """Return all flags with their settings in a repository."""
    return [replace(flag, setting=find_setting(info, flag)) for flag in FEATURE_FLAGS]


def find_setting(info: RepoInfo, flag: FeatureFlag) -> bool | None:
    """Return the explicit setting of a flag in a repository, or None."""
    if flag.id in (info.disabled_feature_flags or ()):
        return False
    return True if flag.id in (info.enabled_feature_flags or ()) else None


def is_enabled(info: RepoInfo, flag: FeatureFlag) -> bool:
    """Return whether a feature is enabled in a repository."""
    setting = find_setting(info, flag)
    return flag.default_enabled if setting is None else setting


def refuse_unless_enabled(info: RepoInfo, flag: FeatureFlag) -> None:
    """Raise SessionStateError if a feature is disabled."""
    if not is_enabled(info, flag):
        raise SessionStateError(
            f"the feature {flag.name} of this repository is disabled: enable it with set_feature_flag",
            kind="feature-flag-disabled",
        )


RESERVED = "__frazil"
"""Key reserved for Frazil in the metadata of repositories and commits."""


def read_section(metadata: Mapping[str, JsonValue], section: str) -> Mapping[str, JsonValue]:
    """Return a section of the reserved metadata; empty if it is absent or malformed."""
    found = _read_sections(metadata).get(section)
    return found if isinstance(found, dict) else {}


def with_section(
    metadata: Mapping[str, JsonValue], section: str, content: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the metadata with a section replaced; removes the reserved key if no section is left."""
    sections = {**_read_sections(metadata), section: dict(content)}
    filled = {name: each for name, each in sections.items() if each}
    others = {name: each for name, each in metadata.items() if name != RESERVED}
    return {**others, RESERVED: filled} if filled else others


def keep_reserved(
    before: Mapping[str, JsonValue], metadata: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the new metadata with the reserved key of the old one, unless the new one sets it."""
    if RESERVED not in before:
        return dict(metadata)
    return {RESERVED: before[RESERVED], **metadata}


def _read_sections(metadata: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    found = metadata.get(RESERVED)
    return found if isinstance(found, dict) else {}


_SECTION = "protected_branches"


def read_protected(metadata: Mapping[str, JsonValue]) -> dict[str, str | None]:
    """Return the names of protected branches, each with the recorded protector or None."""
    return {name: _read_by(entry) for name, entry in read_section(metadata, _SECTION).items()}


def refuse_protected(metadata: Mapping[str, JsonValue], branch: str) -> None:
    """Raise ReadOnlyError if a branch is protected."""
    entries = read_section(metadata, _SECTION) if metadata else {}
    if branch in entries:
        by = _read_by(entries[branch])
        protected = "protected" if by is None else f"protected by {by}"
        raise ReadOnlyError(
            f"branch {branch!r} is {protected}: commit to another branch, and bring it here with"
            f" fast_forward({branch!r}, to=...), or ask for unprotect_branch({branch!r})",
            kind="read-only-repository",
        )


def with_protection(
    metadata: Mapping[str, JsonValue], branch: str, by: str | None
) -> dict[str, JsonValue]:
    """Return the metadata with a branch added to the protected ones."""
    entry = {} if by is None else {"by": by}
    return with_section(metadata, _SECTION, {**read_section(metadata, _SECTION), branch: entry})


def without_protection(metadata: Mapping[str, JsonValue], branch: str) -> dict[str, JsonValue]:
    """Return the metadata without a branch's protection; raises RefNotFoundError if it has none."""
    entries = dict(read_section(metadata, _SECTION))
    if branch not in entries:
        raise RefNotFoundError(f"there is no protected branch {branch!r}")
    del entries[branch]
    return with_section(metadata, _SECTION, entries)


def _read_by(entry: JsonValue) -> str | None:
    by = entry.get("by") if isinstance(entry, dict) else None
    return by if isinstance(by, str) else None


@dataclass(frozen=True, slots=True)
class Change:
    """New repo info, with its entry for the ops log."""

    info: RepoInfo
    kind: UpdateType


# Lookups


def refuse_unless_online(info: RepoInfo) -> None:
    """Raise ReadOnlyError if the repository is not online."""
    status = info.status
    if status.availability is not Availability.ONLINE:
        reason = status.limited_availability_reason or "no reason was given"
        raise ReadOnlyError(
            f"the repository status is {status.availability.name.lower().replace('_', '-')} "
            f"since {encode_rfc3339(status.set_at)}: {reason}",
            kind="read-only-repository",
        )


def snapshot_info(info: RepoInfo, id: SnapshotId) -> SnapshotInfo:
    """Return a snapshot of the history; raises SnapshotNotFoundError."""
    try:
        return info.snapshots[id]
    except KeyError:
        raise SnapshotNotFoundError(f"snapshot not found: `{id}`") from None


def branch_tip(info: RepoInfo, name: str) -> SnapshotId:
    """Return the tip of a branch; raises RefNotFoundError."""
    tip = info.branches.get(name)
    if tip is None:
        raise RefNotFoundError(f"ref not found `{name}`: there is no such branch")
    return tip


def tagged_snapshot(info: RepoInfo, name: str) -> SnapshotId:
    """Return the snapshot of a tag; raises RefNotFoundError."""
    found = info.tags.get(name)
    if found is None:
        raise RefNotFoundError(f"ref not found `{name}`: there is no such tag")
    return found


# Refs


def create_branch(info: RepoInfo, name: str, snapshot_id: SnapshotId) -> Change:
    """Create a branch at a snapshot."""
    snapshot_info(info, snapshot_id)
    if name in info.branches:
        raise AlreadyExistsError(
            f"branch already exists `{name} -> {info.branches[name]}`", kind="branch-already-exists"
        )
    return Change(_with_branch(info, name, snapshot_id), model.BranchCreated(name))


def delete_branch(info: RepoInfo, name: str) -> Change:
    """Delete a branch."""
    former = branch_tip(info, name)
    refuse_protected(info.metadata, name)
    branches = {each: tip for each, tip in info.branches.items() if each != name}
    return Change(replace(info, branches=branches), model.BranchDeleted(name, former))


def reset_branch(
    info: RepoInfo, name: str, snapshot_id: SnapshotId, expected: SnapshotId | None
) -> Change:
    """Reset a branch to a snapshot, unless it is protected."""
    refuse_protected(info.metadata, name)
    return advance_branch(info, name, snapshot_id, expected)


def advance_branch(
    info: RepoInfo, name: str, snapshot_id: SnapshotId, expected: SnapshotId | None
) -> Change:
    """Move a branch to a snapshot, even if it is protected."""
    if expected is not None:
        _refuse_unless_tip(info, name, expected, kind="branch-update-conflict")
    former = branch_tip(info, name)
    snapshot_info(info, snapshot_id)
    return Change(_with_branch(info, name, snapshot_id), model.BranchReset(name, former))


def create_tag(info: RepoInfo, name: str, snapshot_id: SnapshotId) -> Change:
    """Create an immutable tag."""
    snapshot_info(info, snapshot_id)
    refuse_unless_enabled(info, CREATE_TAG)
    if name in info.deleted_tags:
        raise AlreadyExistsError(
            f"icechunk does not allow tag reuse and tag was already deleted `{name}`",
            kind="tag-previously-deleted",
        )
    if name in info.tags:
        raise AlreadyExistsError(
            f"tag already exists, tags are immutable: `{name}`", kind="tag-already-exists"
        )
    tags = {**info.tags, name: snapshot_id}
    return Change(replace(info, tags=tags), model.TagCreated(name))


def delete_tag(info: RepoInfo, name: str) -> Change:
    """Delete a tag; its name stays reserved."""
    refuse_unless_enabled(info, DELETE_TAG)
    former = tagged_snapshot(info, name)
    tags = {each: tagged for each, tagged in info.tags.items() if each != name}
    deleted = info.deleted_tags | {name}
    return Change(replace(info, tags=tags, deleted_tags=deleted), model.TagDeleted(name, former))


# Snapshots


def commit(info: RepoInfo, branch: str, snapshots: Sequence[SnapshotInfo]) -> Change:
    """Commit snapshots, each the parent of the next, on top of a branch."""
    refuse_protected(info.metadata, branch)
    parent_id = snapshots[0].parent_id
    assert parent_id is not None
    _refuse_unless_tip(info, branch, parent_id, kind="commit-conflict")
    for each in snapshots:
        assert each.parent_id is not None
        info = _with_snapshot(info, each, each.parent_id, branch)
    return Change(info, model.NewCommit(branch, snapshots[-1].id))


def amend(info: RepoInfo, branch: str, snapshot: SnapshotInfo, replaced: SnapshotId) -> Change:
    """Replace the tip of a branch; the old tip stays in the history until garbage collection."""
    refuse_protected(info.metadata, branch)
    _refuse_unless_tip(info, branch, replaced, kind="commit-conflict")
    former = snapshot_info(info, replaced)
    if former.parent_id is None:
        raise SessionStateError(
            "the first commit in the repository cannot be an amend, create a new commit instead",
            kind="no-amend-for-initial-commit",
        )
    heir = replace(snapshot, pruned_ancestor_tx_logs=former.pruned_ancestor_tx_logs)
    changed = _with_snapshot(info, heir, former.parent_id, branch)
    return Change(changed, model.CommitAmended(branch, replaced, heir.id))


def squash(
    info: RepoInfo, branch: str, snapshot: SnapshotInfo, parent_id: SnapshotId, tip: SnapshotId
) -> Change:
    """Replace all commits of a branch after `parent_id` with one snapshot."""
    refuse_protected(info.metadata, branch)
    _refuse_unless_tip(info, branch, tip, kind="branch-update-conflict")
    changed = _with_snapshot(info, snapshot, parent_id, branch)
    return Change(changed, model.CommitAmended(branch, tip, snapshot.id))


def register(info: RepoInfo, snapshot: SnapshotInfo, parent_id: SnapshotId) -> Change:
    """Add a snapshot to the history without a ref to it."""
    changed = _with_snapshot(info, snapshot, parent_id)
    return Change(changed, model.NewDetachedSnapshot(snapshot.id))


def with_sources(
    info: RepoInfo, change: Callable[[RepoInfo], Change], sources: Set[SnapshotId]
) -> Change:
    """Apply a change that adds a snapshot; raises SnapshotNotFoundError if one of `sources` is gone.

    Sources are the snapshots whose chunks the new one uses. Garbage collection keeps only the chunks of
    snapshots in the history.
    """
    changed = change(info)
    lost = [id for id in sources if id not in info.snapshots]
    if lost:
        raise lost_source(min(lost))
    return changed


# State


def set_config(info: RepoInfo, config: Mapping[str, JsonValue]) -> Change:
    """Replace the saved configuration."""
    return Change(replace(info, config=Value(dict(config))), model.ConfigChanged())


def change_metadata(
    info: RepoInfo, change: Callable[[Mapping[str, JsonValue]], Mapping[str, JsonValue]]
) -> Change:
    """Replace the repository's metadata with a function of it."""
    return Change(replace(info, metadata=Metadata(change(info.metadata))), model.MetadataChanged())


def protect_branch(info: RepoInfo, name: str, by: str | None) -> Change:
    """Protect a branch: only a fast-forward can move it."""
    branch_tip(info, name)
    return change_metadata(info, lambda before: with_protection(before, name, by))


def unprotect_branch(info: RepoInfo, name: str) -> Change:
    """Remove the protection of a branch."""
    return change_metadata(info, lambda before: without_protection(before, name))


def set_status(info: RepoInfo, status: RepoStatus) -> Change:
    """Set the status; the only change that a read-only repository allows."""
    return Change(replace(info, status=status), model.RepoStatusChanged(status))


def set_feature_flag(info: RepoInfo, id: int, setting: bool | None) -> Change:
    """Set a feature flag; a list that never had a flag stays absent."""
    changed = replace(
        info,
        enabled_feature_flags=_with_flag(info.enabled_feature_flags, id, setting is True),
        disabled_feature_flags=_with_flag(info.disabled_feature_flags, id, setting is False),
    )
    return Change(changed, model.FeatureFlagChanged(id, setting))


def _with_flag(flags: tuple[int, ...] | None, id: int, is_in: bool) -> tuple[int, ...] | None:
    if is_in:
        return tuple(sorted({*(flags or ()), id}))
    return None if flags is None else tuple(flag for flag in flags if flag != id)


def _with_branch(info: RepoInfo, name: str, tip: SnapshotId) -> RepoInfo:
    return replace(info, branches={**info.branches, name: tip})


def _with_snapshot(
    info: RepoInfo, snapshot: SnapshotInfo, parent_id: SnapshotId, branch: str | None = None
) -> RepoInfo:
    """Add a snapshot, as the tip of a branch if there is one."""
    parent = snapshot_info(info, parent_id)
    if snapshot.id in info.snapshots:
        raise FormatError(
            f"the repository has a snapshot {snapshot.id}", kind="duplicate-snapshot-id"
        )
    if snapshot.flushed_at <= parent.flushed_at:
        raise FormatError(
            f"snapshot {snapshot.id} of {encode_rfc3339(snapshot.flushed_at)} is not later than "
            f"its parent {parent_id} of {encode_rfc3339(parent.flushed_at)}",
            kind="snapshot-timestamp",
        )
    if snapshot.parent_id != parent_id:
        snapshot = replace(snapshot, parent_id=parent_id)
    return replace(
        info,
        snapshots=with_entries(info.snapshots, {snapshot.id: snapshot}),
        branches=info.branches if branch is None else {**info.branches, branch: snapshot.id},
    )


def _refuse_unless_tip(info: RepoInfo, branch: str, expected: SnapshotId, *, kind: str) -> None:
    tip = info.branches.get(branch)
    if tip is None:
        raise RefNotFoundError(f"branch not found `{branch}`", kind="branch-not-found")
    if tip != expected:
        raise ConflictError(
            addition=f"the tip of branch {branch!r} is {tip}, not {expected}",
            expected_parent=str(expected),
            actual_parent=str(tip),
            kind=kind,
        )
