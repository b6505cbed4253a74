"""Writing the state of a copy, the last step: what is there becomes a repository, or a newer one.

A V2 repository appears and changes by one conditional write. Before V2 refs are files: each moves only
from where it was seen, and `main` comes last, without which there is no repository.
"""

from dataclasses import replace

from frazil.assets import Assets
from frazil.errors import DivergedError
from frazil.format.ids import SnapshotId
from frazil.format.metadata import Metadata, Value
from frazil.format.refs import Ref
from frazil.format.repo_info import (
    MetadataChanged,
    RepoInfo,
    RepoInitialized,
    RepoStatus,
    Update,
)
from frazil.format.times import Nanoseconds
from frazil.protocols.clock import read_clock
from frazil.protocols.file_protocol import FileProtocol
from frazil.protocols.interface import MAIN, CommitProtocol, UpdatePolicy
from frazil.protocols.repo_changes import Change
from frazil.protocols.repo_file import RepoFile
from frazil.protocols.sequences import SequenceFiles
from frazil.protocols.tag_files import FOLDERS, TagFiles
from frazil.protocols.v1 import RefFiles
from frazil.protocols.v2 import RepoObject
from frazil.spark.copying.choosing import find_first
from frazil.spark.copying.guarding import Guard, newest_collection
from frazil.spark.copying.states import read_deleted_tags


class CollectedMeanwhileError(Exception):
    """Garbage was collected at the target while objects came that nothing referred to."""


# V2


def create_repo_info(assets: Assets, wanted: RepoInfo, guard: Guard) -> None:
    """Make a V2 repository of objects that are there; raises ConflictError where one is by now."""
    now = read_clock()
    info = replace(
        wanted,
        status=RepoStatus(set_at=now),
        latest_updates=(Update(RepoInitialized(), now),),
        repo_before_updates=None,
        metadata=Metadata(guard.with_record(wanted)),
    )
    RepoFile(assets, UpdatePolicy()).create(info)


def update_repo_info(
    protocol: RepoObject, wanted: RepoInfo, guard: Guard, collected_at: Nanoseconds
) -> bool:
    """Let a V2 repository say what the source says; whether it said anything else.

    Raises what the guard raises, and CollectedMeanwhileError if garbage was collected since.
    """
    if _with_state_of(protocol.read_repo_info(), wanted, guard) == protocol.read_repo_info():
        return False

    def change(info: RepoInfo) -> Change:
        guard.refuse_others(info)
        if newest_collection(info) > collected_at:
            raise CollectedMeanwhileError
        return Change(_with_state_of(info, wanted, guard), MetadataChanged())

    protocol.update(change)
    return True


def _with_state_of(info: RepoInfo, wanted: RepoInfo, guard: Guard) -> RepoInfo:
    """A repo info with the contents of another; its status and its ops log stay."""
    return replace(
        info,
        branches=dict(wanted.branches),
        tags=dict(wanted.tags),
        deleted_tags=wanted.deleted_tags,
        snapshots=dict(wanted.snapshots),
        metadata=Metadata(guard.with_record(wanted)),
        config=wanted.config,
        enabled_feature_flags=wanted.enabled_feature_flags,
        disabled_feature_flags=wanted.disabled_feature_flags,
    )


# Before V2


def make_protocol(assets: Assets, source: CommitProtocol) -> CommitProtocol:
    """The protocol of the source's generation, for a target where no repository is yet."""
    return RefFiles(assets) if isinstance(source, RefFiles) else SequenceFiles(assets)


def write_refs(
    protocol: CommitProtocol, source: CommitProtocol, wanted: RepoInfo, target: RepoInfo | None
) -> bool:
    """Let a repository before V2 have these refs; whether it had others.

    Raises ConflictError where somebody moves one of them meanwhile.
    """
    before = target or _read_begun(protocol, wanted)
    has_changed = target is None
    has_changed |= _write_config(protocol, wanted, before)
    has_changed |= _write_tags(protocol, source, wanted, before)
    names = sorted({*wanted.branches, *before.branches}, key=lambda name: (name == MAIN, name))
    for name in names:
        has_changed |= _move_branch(protocol, wanted, name, before.branches.get(name))
    return has_changed


def _read_begun(protocol: CommitProtocol, wanted: RepoInfo) -> RepoInfo:
    """The refs that a copy has left that was broken off before there was `main`."""
    config = protocol.read_config()
    return replace(
        wanted,
        branches={name: protocol.lookup_branch(name) for name in protocol.list_branches()},
        tags={name: protocol.lookup_tag(name) for name in protocol.list_tags()},
        deleted_tags=frozenset(read_deleted_tags(protocol)),
        config=None if config is None else Value(config),
    )


def _write_config(protocol: CommitProtocol, wanted: RepoInfo, before: RepoInfo) -> bool:
    if wanted.config is None or wanted.config == before.config:
        return False
    tree = wanted.config.get()
    assert isinstance(tree, dict)
    protocol.read_config()
    protocol.write_config(tree)
    return True


def _write_tags(
    protocol: CommitProtocol, source: CommitProtocol, wanted: RepoInfo, before: RepoInfo
) -> bool:
    changed = 0
    for name, id in wanted.tags.items():
        if before.tags.get(name, id) != id:
            raise DivergedError(message=f"the tag {name!r} of the target is at {before.tags[name]}")
        if name not in before.tags:
            protocol.create_tag(name, id)
            changed += 1
    for name in before.tags.keys() - wanted.tags.keys():
        protocol.delete_tag(name)
        changed += 1
    if isinstance(protocol, RefFiles):
        files = TagFiles(protocol.assets.storage, FOLDERS)
        for name, id in read_deleted_tags(source).items():
            if name not in before.deleted_tags and name not in before.tags:
                files.create(name, Ref(id))
                files.delete(name)
                changed += 1
    return changed > 0


def _move_branch(
    protocol: CommitProtocol, wanted: RepoInfo, name: str, before: SnapshotId | None
) -> bool:
    after = wanted.branches.get(name)
    if before == after:
        return False
    if after is None:
        protocol.delete_branch(name)
    elif before is not None:
        protocol.reset_branch(name, after, before)
    elif name == MAIN and isinstance(protocol, FileProtocol):
        # The oldest generations find the first snapshot by the first file of `main`.
        first = find_first(wanted).id if isinstance(protocol, SequenceFiles) else after
        protocol.begin(first)
        if first != after:
            protocol.reset_branch(name, after, first)
    else:
        protocol.create_branch(name, after)
    return True
