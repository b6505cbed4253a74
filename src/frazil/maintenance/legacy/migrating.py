"""Performing the migration of a repository of the draft or of an alpha.

Until `repo` is created, which is one request, the repository is what it was; from then on it is a V2
repository. A migration that was broken off before goes on when it is started again, and so does one
that was broken off later: what is left of the old files is deleted then.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.assets import Assets
from frazil.errors import ConflictError
from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.repo_info import RepoInfo
from frazil.maintenance.legacy.conversion import find_origin
from frazil.maintenance.legacy.history import OldRefs, read_history, read_refs
from frazil.maintenance.legacy.names import name_snapshot
from frazil.maintenance.legacy.old_files import (
    ALPHA_PLACES,
    DRAFT_PLACES,
    OldPlaces,
    delete_old_files,
    has_old_files,
)
from frazil.maintenance.legacy.rewriting import Files, HistoryWriter, check_history
from frazil.maintenance.migration import OldRepository, plan_migration
from frazil.maintenance.walking import uncached
from frazil.protocols.clock import read_clock
from frazil.protocols.interface import UpdatePolicy
from frazil.protocols.repo_file import RepoFile
from frazil.protocols.sequences import SequenceFiles
from frazil.storage.interface import Storage

_DRAFT_ID_SIZE = 16


@dataclass(frozen=True, slots=True)
class LegacyMigration:
    """One repository, read without caches: everything is read once."""

    protocol: SequenceFiles

    @classmethod
    def of(cls, protocol: SequenceFiles) -> "LegacyMigration":
        """The migration of a repository."""
        return cls(SequenceFiles(uncached(protocol.assets)))

    @property
    def _old(self) -> Assets:
        return self.protocol.assets

    def check(self) -> None:
        """Read all that a migration reads, and write nothing; raises what a migration would raise."""
        refs = read_refs(self.protocol)
        check_history(self._old, read_history(self.protocol, refs.tips).values())

    def perform(self, config: Mapping[str, JsonValue] | None) -> None:
        """Write the V2 repository, with a configuration; ConflictError if somebody was in between."""
        new = Assets(self._old.storage, Dialect.V2, self._old.options)
        refs = read_refs(self.protocol)
        writer = HistoryWriter(Files(self._old, new))
        writer.write_all(read_history(self.protocol, refs.tips).values())
        info = plan_migration(_describe(refs, writer, config), read_clock())
        new.storage.flush()
        self._refuse_if_moved(refs)
        file = RepoFile(new, UpdatePolicy())
        file.create(info)
        file.read()

    def delete_old_files(self) -> None:
        """Delete what `repo` stands for."""
        is_draft = self.protocol.dialect is Dialect.DRAFT
        delete_old_files(self._old.storage, DRAFT_PLACES if is_draft else ALPHA_PLACES)

    def _refuse_if_moved(self, refs: OldRefs) -> None:
        if read_refs(self.protocol) != refs:
            raise ConflictError(
                message="a branch or a tag was changed while the repository was migrated: migrate"
                " it again",
                kind="branch-update-conflict",
            )


def _describe(
    refs: OldRefs, writer: HistoryWriter, config: Mapping[str, JsonValue] | None
) -> OldRepository:
    """The old repository by its new ids."""

    def translate(names: Mapping[str, SnapshotId]) -> dict[str, SnapshotId]:
        return {name: writer.ids.get(id) or name_snapshot(id) for name, id in names.items()}

    return OldRepository(
        branches=translate(refs.branches),
        tags=translate(refs.tags),
        deleted_tags=translate(refs.deleted_tags),
        snapshots=writer.infos,
        config=config,
    )


def find_places_left(storage: Storage, info: RepoInfo) -> OldPlaces | None:
    """Where a V2 repository that was migrated still has old files; None if it is none, or has none."""
    roots = (each for each in info.snapshots.values() if each.parent_id is None)
    origin = next((id for id in (find_origin(each.metadata) for each in roots) if id), None)
    if origin is None:
        return None
    is_draft = len(SnapshotId.parse(origin)) == _DRAFT_ID_SIZE
    places = DRAFT_PLACES if is_draft else ALPHA_PLACES
    return places if has_old_files(storage, places) else None
