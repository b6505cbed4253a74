"""Going through the snapshots of a repository, and gathering what they refer to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from frazil.assets import Assets
from frazil.errors import FormatError, StorageError
from frazil.format.dialect import Dialect
from frazil.format.files import decode_snapshot
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.repo_info import SnapshotInfo
from frazil.maintenance.checking.base import Base
from frazil.maintenance.checking.history import Link, Links, walk
from frazil.maintenance.checking.inventory import Listed
from frazil.maintenance.checking.problems import Problem, Repair, error
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
    problems: list[Problem] = field(default_factory=list)
    has_all: bool = True
    """Not where a snapshot could not be read, so that what it refers to is not known."""

    def take(self, findings: SnapshotFindings, key: str) -> None:
        """Remember what a snapshot refers to."""
        self.problems += findings.problems
        self.dialects[findings.id] = findings.dialect
        self.num_nodes += findings.num_nodes
        for id, uses in findings.uses.items():
            self.uses.setdefault(id, {}).update(uses)
            for use in uses if self.keeps_arrays else ():
                self.arrays[id, use.node_id] = findings.arrays[use.node_id]
        for info in findings.files:
            facts = self.facts.setdefault(info.id, {})
            facts.setdefault((info.size_bytes, info.num_chunk_refs), key)

    def lose(self, problem: Problem) -> None:
        """Remember why it is not known what a snapshot refers to."""
        self.has_all = False
        self.problems.append(problem)

    def add(self, later: "Gathered") -> None:
        """Take over what was gathered from the snapshots that follow."""
        self.dialects |= later.dialects
        for id, uses in later.uses.items():
            self.uses.setdefault(id, {}).update(uses)
        for manifest_id, facts in later.facts.items():
            known = self.facts.setdefault(manifest_id, {})
            for fact, key in facts.items():
                known.setdefault(fact, key)
        self.arrays |= later.arrays
        self.num_nodes += later.num_nodes
        self.problems += later.problems
        self.has_all &= later.has_all


# Who follows whom, in the generations before V2


@dataclass(frozen=True, slots=True)
class ReadLinks:
    """Finds what snapshot files say of themselves and whom they follow."""

    assets: Assets

    def __call__(
        self, pool: ThreadPoolExecutor, ids: Sequence[SnapshotId]
    ) -> list[tuple[SnapshotId, Link]]:
        """The name of each file that can be read, and what it says."""
        found = read_files(pool, ids, lambda id: _find_link(self.assets, id))
        return [(id, link) for id, link in found if link is not None]


def list_ids(listed: Listed) -> list[SnapshotId]:
    """The ids of the snapshot files that there are."""
    size = listed.ids.dtype.itemsize
    data = listed.ids.tobytes()
    return [SnapshotId(data[at : at + size]) for at in range(0, len(data), size)]


def join_links(links: Iterable[tuple[SnapshotId, Link]]) -> dict[SnapshotId, Link]:
    """Who follows whom by the names of files."""
    found: dict[SnapshotId, Link] = {}
    names: dict[SnapshotId, SnapshotId] = {}
    for id, link in links:
        # The first alphas gave the first snapshot one id, and its file another as its name.
        names[link.id] = id
        found[id] = replace(link, id=id)
    return {
        id: link
        if link.parent_id is None
        else replace(link, parent_id=names.get(link.parent_id, link.parent_id))
        for id, link in found.items()
    }


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


@dataclass(frozen=True, slots=True)
class WantedSnapshot:
    """A snapshot file to look at, and what the repo info has of it."""

    id: SnapshotId
    listed: SnapshotInfo | None


@dataclass(frozen=True, slots=True)
class CheckSnapshots:
    """Looks at snapshot files, and gathers what they refer to."""

    assets: Assets
    keeps_arrays: bool

    def __call__(self, pool: ThreadPoolExecutor, wanted: Sequence[WantedSnapshot]) -> Gathered:
        """What was found in all of them."""
        gathered = Gathered(self.keeps_arrays)
        for each, outcome in read_files(pool, wanted, self._check):
            if isinstance(outcome, Failed):
                gathered.lose(outcome.problem)
            else:
                gathered.take(outcome, self.assets.layout.snapshot_key(each.id))
        return gathered

    def _check(self, wanted: WantedSnapshot) -> SnapshotFindings | Failed:
        id, key, dialect = (
            wanted.id,
            self.assets.layout.snapshot_key(wanted.id),
            self.assets.dialect,
        )
        return read_or_fail(
            self.assets,
            key,
            lambda data: check_snapshot_file(data, id, key, wanted.listed, dialect),
        )


def check_missing(
    assets: Assets, chosen: Mapping[SnapshotId, str], present: Listed
) -> Iterator[Problem]:
    """A problem for each snapshot that something leads to, and that has no file."""
    for id, reason in chosen.items():
        if present.find_size(id) is None:
            is_loose = reason == "the repo info"
            yield error(
                assets.layout.snapshot_key(id),
                f"there is no such file, and {reason} leads to it",
                Repair.DROP_SNAPSHOT if is_loose else None,
            )
