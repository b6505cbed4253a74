"""What was, and what changed."""

from collections.abc import Iterator

from frazil.asynchronous import asynchronous
from frazil.engine import diffing, inspecting
from frazil.ops import Update, public_update
from frazil.repository.base import RepositoryPart, parse_snapshot_id, refuse_unless_one
from frazil.snapshots import AncestryGraph, Diff, ManifestFileInfo, SnapshotInfo
from frazil.snapshots.infos import public_snapshot_info
from frazil.states import AsyncCloseableIterator


class History(RepositoryPart):
    """Snapshots, their ancestors, and the log of operations."""

    def ancestry(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
    ) -> Iterator[SnapshotInfo]:
        """A snapshot and those before it, newest first."""
        start = self._resolve(branch, tag, snapshot_id)
        return map(public_snapshot_info, self._protocol.ancestry(start))

    def async_ancestry(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
    ) -> AsyncCloseableIterator[SnapshotInfo]:
        """The same for an event loop."""
        return AsyncCloseableIterator(
            self.ancestry(branch=branch, tag=tag, snapshot_id=snapshot_id)
        )

    def ancestry_graph(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        plain: bool = False,
    ) -> AncestryGraph:
        """The history as a picture, in text or for a notebook: of one ref, or of all branches."""
        branches = {name: str(self._protocol.lookup_branch(name)) for name in self._branch_names()}
        tags = {name: str(self._protocol.lookup_tag(name)) for name in self._protocol.list_tags()}
        if branch is None and tag is None and snapshot_id is None:
            starts = [parse_snapshot_id(tip) for tip in branches.values()]
        else:
            starts = [self._resolve(branch, tag, snapshot_id)]
        found = {info.id: info for line in self._protocol.ancestries(starts) for info in line}
        infos = [public_snapshot_info(info) for info in found.values()]
        return AncestryGraph(infos, branches=branches, tags=tags, plain=plain)

    ancestry_graph_async = asynchronous(ancestry_graph)

    def _branch_names(self) -> list[str]:
        return sorted(self._protocol.list_branches())

    def lookup_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        """What is known of a snapshot; raises SnapshotNotFoundError."""
        return public_snapshot_info(self._protocol.lookup_snapshot(parse_snapshot_id(snapshot_id)))

    lookup_snapshot_async = asynchronous(lookup_snapshot)

    def list_manifest_files(self, snapshot_id: str) -> list[ManifestFileInfo]:
        """The manifest files that a snapshot uses."""
        return inspecting.list_manifest_files(self._protocol, parse_snapshot_id(snapshot_id))

    list_manifest_files_async = asynchronous(list_manifest_files)

    def ops_log(self) -> Iterator[Update]:
        """All that was done to the repository, newest first."""
        return map(public_update, self._protocol.ops_log())

    def ops_log_async(self) -> AsyncCloseableIterator[Update]:
        """The same for an event loop."""
        return AsyncCloseableIterator(self.ops_log())

    def diff(
        self,
        *,
        from_branch: str | None = None,
        from_tag: str | None = None,
        from_snapshot_id: str | None = None,
        to_branch: str | None = None,
        to_tag: str | None = None,
        to_snapshot_id: str | None = None,
    ) -> Diff:
        """What changed from a snapshot to a later one."""
        refuse_unless_one(from_branch, from_tag, from_snapshot_id)
        refuse_unless_one(to_branch, to_tag, to_snapshot_id)
        start = self._resolve(from_branch, from_tag, from_snapshot_id)
        end = self._resolve(to_branch, to_tag, to_snapshot_id)
        return diffing.diff(self._protocol, start, end)

    diff_async = asynchronous(diff)
