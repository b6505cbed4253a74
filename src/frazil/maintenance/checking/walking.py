"""Going through the snapshots of a repository, and gathering what they refer to."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from frazil.assets import Assets
from frazil.errors import FormatError, StorageError
from frazil.format.dialect import Dialect
from frazil.format.files import decode_snapshot
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.maintenance.checking.base import Base
from frazil.maintenance.checking.history import Link, Links, walk
from frazil.maintenance.checking.inventory import Listed
from frazil.maintenance.checking.problems import Problem, Problems, Repair, error
from frazil.maintenance.checking.reading import (
    Failed,
    get_metadata_file,
    read_files,
    read_or_fail,
)
from frazil.maintenance.checking.snapshots import (
    EncodedArray,
    SnapshotFindings,
    Use,
    check_snapshot_file,
)

FileFacts = tuple[int | None, int | None]
"""Size and number of references, as a snapshot has them of a manifest file."""


@dataclass(slots=True)
class Gathered:
    """What the snapshots of a repository refer to."""

    keeps_arrays: bool = False
    """Whether chunks are to be decoded."""
    dialects: dict[SnapshotId, Dialect] = field(default_factory=dict)
    """Of the snapshots that could be read."""
    uses: dict[ManifestId, dict[Use, str]] = field(default_factory=dict)
    facts: dict[ManifestId, dict[FileFacts, str]] = field(default_factory=dict)
    """With the key of a snapshot that has them."""
    arrays: dict[tuple[ManifestId, NodeId], EncodedArray] = field(default_factory=dict)
    num_nodes: int = 0
    has_all: bool = True
    """Not where a snapshot could not be read, so that what it refers to is not known."""

    def take(self, findings: SnapshotFindings, key: str) -> None:
        """Remember what a snapshot refers to."""
        self.dialects[findings.id] = findings.dialect
        self.num_nodes += findings.num_nodes
        for id, uses in findings.uses.items():
            self.uses.setdefault(id, {}).update(uses)
            for use in uses if self.keeps_arrays else ():
                self.arrays[id, use.node_id] = findings.arrays[use.node_id]
        for info in findings.files:
            facts = self.facts.setdefault(info.id, {})
            facts.setdefault((info.size_bytes, info.num_chunk_refs), key)


def read_links(pool: ThreadPoolExecutor, assets: Assets, listed: Listed) -> dict[SnapshotId, Link]:
    """Who follows whom by the snapshot files themselves, in the generations before V2."""
    ids = [SnapshotId(row.tobytes()) for row in _rows(listed)]
    found: dict[SnapshotId, Link] = {}
    names: dict[SnapshotId, SnapshotId] = {}
    for id, link in read_files(pool, ids, lambda id: _find_link(assets, id)):
        if link is not None:
            # The first alphas gave the first snapshot one id, and its file another as its name.
            names[link.id] = id
            found[id] = replace(link, id=id)
    return {
        id: link
        if link.parent_id is None
        else replace(link, parent_id=names.get(link.parent_id, link.parent_id))
        for id, link in found.items()
    }


def _rows(listed: Listed) -> Iterable[memoryview]:
    size = listed.ids.dtype.itemsize
    data = memoryview(listed.ids.tobytes())
    return (data[at : at + size] for at in range(0, len(data), size))


def _find_link(assets: Assets, id: SnapshotId) -> Link | None:
    key = assets.layout.snapshot_key(id)
    try:
        snapshot = decode_snapshot(get_metadata_file(assets, key)).value
    except (FormatError, StorageError):
        return None  # told if something leads here
    return Link(key, snapshot.id, snapshot.parent_id, snapshot.flushed_at)


def choose_snapshots(base: Base, links: Links, branch: str | None) -> dict[SnapshotId, str]:
    """The snapshots to look at, each with what leads to it."""
    chosen: dict[SnapshotId, str] = {}
    tips = base.refs.tips if branch is None else base.refs.branches
    for tip in tips:
        if branch not in (None, tip.name):
            continue
        reason = str(tip)
        for id in walk(links, tip.snapshot_id):
            chosen.setdefault(id, reason)
            reason = f"snapshot {id}"
    if branch is None:
        for id in base.listed:
            chosen.setdefault(id, "the repo info")
    return chosen


def check_snapshots(
    pool: ThreadPoolExecutor,
    assets: Assets,
    base: Base,
    chosen: Mapping[SnapshotId, str],
    present: Listed,
) -> Iterator[SnapshotFindings | Problem]:
    """What is found in each snapshot's file, or why nothing is."""
    there = [id for id in chosen if present.find_size(id) is not None]
    yield from check_missing(assets, chosen, set(there))

    def check(id: SnapshotId) -> SnapshotFindings | Failed:
        key = assets.layout.snapshot_key(id)
        listed = base.listed.get(id)
        return read_or_fail(
            assets, key, lambda data: check_snapshot_file(data, id, key, listed, assets.dialect)
        )

    for _, outcome in read_files(pool, there, check):
        yield outcome.problem if isinstance(outcome, Failed) else outcome


def check_missing(
    assets: Assets, chosen: Mapping[SnapshotId, str], there: set[SnapshotId]
) -> Problems:
    """A problem for each snapshot that something leads to, and that has no file."""
    for id, reason in chosen.items():
        if id not in there:
            is_loose = reason == "the repo info"
            yield error(
                assets.layout.snapshot_key(id),
                f"there is no such file, and {reason} leads to it",
                Repair.DROP_SNAPSHOT if is_loose else None,
            )
