"""Commit, amend and flush a session."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import field
from operator import attrgetter, floordiv, itemgetter, lt
from typing import TYPE_CHECKING

import numpy as np

from frazil.errors import (
    IcechunkError,
    SessionStateError,
)
from frazil.format.coordinates import Coordinates, Extents, is_inside, unite
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.manifest import (
    FEW,
    ChunkKind,
    ChunkRef,
    ChunkRows,
    ChunkTable,
    Manifest,
    concatenate,
)
from frazil.format.metadata import NO_METADATA, JsonValue, Metadata, Nanoseconds
from frazil.format.snapshot import (
    ArrayData,
    ManifestFileInfo,
    ManifestRef,
    Node,
    Snapshot,
    TransactionLog,
    with_manifests,
)
from frazil.lazy import CollectorPause, dataclass, lazy_modules
from frazil.ops import SessionMode
from frazil.protocols.assets import Assets, Object, new_manifest_id, new_snapshot_id
from frazil.protocols.protocol import read_clock, time_after
from frazil.repository.changes import (
    ChunkEdits,
    PrewrittenManifest,
    arrays_of,
    groups_of,
    merge_logs,
    separate_attribute_changes,
)
from frazil.repository.context import SessionState
from frazil.repository.view import View, manifests_of
from frazil.repository.zarr_keys import Coordinate, SplitGrid, SplitRegion, SplitRule, plan_split

if TYPE_CHECKING:
    from frazil.protocols import v1_protocol
else:
    (v1_protocol,) = lazy_modules("frazil.protocols.v1_protocol")  # for older generations

_MOST_PENDING_BYTES = 64 << 20
"""Size of encoded manifests from which they are written before the others are encoded."""


@dataclass(slots=True)
class WrittenManifests:
    """Manifests of a commit."""

    refs: dict[NodeId, tuple[ManifestRef, ...]] = field(default_factory=dict)
    """Manifest references of the arrays whose references changed."""
    files: dict[ManifestId, ManifestFileInfo] = field(default_factory=dict)
    """Manifest files that the commit writes or takes over from workers."""
    pending: list[Object] = field(default_factory=list)
    """Files that are not written yet, to go out together with the snapshot."""
    merged: list[tuple[Node, "ColumnPart | RowPart", ManifestRef]] = field(default_factory=list)
    """Manifests of split regions that the session edited."""
    _pending_bytes: int = 0

    def add(self, assets: Assets, refs: Mapping[NodeId, ChunkTable | ChunkRows]) -> ManifestId:
        """Encode a manifest, and return its id."""
        id = new_manifest_id(assets.dialect)
        arrays = {
            node_id: each.compact() if isinstance(each, ChunkTable) else each
            for node_id, each in refs.items()
        }
        object, self.files[id] = assets.encode_manifest(Manifest(id, arrays), id)
        self.pending.append(object)
        self._pending_bytes += len(object[1])
        if self._pending_bytes > _MOST_PENDING_BYTES:
            assets.storage.put_many(self.pending)
            self.pending, self._pending_bytes = [], 0
        return id


ManifestWriter = Callable[[View, Sequence[SplitRule], int], WrittenManifests]
"""Function that encodes the manifests of a commit: of changed arrays, or of all."""


def write_manifests(view: View, rules: Sequence[SplitRule], fetches: int = 1) -> WrittenManifests:
    """Encode the manifests of all arrays that the session changed.

    At most `fetches` manifests of the base are read at once.
    """
    if view.assets.dialect.shares_manifests:
        return write_shared_manifest(view)
    written = WrittenManifests()
    by_id = {node.id: node for node in view.changes.nodes.values() if node is not None}
    if not view.changes.chunks.keys() <= by_id.keys():
        by_id = {node.id: node for node in view.snapshot.nodes.values()} | by_id
    nodes = [by_id[id] for id in view.changes.changed_arrays()]
    wanted: list[ManifestRef] = []
    plans = [_plan_array(view, node, rules, wanted) for node in nodes]
    view.assets.fetch_manifests(wanted, fetches)
    for node, parts in zip(nodes, plans, strict=True):
        written.refs[node.id] = _write_parts(view, node, parts, written)
    return written


def write_all_manifests(
    view: View, rules: Sequence[SplitRule], fetches: int = 1
) -> WrittenManifests:
    """Encode new manifests of all arrays, one per split region that has chunks."""
    if view.assets.dialect.shares_manifests:
        return write_shared_manifest(view)
    written = WrittenManifests()
    for node in view.nodes():
        if node.array is not None:
            view.assets.fetch_manifests(manifests_of(node.array, view.assets.dialect), fetches)
            edges = plan_split(node.path, node.array, rules).edges
            tables = [table for _, table in sorted(view.table(node).split(edges).items())]
            written.refs[node.id] = _write_parts(view, node, tables, written)
    return written


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """References of base manifests in a split region, with the edits to merge over them."""

    box: Extents
    base: Sequence[ManifestRef]
    written: ChunkTable | None = None
    deleted: Coordinates | None = None

    def merge(self, view: View, node: Node) -> ChunkTable:
        """Read the base manifests and return the references of the region."""
        old = [_read_part(view, node, ref, self.box) for ref in self.base]
        table = concatenate([ChunkTable.empty(len(self.box), view.changes.id_size), *old])
        if self.deleted is not None:
            table = table.remove(self.deleted)
        return table if self.written is None else table.merge(self.written)


RowPart = tuple[Sequence[ManifestRef], Mapping[Coordinate, ChunkRef | None]]
"""Base manifests of a split region, which holds all of them, and single edits."""
Part = ManifestRef | PrewrittenManifest | ColumnPart | RowPart | ChunkTable


def _plan_array(
    view: View, node: Node, rules: Sequence[SplitRule], wanted: list[ManifestRef]
) -> Sequence[Part]:
    """Return the parts of the new references of an array; only edits of workers are read.

    Manifests of the base that have to be read are added to `wanted`.
    """
    assert node.array is not None
    grid = plan_split(node.path, node.array, rules)
    if 0 in grid.shape:
        return ()
    edits = view.changes.chunks.get(node.id)
    single = {} if edits is None else edits.find_single()
    if single and len(single) > FEW and len(single) > FEW * grid.count_regions():
        single = None  # columns are faster where regions have many edits
    parts = None if single is None else _plan_single_parts(view, node, grid, single, wanted)
    return list(_plan_parts(view, node, grid, wanted)) if parts is None else parts


def _write_parts(
    view: View, node: Node, parts: Sequence[Part], manifests: WrittenManifests
) -> tuple[ManifestRef, ...]:
    refs = []
    for part in parts:
        match part:
            case ManifestRef():
                refs.append(part)
                continue
            case PrewrittenManifest():
                manifests.files[part.file.id] = part.file
                refs.append(part.ref)
                continue
            case ColumnPart():
                table: ChunkTable | ChunkRows = part.merge(view, node)
            case tuple():
                table = _merge_single(view, node, *part)
            case _:
                table = part
        if len(table):
            ref = ManifestRef(manifests.add(view.assets, {node.id: table}), table.extents())
            refs.append(ref)
            if not isinstance(part, ChunkTable):
                manifests.merged.append((node, part, ref))
    return tuple(refs)


def _plan_single_parts(
    view: View,
    node: Node,
    grid: SplitGrid,
    edits: Mapping[Coordinate, ChunkRef | None],
    wanted: list[ManifestRef],
) -> list[ManifestRef | RowPart] | None:
    """Return what `_plan_parts` yields, for single edits; None if a manifest has to be split."""
    assert node.array is not None
    if view.assets.dialect.is_legacy:
        return None
    shape, sizes = grid.shape, grid.sizes
    changed: dict[SplitRegion, dict[Coordinate, ChunkRef | None]] = {}
    inside = {place: new for place, new in edits.items() if all(map(lt, place, shape))}
    if inside and grid.count_regions() == 1:
        changed[(0,) * len(shape)] = inside
    else:
        for place, new in inside.items():
            changed.setdefault(tuple(map(floordiv, place, sizes)), {})[place] = new
    parts: list[tuple[SplitRegion, ManifestRef | RowPart]] = []
    former: dict[SplitRegion, list[ManifestRef]] = {}
    for ref in manifests_of(node.array, view.assets.dialect):
        region = tuple([start // size for (start, _), size in zip(ref.extents, sizes, strict=True)])
        for (_, stop), index, size, count in zip(ref.extents, region, sizes, shape, strict=True):
            if stop > (index + 1) * size or stop > count:
                return None
        if region in changed:
            former.setdefault(region, []).append(ref)
        else:
            parts.append((region, ref))
    for region, edited in changed.items():
        base = former.get(region, ())
        wanted += base
        parts.append((region, (base, edited)))
    parts.sort(key=itemgetter(0))
    return [part for _, part in parts]


def _merge_single(
    view: View,
    node: Node,
    former: Sequence[ManifestRef],
    edits: Mapping[Coordinate, ChunkRef | None],
) -> ChunkRows | ChunkTable:
    """Return the references of a split region, which holds its manifests, with edits applied."""
    axes = len(next(iter(edits)))
    if len(edits) <= FEW:
        merged: dict[Coordinate, ChunkRef | None] = {}
        for ref in former:
            rows = view.assets.read_manifest(ref.id).rows(node.id, axes)
            if rows is None:
                break
            merged.update(rows)
        else:
            merged.update(edits)
            return ChunkRows(axes, {place: ref for place, ref in merged.items() if ref is not None})
    tables = [view.assets.read_manifest(ref.id).table(node.id, axes) for ref in former]
    base = concatenate([ChunkTable.empty(axes), *tables])
    gone = [place for place, ref in edits.items() if ref is None]
    written = {place: ref for place, ref in edits.items() if ref is not None}
    kept = base.remove(np.array(gone, np.uint32).reshape(len(gone), axes)) if gone else base
    return kept.merge(ChunkTable.of(axes, written))


def _plan_parts(
    view: View, node: Node, grid: SplitGrid, wanted: list[ManifestRef]
) -> Iterator[ManifestRef | PrewrittenManifest | ColumnPart]:
    """Yield manifests to keep, prewritten manifests and parts to merge, in the order of split regions.

    Parts of several manifests in an unchanged split region are not merged. Their boxes stay
    disjoint: a reader uses the first manifest whose box contains a chunk.
    """
    assert node.array is not None
    edits = view.changes.chunks.get(node.id) or ChunkEdits(len(grid.shape), view.changes.id_size)
    former = manifests_by_region(node.array, grid, view.assets.dialect)
    written, deleted = _split_edits(edits, grid)
    ready = _find_ready(edits, grid, former, {*written, *deleted})
    unready = [each for each in edits.prewritten if each not in ready.values()]
    for each in unready:
        written = _lay_under(each.read_changes(view.assets, node.id), written, deleted, grid)
    # After all references are merged, so that references set later are kept.
    for each in unready:
        deleted = _unite_rows(deleted, grid.split(each.deleted))
    for region in sorted({*former, *written, *deleted, *ready}):
        box = grid.extents(region)
        if region in ready:
            yield ready[region]
        elif region in written or region in deleted:
            wanted += former[region]
            yield ColumnPart(box, former[region], written.get(region), deleted.get(region))
        else:
            for ref in former[region]:
                if is_inside(ref.extents, box):
                    yield ref
                else:
                    wanted.append(ref)
                    yield ColumnPart(box, (ref,))


def manifests_by_region(
    array: ArrayData, grid: SplitGrid, dialect: Dialect
) -> defaultdict[SplitRegion, list[ManifestRef]]:
    """Return the manifests that may contain chunks of each split region."""
    found: defaultdict[SplitRegion, list[ManifestRef]] = defaultdict(list)
    for ref in manifests_of(array, dialect):
        for region in grid.regions_touching(ref.extents):
            found[region].append(ref)
    return found


def _find_ready(
    edits: ChunkEdits,
    grid: SplitGrid,
    former: Mapping[SplitRegion, Sequence[ManifestRef]],
    edited: Collection[SplitRegion],
) -> dict[SplitRegion, PrewrittenManifest]:
    """Return the prewritten manifests that cover a whole split region of this grid over this base."""
    ready: dict[SplitRegion, PrewrittenManifest] = {}
    for each in edits.prewritten:
        region = tuple(start // size for (start, _), size in zip(each.box, grid.sizes, strict=True))
        base = tuple(ref.id for ref in former.get(region, ()))
        if each.box == grid.extents(region) and each.base == base and region not in edited:
            # Two workers' manifests of one split region don't contain each other's references.
            if region in ready:
                return {}
            ready[region] = each
    for each in edits.prewritten:
        if each not in ready.values():
            for region in grid.regions_touching(each.reach):
                ready.pop(region, None)
    return ready


def _lay_under(
    table: ChunkTable,
    written: Mapping[SplitRegion, ChunkTable],
    deleted: Mapping[SplitRegion, Coordinates],
    grid: SplitGrid,
) -> dict[SplitRegion, ChunkTable]:
    """Merge a worker's references under the edits by split region, which override them."""
    found = dict(written)
    for region, part in table.select(grid.everything).split(grid.edges).items():
        kept = part.remove(deleted[region]) if region in deleted else part
        found[region] = kept.merge(written[region]) if region in written else kept
    return found


def _read_part(view: View, node: Node, ref: ManifestRef, box: Extents) -> ChunkTable:
    table = view.assets.read_manifest(ref.id).table(node.id, len(box))
    return table if is_inside(ref.extents, box) else table.select(box)


def _split_edits(
    edits: ChunkEdits, grid: SplitGrid
) -> tuple[dict[SplitRegion, ChunkTable], dict[SplitRegion, Coordinates]]:
    """Return the edits by split region, without those outside the grid."""
    written, deleted = edits.columns()
    return written.select(grid.everything).split(grid.edges), grid.split(deleted)


def _unite_rows(
    one: Mapping[SplitRegion, Coordinates], other: Mapping[SplitRegion, Coordinates]
) -> dict[SplitRegion, Coordinates]:
    both = {region: unite([one[region], other[region]]) for region in one.keys() & other.keys()}
    return {**one, **other, **both}


def write_shared_manifest(view: View) -> WrittenManifests:
    """Encode one manifest with the references of all arrays, shared by every array."""
    arrays = [node for node in view.nodes() if node.array is not None]
    tables = {node.id: view.table(node) for node in arrays}
    filled = {id: table for id, table in tables.items() if len(table)}
    written = WrittenManifests()
    refs = (ManifestRef(written.add(view.assets, filled), ()),) if filled else ()
    written.refs = {node.id: refs for node in arrays}
    return written


MANY_CHUNKS = 100_000
"""Number of chunks from which the transaction log is written in a separate thread."""
MOST_LOGGED_CHUNKS = 2_000_000
"""Number of chunks of a commit from which it becomes several: some 150 MB while a log is encoded."""


@dataclass(frozen=True, slots=True)
class CommitText:
    """Message and metadata of a commit."""

    message: str
    metadata: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class EncodedCommit:
    """A snapshot, and its files that are not written yet."""

    snapshot: Snapshot
    objects: list[Object]
    """Files to write before a branch moves; empty once they are written."""
    manifests: WrittenManifests
    earlier: tuple[Snapshot, ...] = ()
    """Snapshots between the base and this one, of a commit that is too large for one log."""

    @property
    def ids(self) -> list[SnapshotId]:
        """Return the ids of all its snapshots."""
        return [*(each.id for each in self.earlier), self.snapshot.id]


def encode_commit(
    state: SessionState,
    text: CommitText,
    write: ManifestWriter = write_manifests,
    former: TransactionLog | None = None,
    logged_as: Sequence[SnapshotId] = (),
) -> EncodedCommit:
    """Encode manifests, snapshot and transaction log of a commit, to be written together.

    The log contains the changes of a `former` log, which an amend replaces. An earlier attempt may have
    written the log already, for the snapshot id `logged_as`.
    """
    view, assets = state.view, state.assets
    id = logged_as[0] if logged_as else new_snapshot_id(assets.dialect)
    log = TransactionLog(id) if logged_as else build_log(view, id)
    if former is not None:
        log = merge_logs([former, log], id)
    is_large = sum(map(len, log.updated_chunks.values())) >= MANY_CHUNKS
    # Both are slow and mostly run outside the GIL.
    with CollectorPause(), ThreadPoolExecutor(1) if is_large else nullcontext() as pool:
        encoding = None if pool is None else pool.submit(assets.encode_transaction_log, log)
        settings = state.context.settings
        fetches = settings.max_concurrent_manifest_fetches_during_commit
        manifests = write(view, settings.split_sizes, fetches)
        snapshot = build_snapshot(view, manifests, text, id=id, started_at=state.started_at)
        objects = [*manifests.pending, assets.encode_snapshot(snapshot)]
        if not logged_as:
            objects += assets.encode_transaction_log(log) if encoding is None else encoding.result()
    return EncodedCommit(snapshot, objects, manifests)


def encode_steps(
    state: SessionState, text: CommitText, logged_as: Sequence[SnapshotId] = ()
) -> EncodedCommit:
    """Encode a commit; one that is too large for one transaction log becomes several, and is written.

    A FlatBuffer holds two gigabytes, and the log of some millions of chunks takes a lot of memory. The
    branch moves over all of them at once.
    """
    prewritten, others = state.changes.count_in_bulk()
    is_small = prewritten + others <= MOST_LOGGED_CHUNKS
    if is_small or not state.context.protocol.has_repo_info:
        return encode_commit(state, text, logged_as=logged_as)
    if others > MOST_LOGGED_CHUNKS:
        prewrite(state)
    parts = state.changes.split(MOST_LOGGED_CHUNKS)
    snapshots: list[Snapshot] = []
    for number, part in enumerate(parts):
        step = SessionState(state.context, snapshots[-1] if snapshots else state.view.snapshot)
        step.set_base(step.view.snapshot, part)
        step.started_at = state.started_at
        is_last = number == len(parts) - 1
        message = f"{text.message} (part {number + 1} of {len(parts)})"
        own = text if is_last else CommitText(message, {})
        done = encode_commit(step, own, logged_as=logged_as[number : number + 1])
        state.assets.storage.put_many(done.objects)
        snapshots.append(done.snapshot)
    return EncodedCommit(snapshots[-1], [], WrittenManifests(), tuple(snapshots[:-1]))


def prewrite(state: SessionState) -> None:
    """Write the manifests of all edited split regions, and replace the edits by them."""
    settings = state.context.settings
    fetches = settings.max_concurrent_manifest_fetches_during_commit
    manifests = write_manifests(state.view, settings.split_sizes, fetches)
    state.assets.storage.put_many(manifests.pending)
    _adopt_written(state, manifests)


def keep_files(state: SessionState, done: EncodedCommit) -> None:
    """Let a session keep the manifests and the log of an attempt that lost a race.

    Edits that are in a manifest already are replaced by it. It is used as it is if the winner did not
    change its split region.
    """
    state.assets.storage.put_many(done.objects)
    done.objects.clear()
    _adopt_written(state, done.manifests)


def _adopt_written(state: SessionState, written: WrittenManifests) -> None:
    rules = state.context.settings.split_sizes
    kept: defaultdict[NodeId, list[PrewrittenManifest]] = defaultdict(list)
    for node, part, ref in written.merged:
        manifest = _as_prewritten(node, part, ref, written.files[ref.id], rules)
        if manifest is not None:
            kept[node.id].append(manifest)
    for node_id, manifests in kept.items():
        state.changes.chunks[node_id].adopt(*manifests)


def _as_prewritten(
    node: Node,
    part: "ColumnPart | RowPart",
    ref: ManifestRef,
    file: ManifestFileInfo,
    rules: Sequence[SplitRule],
) -> PrewrittenManifest | None:
    """Return the manifest of an edited split region; None if its references are all of the base."""
    axes = len(ref.extents)
    if isinstance(part, ColumnPart):
        box, base = part.box, part.base
        written = ChunkTable.empty(axes) if part.written is None else part.written
        deleted = np.empty((0, axes), np.uint32) if part.deleted is None else part.deleted
    else:
        assert node.array is not None
        base, edits = part
        grid = plan_split(node.path, node.array, rules)
        box = grid.extents(tuple(map(floordiv, next(iter(edits)), grid.sizes)))
        written = ChunkTable.of(axes, {at: new for at, new in edits.items() if new is not None})
        gone = [at for at, new in edits.items() if new is None]
        deleted = unite([np.array(gone, np.uint32).reshape(len(gone), axes)])
    if not len(written) and not len(deleted):
        return None
    size = int(written.length[written.kind != ChunkKind.VIRTUAL].sum())
    return PrewrittenManifest(
        file, ref.extents, box, tuple(each.id for each in base), written.coordinates, deleted, size
    )


def build_snapshot(
    view: View,
    manifests: WrittenManifests,
    text: CommitText,
    *,
    id: SnapshotId,
    started_at: Nanoseconds,
) -> Snapshot:
    """Return the snapshot that results from a session's changes to its base."""
    dialect, parent = view.assets.dialect, view.snapshot
    nodes = _nodes_after(view, manifests)
    return Snapshot(
        id=id,
        parent_id=parent.id if dialect.names_parents else None,
        flushed_at=time_after(parent.flushed_at, read_clock()),
        message=text.message,
        metadata=Metadata(text.metadata) if text.metadata else NO_METADATA,
        nodes=nodes,
        manifest_files=_manifest_files(nodes, manifests, parent),
        history=(
            v1_protocol.continue_history(view.assets, parent.id, started_at)
            if dialect.records_history
            else None
        ),
    )


def _nodes_after(view: View, manifests: WrittenManifests) -> dict[str, Node]:
    """Return the nodes with a session's changes applied, in the order of their paths."""
    nodes = dict(view.snapshot.nodes.items())
    for path, changed in view.changes.nodes.items():
        if changed is None:
            nodes.pop(path, None)
        else:
            nodes[path] = changed
    if manifests.refs:
        for path in [path for path, node in nodes.items() if node.id in manifests.refs]:
            nodes[path] = with_manifests(nodes[path], manifests.refs[nodes[path].id])
    return dict(sorted(nodes.items()))


def _manifest_files(
    nodes: Mapping[str, Node], manifests: WrittenManifests, parent: Snapshot
) -> tuple[ManifestFileInfo, ...]:
    """Return the manifest files that some nodes reference, sorted by id."""
    used = {
        ref.id for node in nodes.values() if node.array is not None for ref in node.array.manifests
    }
    kept = {info.id: info for info in parent.manifest_files if info.id in used}
    new = [manifests.files.get(id) or ManifestFileInfo(id) for id in used - kept.keys()]
    return tuple(sorted([*kept.values(), *new], key=attrgetter("id")))


def build_log(view: View, snapshot_id: SnapshotId) -> TransactionLog:
    """Return the transaction log of a session's changes."""
    changes = view.changes
    log = TransactionLog(
        id=snapshot_id,
        new_groups=groups_of(changes.created),
        new_arrays=arrays_of(changes.created),
        deleted_groups=groups_of(changes.deleted),
        deleted_arrays=arrays_of(changes.deleted),
        updated_groups=groups_of(changes.updated),
        updated_arrays=arrays_of(changes.updated),
        updated_chunks={id: edits.coordinates() for id, edits in changes.chunks.items()},
        moves=changes.moves(),
    )
    if not view.assets.dialect.is_legacy:
        return log
    former = {node.id: node for node in view.snapshot.nodes.values()}
    return separate_attribute_changes(log, former, changes.updated)


def commit(
    state: SessionState,
    text: CommitText,
    *,
    allow_empty: bool = False,
    write: ManifestWriter = write_manifests,
) -> SnapshotId:
    """Commit a session to its branch; raises ConflictError if the branch has moved."""
    with state.lock:
        refuse_nothing(state, allow_empty=allow_empty)
        every = write is not write_manifests
        done = encode_commit(state, text, write) if every else encode_steps(state, text)
        move_branch(state, done)
    return done.snapshot.id


def move_branch(state: SessionState, done: EncodedCommit) -> None:
    """Make an encoded commit the tip of the session's branch; raises ConflictError if it has moved."""
    branch, base, protocol = require_branch(state), state.view.snapshot_id, state.context.protocol
    started = time.time_ns() if observers else 0
    protocol.commit(branch, done.snapshot, base, state.sources, done.objects, done.earlier)
    state.finish(done.snapshot)
    if observers:
        snapshot, place = done.snapshot, state.assets.storage.place
        event = Committed(
            place, branch, str(snapshot.id), snapshot.metadata, started, time.time_ns()
        )
        for each in observers:
            each(event)


@dataclass(frozen=True, slots=True)
class Committed:
    """Commit, as observers receive it."""

    place: str
    """Location of the repository, without secrets."""
    branch: str
    snapshot_id: str
    metadata: Mapping[str, JsonValue]
    started_ns: int
    """Time at which its files were ready to be written."""
    ended_ns: int


observers: list[Callable[[Committed], object]] = []
"""Called after each commit, as `frazil.telemetry` asks; they raise nothing."""


def amend(
    state: SessionState,
    text: CommitText,
    *,
    allow_empty: bool = False,
    write: ManifestWriter = write_manifests,
) -> SnapshotId:
    """Replace the tip of the session's branch with a snapshot that also has the session's changes."""
    protocol = state.context.protocol
    if not protocol.has_repo_info:
        raise protocol.unsupported("amend")
    with state.lock:
        branch = require_branch(state)
        refuse_nothing(state, allow_empty=allow_empty)
        replaced = state.view.snapshot_id
        former = state.assets.read_transaction_log(replaced)
        if former.moves and state.mode is not SessionMode.rearrange:
            raise SessionStateError(
                "the last commit moved nodes: only a rearrange session can amend it",
                kind="rearrange-session-only",
            )
        done = encode_commit(state, text, write, former)
        protocol.amend(branch, done.snapshot, replaced, state.sources, done.objects)
        state.finish(done.snapshot)
    return done.snapshot.id


def flush(state: SessionState, text: CommitText) -> SnapshotId:
    """Write a snapshot of the session that no branch or tag references."""
    if state.is_fork:
        raise IcechunkError(
            "cannot flush a forked session: merge it into its session and flush that"
        )
    with state.lock:
        parent_id = state.view.snapshot_id
        done = encode_commit(state, text)
        protocol = state.context.protocol
        protocol.register(done.snapshot, parent_id, state.sources, done.objects)
        state.finish(done.snapshot)
    return done.snapshot.id


def describe(
    state: SessionState, message: str, metadata: Mapping[str, JsonValue] | None
) -> CommitText:
    """Return message and metadata of a commit, including the repository's default metadata."""
    defaults = state.context.default_commit_metadata
    return CommitText(message, {**defaults, **(metadata or {})})


def require_branch(state: SessionState) -> str:
    """Return the branch that a session commits to; raises SessionStateError if it has none."""
    if state.branch is None:
        raise SessionStateError(
            "commits are not allowed on read-only or forked sessions: merge a fork into the session"
            " that it came from, and commit that",
            kind="commit-not-allowed",
        )
    return state.branch


def refuse_nothing(state: SessionState, *, allow_empty: bool) -> None:
    """Raise SessionStateError if a session has no branch, or nothing to commit."""
    require_branch(state)
    if not state.changes and not allow_empty:
        raise SessionStateError(
            "cannot commit, no changes made to the session: allow_empty=True commits all the same",
            kind="no-changes-to-commit",
        )
