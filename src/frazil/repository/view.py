"""Nodes and chunk references of a session: its base snapshot with its changes applied."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property

from frazil.errors import InvalidInputError, NodeNotFoundError
from frazil.format.coordinates import Coordinates
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId, encode_base32
from frazil.format.manifest import ChunkRef, ChunkTable, NativeRef, concatenate
from frazil.format.metadata import ROOT
from frazil.format.snapshot import ArrayData, ManifestIndex, ManifestRef, Node, Snapshot
from frazil.protocols.assets import Assets
from frazil.repository.changes import ChangeSet
from frazil.repository.zarr_keys import Coordinate


def manifests_of(array: ArrayData, dialect: Dialect) -> Sequence[ManifestRef]:
    """Return the manifests that can contain chunks of an array.

    When the number of axes of an array changes, the official library keeps its old manifests, none of
    whose chunks is in the new grid. Before V1 extents were not recorded.
    """
    if dialect.is_legacy:
        return array.manifests
    axes = len(array.shape)
    return [ref for ref in array.manifests if len(ref.extents) == axes]


def find_manifest(
    array: ArrayData, coordinate: Sequence[int], dialect: Dialect
) -> ManifestRef | None:
    """Return the manifest that holds the reference of a chunk if it has one, or None."""
    index: ManifestIndex | None = getattr(array, "index", None)
    if index is None:
        index = ManifestIndex(manifests_of(array, dialect))
        object.__setattr__(array, "index", index)  # it depends on frozen values alone
    return index.find(coordinate)


_UNTOUCHED = object()
_MOST_LOCATED = 10_000

Located = tuple[str, int, int]
"""Object of a native chunk, its offset and its length."""


class View:
    """Snapshot with changes over it; repeated reads are the same unless something was edited."""

    def __init__(
        self, assets: Assets, snapshot: Snapshot, changes: ChangeSet, *, is_fixed: bool = False
    ) -> None:
        self.assets = assets
        self.snapshot = snapshot
        self.changes = changes
        self.located: dict[str, Located] = {}
        """Native chunks by key, if the view never changes."""
        self._is_fixed = is_fixed

    @property
    def snapshot_id(self) -> SnapshotId:
        """Return the id of the base snapshot."""
        return self.snapshot.id

    def look_up(self, key: str) -> Located | None:
        """Return where a native chunk is if that takes few calls and no request, else None.

        Then `find_chunk` is to be asked: about other keys and chunks, edited arrays and manifests
        that are not cached.
        """
        head, separator, tail = key.rpartition("/c/")
        if not separator and key.startswith("c/"):
            tail = key[2:]
        node = self.snapshot.nodes.get(f"/{head}")
        index: ManifestIndex | None = getattr(node and node.array, "index", None)
        if node is None or node.array is None or index is None:
            return None
        words, shape, edits = tail.split("/"), node.array.shape, self.changes
        if len(words) != len(shape) or edits.nodes or node.id in edits.chunks:
            return None
        try:
            coordinate = tuple(map(int, words))
        except ValueError:
            return None
        for place, word, dimension in zip(coordinate, words, shape, strict=True):
            if not 0 <= place < dimension.num_chunks or str(place) != word:
                return None
        ref = index.find(coordinate)
        manifest = None if ref is None else self.assets.find_cached_manifest(ref.id)
        chunk = None if manifest is None else manifest.find(node.id, coordinate)
        return None if chunk is None else self.locate(key, chunk)

    def locate(self, key: str, ref: ChunkRef) -> Located | None:
        """Return where a native chunk is, or None for others, and if chunks are cached.

        What nothing can change is remembered.
        """
        if type(ref) is not NativeRef or self.assets.options.num_bytes_chunks:
            return None
        found = (
            f"{self.assets.layout.chunks}/{encode_base32(ref.chunk_id)}",
            ref.offset,
            ref.length,
        )
        if self._is_fixed and len(self.located) < _MOST_LOCATED:
            self.located[key] = found
        return found

    # Nodes

    def find_node(self, path: str) -> Node | None:
        """Return the node at a path, or None."""
        node = self.changes.nodes.get(path, _UNTOUCHED)
        if node is _UNTOUCHED:
            return self.snapshot.nodes.get(path)
        return node  # type: ignore[return-value]

    def get_node(self, path: str) -> Node:
        """Return the node at a path; raises NodeNotFoundError."""
        node = self.find_node(path)
        if node is None:
            raise NodeNotFoundError(f"node not found at `{path}`")
        return node

    def get_array(self, path: str) -> tuple[Node, ArrayData]:
        """Return the array at a path; raises NodeNotFoundError, or InvalidInputError for a group."""
        node = self.get_node(path)
        if node.array is None:
            raise InvalidInputError(f"{path!r} is a group, not an array", kind="not-an-array")
        return node, node.array

    def nodes(self) -> Iterator[Node]:
        """Yield all nodes, in the order of their paths."""
        return self.descendants(ROOT)

    def descendants(self, path: str) -> Iterator[Node]:
        """Yield the node at a path, if any, and its descendants, in the order of their paths."""
        own = self.find_node(path)
        if own is not None:
            yield own
        prefix = path if path == ROOT else f"{path}/"
        base = self._paths[
            bisect_left(self._paths, prefix) : bisect_left(self._paths, _after(prefix))
        ]
        # Iterate over a copy, because other threads may create nodes meanwhile.
        edited = [p for p in list(self.changes.nodes) if p.startswith(prefix)]
        for each in sorted({*base, *edited}) if edited else base:
            node = self.find_node(each)
            if node is not None and each != path:
                yield node

    def children(self, path: str) -> Iterator[Node]:
        """Yield the children of a node, in the order of their paths."""
        prefix = path if path == ROOT else f"{path}/"
        names = set(self._child_paths(prefix))
        names.update(p for p in list(self.changes.nodes) if _is_child(p, prefix))
        for child in sorted(names):
            node = self.find_node(child)
            if node is not None:
                yield node

    def _child_paths(self, prefix: str) -> Iterator[str]:
        """Yield the paths of children in the base, skipping their descendants."""
        paths, end = self._paths, _after(prefix)
        at = bisect_left(paths, prefix)
        while at < len(paths) and paths[at] < end:
            path = paths[at]
            name, slash, _ = path[len(prefix) :].partition("/")
            if not slash:
                if name:
                    yield path
                at += 1
            else:
                at = bisect_left(paths, _after(f"{prefix}{name}/"), at)

    @cached_property
    def _paths(self) -> list[str]:
        """Return the paths of the base, sorted; the order of characters is that of UTF-8 bytes."""
        return sorted(self.snapshot.nodes)

    # Chunk references

    def find_chunk(self, node: Node, coordinate: Coordinate) -> ChunkRef | None:
        """Return the reference of a chunk; None if it has none or is outside the grid."""
        assert node.array is not None
        if not is_in_grid(node.array, coordinate):
            return None
        edits = self.changes.chunks.get(node.id)
        if edits is not None:
            found = edits.get(coordinate, _UNTOUCHED)
            if found is not _UNTOUCHED:
                return found  # type: ignore[return-value]
            prewritten = edits.find_prewritten(coordinate)
            if prewritten is not None:
                return self.assets.read_manifest(prewritten.file.id).find(node.id, coordinate)
        ref = find_manifest(node.array, coordinate, self.assets.dialect)
        return None if ref is None else self.assets.read_manifest(ref.id).find(node.id, coordinate)

    def is_cached(self, node: Node, coordinate: Coordinate) -> bool:
        """Return True if `find_chunk` needs no storage request for the base."""
        assert node.array is not None
        ref = find_manifest(node.array, coordinate, self.assets.dialect)
        return ref is None or self.assets.find_cached_manifest(ref.id) is not None

    def base_tables(self, node: Node) -> Iterator[ChunkTable]:
        """Yield the references of an array in the base, by manifest, within the current grid."""
        assert node.array is not None
        grid = tuple((0, each.num_chunks) for each in node.array.shape)
        for ref in manifests_of(node.array, self.assets.dialect):
            table = self.assets.read_manifest(ref.id).table(node.id, len(grid))
            if len(table):
                yield table.select(grid)

    def tables(self, node: Node) -> Iterator[ChunkTable]:
        """Yield the references of an array with changes applied, by manifest, without duplicates."""
        assert node.array is not None
        edits = self.changes.chunks.get(node.id)
        if edits is None:
            yield from self.base_tables(node)
            return
        written, deleted = edits.columns()
        grid = tuple((0, each.num_chunks) for each in node.array.shape)
        changed = edits.coordinates()
        for table in self.base_tables(node):
            yield table.remove(changed)
        for prewritten in edits.prewritten:
            table = prewritten.read_changes(self.assets, node.id).select(grid)
            yield table.remove(deleted).remove(written.coordinates)
        yield written.select(grid)

    def table(self, node: Node) -> ChunkTable:
        """Return all references of an array, sorted."""
        assert node.array is not None
        axes = len(node.array.shape)
        return concatenate([ChunkTable.empty(axes, self.changes.id_size), *self.tables(node)])

    def coordinates(self, node: Node) -> Iterator[Coordinates]:
        """Yield the coordinates of an array's chunks that have a reference, by manifest."""
        return (table.coordinates for table in self.tables(node))


def is_in_grid(array: ArrayData, coordinate: Coordinate) -> bool:
    """Return True if a chunk is inside an array's grid."""
    shape = array.shape
    if len(coordinate) != len(shape):
        return False
    for index, dimension in zip(coordinate, shape, strict=True):  # noqa: SIM110 (all() is slower)
        if index >= dimension.num_chunks:
            return False
    return True


def _after(prefix: str) -> str:
    """Return the smallest string greater than all that start with a prefix, which ends with a slash."""
    return prefix[:-1] + "0"


def _is_child(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and path != prefix and "/" not in path[len(prefix) :]
