"""Objects that nothing refers to, by kind. Pure."""

from collections.abc import Collection, Iterator, Set
from dataclasses import astuple, dataclass, field
from operator import add

from frazil.assets import Layout
from frazil.format.ids import SnapshotId
from frazil.maintenance.checking.inventory import Inventory, Listed
from frazil.maintenance.checking.problems import Problems, Repair, note
from frazil.maintenance.checking.report import Orphans
from frazil.maintenance.id_columns import IdSet, column_of
from frazil.protocols.ops_log import BACKUPS
from frazil.storage.interface import ObjectInfo

_REPO_BACKUPS = f"{BACKUPS}/repo."


@dataclass(frozen=True, slots=True)
class Used:
    """What something refers to."""

    snapshots: Set[SnapshotId]
    transaction_logs: Set[SnapshotId]
    manifests: Collection[bytes]
    backups: Set[str] = field(default=frozenset())


@dataclass(frozen=True, slots=True)
class ChunkTotals:
    """The chunks that manifests refer to, against the files that there are."""

    num_used: int = 0
    """Distinct ones that manifests refer to."""
    num_unused: int = 0
    unused_bytes: int = 0
    num_strangers: int = 0
    """Objects that no id names."""
    stranger_bytes: int = 0

    @classmethod
    def of(cls, listed: Listed, used: IdSet) -> "ChunkTotals":
        """Of what a storage lists, or a share of it, and the chunks of that share."""
        return cls(len(used), *listed.measure_unused(used), *listed.measure_strangers())

    def __add__(self, other: "ChunkTotals") -> "ChunkTotals":
        return ChunkTotals(*map(add, astuple(self), astuple(other)))


def count_orphans(inventory: Inventory, used: Used, chunks: ChunkTotals) -> tuple[Orphans, ...]:
    """How many objects of each kind nothing refers to; kinds without any are left out."""
    size = inventory.id_size
    found = [
        _count("snapshots", inventory.snapshots, IdSet(column_of(used.snapshots, size))),
        _count("transaction logs", inventory.transaction_logs,
               IdSet(column_of(used.transaction_logs, size))),
        _count("manifests", inventory.manifests, IdSet(column_of(used.manifests, size))),
        Orphans("chunks", chunks.num_unused, chunks.unused_bytes),
        _measure("backups", _find_unnamed_backups(inventory, used)),
        _count_strangers(inventory, chunks),
    ]  # fmt: skip
    return tuple(each for each in found if each.count)


def _find_unnamed_backups(inventory: Inventory, used: Used) -> Iterator[ObjectInfo]:
    for key, info in inventory.others.items():
        if key.startswith(_REPO_BACKUPS) and key not in used.backups:
            yield info


def _count_strangers(inventory: Inventory, chunks: ChunkTotals) -> Orphans:
    folders = (inventory.snapshots, inventory.transaction_logs, inventory.manifests)
    counts, sizes = zip(*(each.measure_strangers() for each in folders), strict=True)
    return Orphans(
        "objects of other names",
        sum(counts) + chunks.num_strangers,
        sum(sizes) + chunks.stranger_bytes,
    )


def _count(kind: str, listed: Listed, used: IdSet) -> Orphans:
    return Orphans(kind, *listed.measure_unused(used))


def _measure(kind: str, objects: Iterator[ObjectInfo]) -> Orphans:
    sizes = [each.size_bytes for each in objects]
    return Orphans(kind, len(sizes), sum(sizes))


def tell_orphans(orphans: Collection[Orphans], layout: Layout) -> Problems:
    """A note for each kind."""
    folders = {
        "snapshots": layout.snapshots,
        "transaction logs": layout.transactions or "",
        "manifests": layout.manifests,
        "chunks": layout.chunks,
    }
    for each in orphans:
        folder = folders.get(each.kind)
        what = f"nothing refers to {each.count} {each.kind} of {each.size_bytes} bytes"
        if folder is None:
            yield note(f"{BACKUPS}/" if each.kind == "backups" else "", what)
        else:
            yield note(f"{folder}/", what, Repair.COLLECT_GARBAGE)
