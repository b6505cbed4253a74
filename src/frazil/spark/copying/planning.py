"""Which objects a copy lacks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from frazil.assets import Assets
from frazil.errors import ObjectNotFoundError
from frazil.format.dialect import Decoded, Dialect
from frazil.format.files import encode_snapshot
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.repo_info import RepoInfo, SnapshotInfo
from frazil.format.snapshot import ManifestFileInfo, Snapshot
from frazil.maintenance.expiring import with_ancestors
from frazil.maintenance.garbage import retained_logs
from frazil.maintenance.limits import WalkLimits
from frazil.maintenance.walking import find_manifests, uncached
from frazil.protocols.history import has_history
from frazil.spark.copying.choosing import find_first, line_of
from frazil.spark.copying.objects import Passage
from frazil.spark.copying.parts import Part

LIMITS = WalkLimits()
Manifests = dict[ManifestId, ManifestFileInfo]
_UNKNOWN = 10_000
"""So many references a manifest is thought to have whose snapshot does not tell."""
_FEW = 1_000
"""Objects that are not worth tasks."""


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """What is to be copied, and what the driver writes itself."""

    first_id: SnapshotId
    new_snapshots: frozenset[SnapshotId]
    files: tuple[str, ...]
    """Metadata files that may be there already."""
    changing_files: tuple[str, ...]
    """Metadata files that may be there and say something else."""
    manifests: tuple[ManifestFileInfo, ...]
    """Whose chunks are copied."""
    replaced: tuple[ManifestFileInfo, ...]
    """Of the target, whose chunks are there."""
    written: Mapping[str, bytes]
    """Snapshots that have no such file in the source."""
    made: tuple[Snapshot, ...]
    """Snapshots of parts, with logs that are still to be made."""

    @property
    def is_small(self) -> bool:
        """Whether it is no more than one task's work."""
        return sum(map(count_references, self.manifests)) + len(self.files) <= _FEW


def count_references(info: ManifestFileInfo) -> int:
    """How many references a manifest has, or may have."""
    return _UNKNOWN if info.num_chunk_refs is None else info.num_chunk_refs


def plan_copy(passage: Passage, part: Part, before: RepoInfo | None) -> CopyPlan:
    """What a target lacks that has said so far what `before` says."""
    wanted, source = part.info, passage.source
    known = frozenset() if before is None else frozenset(before.snapshots)
    new = frozenset(wanted.snapshots) - known
    copied = new - part.made.keys()
    manifests, replaced = _find_manifests(passage, part, before, new)
    logs = retained_logs(wanted) - part.made.keys()
    logs -= frozenset() if before is None else retained_logs(before)
    layout = source.layout
    snapshots = [layout.snapshot_key(id) for id in sorted(copied)]
    files = [layout.manifest_key(id) for id in sorted(manifests)]
    files += [key for id in sorted(logs) if (key := layout.find_transaction_log_key(id))]
    changing: list[str] = []
    written: dict[str, bytes] = {}
    if source.dialect is not Dialect.V2:
        written = dict(_rewrite(source, part))
        every = frozenset(wanted.snapshots) - part.made.keys()
        changing = [k for id in sorted(every) if (k := layout.snapshot_key(id)) not in written]
        snapshots = []
    made = tuple(each for id, each in part.made.items() if id in new)
    return CopyPlan(
        first_id=find_first(wanted).id,
        new_snapshots=new,
        files=(*files, *snapshots),
        changing_files=tuple(changing),
        manifests=tuple(manifests.values()),
        replaced=tuple(replaced.values()),
        written=written,
        made=made,
    )


def _find_manifests(
    passage: Passage, part: Part, before: RepoInfo | None, new: frozenset[SnapshotId]
) -> tuple[Manifests, Manifests]:
    """Those that only new snapshots have, and those that only the snapshots next to them have.

    An append writes a manifest anew, and most of its chunks are those of the one that it replaces.
    """
    found = find_manifests(uncached(passage.source), sorted(new - part.made.keys()), LIMITS)
    for id, snapshot in part.made.items():
        if id in new:
            found.update((info.id, info) for info in snapshot.manifest_files)
    if before is None or not found:
        return found, {}
    parents = [part.info.snapshots[id].parent_id for id in new]
    tips = before.branches.values()
    near = {id for id in (*parents, *tips) if id is not None and id in before.snapshots}
    there = find_manifests(uncached(passage.target), sorted(near), LIMITS)
    return (
        {id: info for id, info in found.items() if id not in there},
        {id: info for id, info in there.items() if id not in found},
    )


def _rewrite(source: Assets, part: Part) -> Iterator[tuple[str, bytes]]:
    """The snapshots whose files must tell of other ancestors than they do."""
    for id in part.info.snapshots.keys() - part.made.keys():
        _, *ancestors = line_of(part.info, id)
        decoded = _find_snapshot(source, id)
        if ancestors and decoded is not None and _differs(decoded.value, ancestors):
            shortened = with_ancestors(decoded.value, tuple(ancestors))
            data = encode_snapshot(shortened, decoded.dialect, source.options.encoding)
            yield source.layout.snapshot_key(id), data


def _differs(snapshot: Snapshot, ancestors: Sequence[SnapshotInfo]) -> bool:
    if snapshot.history is None:
        return snapshot.parent_id != ancestors[0].id
    return snapshot.history.total_parents != len(ancestors)


def _find_snapshot(source: Assets, id: SnapshotId) -> Decoded[Snapshot] | None:
    try:
        return source.read_snapshot_file(id)
    except ObjectNotFoundError:
        # A text of the history may tell of snapshots whose files were never kept.
        if has_history(source.dialect):
            return None
        raise
