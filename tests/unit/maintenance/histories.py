"""Histories for tests of plans: snapshots named by letters, a second apart."""

from collections.abc import Mapping

from frazil.format.ids import SnapshotId
from frazil.format.repo_info import RepoInfo, RepoStatus, SnapshotInfo

SECOND = 10**9


def id_of(name: str) -> SnapshotId:
    return SnapshotId(name.encode().ljust(12))


def names_of(ids: "set[SnapshotId] | frozenset[SnapshotId] | tuple[SnapshotId, ...]") -> str:
    """Ids by their names, in the order in which they come, of sets sorted."""
    ordered = ids if isinstance(ids, tuple) else sorted(ids)
    return " ".join(id.decode().strip() for id in ordered)


def snapshot(name: str, parent: str | None, seconds: int, pruned: str = "") -> SnapshotInfo:
    return SnapshotInfo(
        id_of(name),
        None if parent is None else id_of(parent),
        seconds * SECOND,
        f"commit {name}",
        pruned_ancestor_tx_logs=tuple(map(id_of, pruned.split())),
    )


def line(names: str) -> tuple[SnapshotInfo, ...]:
    """Snapshots written at 0, 1, 2, … seconds, each the parent of the next; newest first."""
    each = names.split()
    made = [snapshot(n, each[at - 1] if at else None, at) for at, n in enumerate(each)]
    return tuple(reversed(made))


def line_of(*times: int) -> tuple[SnapshotInfo, ...]:
    """Snapshots `s0`, `s1`, … written at these seconds, each the parent of the next; newest first."""
    made = [snapshot(f"s{at}", f"s{at - 1}" if at else None, t) for at, t in enumerate(times)]
    return tuple(reversed(made))


def history(
    snapshots: "tuple[SnapshotInfo, ...] | list[SnapshotInfo]",
    branches: Mapping[str, str],
    tags: Mapping[str, str] | None = None,
) -> RepoInfo:
    return RepoInfo(
        branches={name: id_of(tip) for name, tip in branches.items()},
        tags={name: id_of(tip) for name, tip in (tags or {}).items()},
        deleted_tags=frozenset(),
        snapshots={each.id: each for each in snapshots},
        status=RepoStatus(),
        latest_updates=(),
    )


def parents(info: RepoInfo) -> dict[str, str | None]:
    """Snapshots and their parents, by name."""
    return {
        names_of((id,)): None if each.parent_id is None else names_of((each.parent_id,))
        for id, each in info.snapshots.items()
    }


def pruned(info: RepoInfo, name: str) -> str:
    return names_of(info.snapshots[id_of(name)].pruned_ancestor_tx_logs)
