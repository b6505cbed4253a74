"""Contents of the explorer's pages as values, which are also their JSON twins."""

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from itertools import islice, takewhile
from threading import Lock, RLock, Semaphore
from typing import Any, TypeVar

import numpy as np
import zarr

from frazil.display import to_plain
from frazil.errors import IcechunkError, InvalidInputError, NotFoundError
from frazil.format.ids import SnapshotId
from frazil.format.metadata import to_datetime
from frazil.format.snapshot import Node
from frazil.maintenance.findings import CheckReport
from frazil.maintenance.leases import LeaseInfo, list_leases
from frazil.ops import SpecVersion
from frazil.overview import contents
from frazil.overview.contents import Coverage, find_coverage
from frazil.overview.nodes import (
    Axis,
    NodeEntry,
    choose_axes,
    describe_crs,
    find_axes,
    read_attributes,
    read_metadata,
    spell_data_type,
)
from frazil.overview.preview import (
    READ_ERRORS,
    Series,
    Slice,
    explain,
    pack,
    read_series,
    read_slice,
    to_numbers,
)
from frazil.protocols.v2_protocol import V2Protocol
from frazil.repository.locate import read_version
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.snapshots import Diff, Row, SnapshotInfo, plan_rows
from frazil.urls import BranchRef, NamedRef

MOST_VARIABLES = 24
"""Maximum variables on the overview."""
MOST_OPERATIONS = 500
"""Maximum results of a search."""
MOST_HISTORY = 100
"""Snapshots on one page of the history."""
MOST_LEDGER_ROWS = 200
_MOST_READERS = 4
"""Maximum requests that read chunks at a time, each a bounded number of bytes; others wait."""
INTERNAL = "/_frazil"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def open_ref(repository: Repository, ref: str) -> Session:
    """Open a read-only session by branch, tag or snapshot id; the branch main if empty."""
    return read_version(repository, NamedRef(ref) if ref else BranchRef("main"))


@dataclass(frozen=True, slots=True)
class RefEntry:
    """Branch or tag with its newest commit."""

    name: str
    kind: str
    """`branch` or `tag`."""
    snapshot_id: str
    written_at: datetime | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """Array of the overview and of listings."""

    path: str
    shape: tuple[int, ...]
    dims: tuple[str | None, ...]
    dtype: str
    long_name: str | None
    units: str | None
    is_coordinate: bool

    @property
    def has_numbers(self) -> bool:
        """Return True if the values can be drawn."""
        return is_number(self.dtype)


def is_number(dtype: str) -> bool:
    """Return True for the Zarr data types of numbers and booleans."""
    return dtype.startswith(("int", "uint", "float", "bool", "complex", "bfloat"))


@dataclass(frozen=True, slots=True)
class Overview:
    """Repository at one version, from metadata alone."""

    name: str
    url: str
    ref: str
    snapshot: SnapshotInfo
    title: str | None
    summary: str | None
    generation: str
    status: str | None
    """None for generations without a status."""
    arrays: int
    groups: int
    variables: tuple[Variable, ...]
    """Variables to show first: those with most axes in the topmost groups."""
    commits: tuple[SnapshotInfo, ...]
    """Newest commits of the version."""
    total_commits: int
    refs: tuple[RefEntry, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Data:
    """Groups and arrays of a version, or those that a search finds."""

    ref: str
    q: str
    has_internal: bool
    nodes: tuple[Variable | NodeEntry, ...]
    hidden: int
    """Number of internal nodes that are left out."""


@dataclass(frozen=True, slots=True)
class ArrayPage:
    """Array: metadata, axes and what a map of it would show."""

    ref: str
    snapshot_id: str
    array: contents.ArrayOverview
    axes: tuple[Axis, ...]
    shown: tuple[str, ...]
    """Names of the axes of the map or the line; empty without numbers."""
    crs: str | None
    item_bytes: int | None


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Part of the history, with the lanes of its graph."""

    q: str
    branch: str
    start: int
    total: int
    rows: tuple[Row, ...]
    lanes: int
    refs: Mapping[str, tuple[RefEntry, ...]]
    """Branches and tags of the snapshots."""
    branches: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Snapshot with its metadata."""

    snapshot: SnapshotInfo
    refs: tuple[RefEntry, ...]
    job: Mapping[str, Any]
    """Metrics of the job that committed it; empty without one."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Changes from one version to another."""

    old: str
    new: str
    difference: Diff | None
    """None if no versions were chosen."""
    commits: tuple[SnapshotInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class StoragePage:
    """Storage used by the arrays and commits of a version."""

    ref: str
    arrays: tuple[contents.StoredArray, ...]
    commits: tuple[tuple[contents.Origin, int], ...]
    """Bytes of the version that each commit wrote; older ones are left out."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Entry of the ops log."""

    updated_at: datetime
    operation: str
    details: str


@dataclass(frozen=True, slots=True)
class Health:
    """State of the repository, and the result of a check if one was asked for."""

    status: str | None
    reason: str | None
    leases: tuple[LeaseInfo, ...]
    now: datetime
    last_collection: datetime | None
    last_expiration: datetime | None
    containers: tuple[tuple[str, bool], ...]
    """Prefixes of virtual chunk containers, and whether they can be read."""
    protected: Mapping[str, str | None]
    check: CheckReport | None
    garbage: Mapping[str, int] | None
    """Objects and bytes that a collection would delete; None if no check was asked for."""


@dataclass(frozen=True, slots=True)
class Job:
    """Commit of a job."""

    snapshot: SnapshotInfo
    metrics: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs of a version, and its ledger of ingested files."""

    ref: str
    jobs: tuple[Job, ...]
    files: int
    file_bytes: int
    ledger: tuple[Mapping[str, Any], ...]
    """Newest rows of the ledger."""
    quarantined: tuple[tuple[SnapshotInfo, int], ...]
    """Ingests that left out files because quality checks failed."""
    ledger_problem: str | None = None


class Explorer:
    """Read-only answers about one repository. Versions are immutable, so answers are cached."""

    def __init__(self, repository: Repository, url: str, *, is_frozen: bool = False) -> None:
        self.repository = repository
        self._is_frozen = is_frozen  # as a report is, which shows one moment
        self.url = url
        self.name = url.split("?")[0].rstrip("/").rpartition("/")[2] or url
        self._cache: OrderedDict[object, Any] = OrderedDict()
        self._making: dict[object, RLock] = {}
        self._lock = Lock()
        self._reading = Semaphore(_MOST_READERS)

    def _cached(self, key: object, make: Callable[[], Any]) -> Any:
        with self._lock:
            making = self._making.setdefault(key, RLock())
        with making:  # threads that need the same answer wait for the first one
            with self._lock:
                if key in self._cache:
                    self._cache.move_to_end(key)
                    return self._cache[key]
            found = make()
            with self._lock:
                self._cache[key] = found
                while len(self._cache) > 256:
                    self._making.pop(self._cache.popitem(last=False)[0], None)
        return found

    def session(self, ref: str) -> Session:
        """Return a session at a version."""
        if self._is_frozen:
            pinned: Session = self._cached(("ref", ref), lambda: open_ref(self.repository, ref))
            return pinned
        session = open_ref(self.repository, ref)
        found: Session = self._cached(("session", session.snapshot_id), lambda: session)
        return found

    def list_refs(self) -> tuple[RefEntry, ...]:
        """Return branches, then tags; main first."""
        if not self._is_frozen:
            return self._read_refs()
        found: tuple[RefEntry, ...] = self._cached("refs", self._read_refs)
        return found

    def _read_refs(self) -> tuple[RefEntry, ...]:
        protocol = self.repository.protocol
        known: Mapping[SnapshotId, Any] = {}
        if isinstance(protocol, V2Protocol):  # one file has them all
            info = protocol.read_repo_info()
            branches, tags, known = dict(info.branches), dict(info.tags), info.snapshots
        else:
            branches = {name: protocol.lookup_branch(name) for name in protocol.list_branches()}
            tags = {name: protocol.lookup_tag(name) for name in protocol.list_tags()}
        order = sorted(branches, key=lambda each: (each != "main", each))
        pairs = [(name, "branch", branches[name]) for name in order]
        found = []
        for name, kind, id in (*pairs, *((name, "tag", tags[name]) for name in sorted(tags))):
            tip = known.get(id)
            dated = () if tip is None else (to_datetime(tip.flushed_at), tip.message)
            found.append(RefEntry(name, kind, str(id), *dated))
        return tuple(found)

    def _dated_refs(self, most: int) -> tuple[RefEntry, ...]:
        def describe(ref: RefEntry) -> RefEntry:
            if ref.written_at is not None:
                return ref
            found = self._find_snapshot(ref.snapshot_id)
            return replace(ref, written_at=found.written_at, message=found.message)

        return tuple(map(describe, self.list_refs()[:most]))

    def _find_snapshot(self, id: str) -> SnapshotInfo:
        read = self.repository.lookup_snapshot
        found: SnapshotInfo = self._cached(("snapshot", id), lambda: read(id))
        return found

    # Overview

    def variables(self, ref: str) -> tuple[tuple[Variable, ...], tuple[NodeEntry, ...]]:
        """Return all arrays and all groups of a version, sorted by path."""
        session = self.session(ref)

        def read() -> Any:
            arrays, groups = [], []
            for node in session.state.view.descendants("/"):
                if node.array is None:
                    groups.append(NodeEntry(node.path, "group"))
                else:
                    arrays.append(_describe(node))
            return tuple(arrays), tuple(groups)

        found: tuple[tuple[Variable, ...], tuple[NodeEntry, ...]] = self._cached(
            ("nodes", session.snapshot_id), read
        )
        return found

    def overview(self, ref: str) -> Overview:
        """Return the contents of the overview."""
        session = self.session(ref)
        arrays, groups = self.variables(ref)
        shown = [each for each in arrays if not is_internal(each.path)]
        root = session.state.view.find_node("/")
        attributes = {} if root is None else read_attributes(root)
        commits = tuple(islice(self.repository.ancestry(snapshot_id=session.snapshot_id), 7))
        return Overview(
            self.name,
            self.url,
            ref,
            commits[0],
            _text(attributes, "title"),
            _text(attributes, "summary") or _text(attributes, "description"),
            self.repository.dialect.value,
            self._status()[0],
            len(shown),
            sum(not is_internal(each.path) and each.path != "/" for each in groups),
            _choose_variables(shown),
            commits,
            self.count_commits(),
            self._dated_refs(12),
            attributes,
        )

    def _status(self) -> tuple[str | None, str | None]:
        if self.repository.spec_version is not SpecVersion.v2:
            return None, None
        status = self.repository.status
        return status.availability.name.replace("_", "-"), status.limited_availability_reason

    def coverage(self, ref: str, path: str = "") -> Coverage:
        """Read the coordinates of an array, or of the variables on the overview, few of them."""
        session = self.session(ref)
        arrays = [each for each in self.variables(ref)[0] if not is_internal(each.path)]
        paths = [_normal(path)] if path else [each.path for each in _choose_variables(arrays)]

        def read() -> Coverage:
            with self._reading:
                return find_coverage(session, paths)

        found: Coverage = self._cached(("coverage", session.snapshot_id, path), read)
        return found

    # Nodes

    def data(self, ref: str, q: str = "", *, has_internal: bool = False) -> Data:
        """Return groups and arrays whose path or attributes contain all words of `q`."""
        arrays, groups = self.variables(ref)
        nodes: list[Variable | NodeEntry] = sorted((*arrays, *groups), key=lambda each: each.path)
        total = len(nodes)
        nodes = [each for each in nodes if has_internal or not is_internal(each.path)]
        hidden = total - len(nodes)
        if words := q.lower().split():
            texts = self._search_texts(ref)
            nodes = [each for each in nodes if all(word in texts[each.path] for word in words)]
        return Data(ref, q, has_internal, tuple(nodes), hidden)

    def _search_texts(self, ref: str) -> Mapping[str, str]:
        session = self.session(ref)

        def read() -> dict[str, str]:
            return {
                node.path: f"{node.path} {_spell(read_attributes(node))}".lower()
                for node in session.state.view.descendants("/")
            }

        found: Mapping[str, str] = self._cached(("texts", session.snapshot_id), read)
        return found

    def children(self, ref: str, path: str, *, has_internal: bool = False) -> list[NodeEntry]:
        """Return the nodes directly in a group."""
        session = self.session(ref)
        found = [
            NodeEntry(node.path, "group" if node.array is None else "array")
            for node in session.state.view.children(path)
            if has_internal or not is_internal(node.path)
        ]
        return sorted(found, key=lambda each: (each.kind == "array", each.path))

    def array(self, ref: str, path: str, dims: Sequence[str] = ()) -> ArrayPage:
        """Return the metadata of an array; reads no chunks."""
        session = self.session(ref)
        found = contents.describe_array(session, path, reads_values=False)
        node = session.state.view.get_node(found.path)
        axes = find_axes(session, node)
        known = {each.name for each in axes}
        if any(each not in known for each in dims):
            raise InvalidInputError(
                f"invalid axes {', '.join(dims)}: the array has {', '.join(sorted(known))}"
            )
        has_numbers = is_number(found.dtype) and 0 not in found.shape
        shown = tuple(dims) or tuple(each.name for each in choose_axes(axes))
        return ArrayPage(
            ref,
            session.snapshot_id,
            found,
            axes,
            shown if has_numbers else (),
            describe_crs(session, node),
            _item_bytes(found.dtype),
        )

    def slice(
        self,
        ref: str,
        path: str,
        at: Mapping[str, int] | None = None,
        dims: Sequence[str] | None = None,
        windows: Mapping[str, tuple[int, int]] | None = None,
        most_side: int | None = None,
    ) -> dict[str, Any]:
        """Return a slice for a map, a line or a list of texts; numbers of maps are packed."""
        session = self.session(ref)
        side = {} if most_side is None else {"most_side": most_side}
        with self._reading:
            found = _translate(
                lambda: read_slice(session, path, at, dims=dims or None, windows=windows, **side)
            )
        return _plain_slice(found)

    def series(self, ref: str, path: str, dim: str, at: Mapping[str, int]) -> Series:
        """Return the values along an axis at a point."""
        session = self.session(ref)
        with self._reading:
            return _translate(lambda: read_series(session, path, dim, at))

    def cells(self, ref: str, path: str, old: str = "") -> contents.Cells:
        """Return the chunk grid of an array, with the chunks that changed since another version."""
        session = self.session(ref)
        found: contents.ChunkGrid = self._cached(
            ("chunks", session.snapshot_id, path), lambda: contents.map_chunks(session, path)
        )
        metadata = read_metadata(session.state.view.get_node(_normal(path)))
        shape = metadata.get("chunk_grid", {}).get("configuration", {}).get("chunk_shape")
        item = _item_bytes(metadata.get("data_type"))
        is_regular = (
            bool(item) and isinstance(shape, list) and all(isinstance(n, int) for n in shape)
        )
        changed = None
        if old:
            coordinates = self._changes(old, ref).chunk_coordinates.get(_normal(path))
            changed = contents.mark(found, coordinates)
        return contents.to_cells(
            found, item * math.prod(shape) if is_regular and item else None, changed
        )

    def chunk(self, ref: str, path: str, at: Sequence[int]) -> contents.ChunkDetails:
        """Return where the bytes of one chunk are."""
        return contents.describe_chunk(self.session(ref), path, at)

    # History

    def _tips(self) -> tuple[str, ...]:
        refs = sorted(self.list_refs(), key=lambda each: each.written_at or _EPOCH, reverse=True)
        return tuple(dict.fromkeys(each.snapshot_id for each in refs))

    def count_commits(self) -> int:
        """Return the number of snapshots that branches and tags reach."""
        tips = self._tips()

        def read() -> int:
            seen: set[SnapshotId] = set()
            for history in self.repository.protocol.ancestries(map(SnapshotId.parse, tips)):
                for each in history:
                    if each.id in seen:
                        break
                    seen.add(each.id)
            return len(seen)

        count: int = self._cached(("count", tips), read)
        return count

    def _rows(self, tips: Sequence[str], most: int | None) -> tuple[Row, ...]:
        """Return the newest rows of the graph, or all of them."""

        def read() -> tuple[Row, ...]:
            found: dict[str, SnapshotInfo] = {}
            dates = {each.snapshot_id: each.written_at for each in self.list_refs()}
            for tip in tips:
                date = dates.get(tip)
                if most is not None and len(found) > most and date is not None:
                    newest = nlargest(most, (each.written_at for each in found.values()))
                    if date < newest[-1]:
                        continue
                # The newest `most` snapshots are among the newest ones below each tip; those below a
                # known one are known already, or older than as many.
                for each in islice(self.repository.ancestry(snapshot_id=tip), most and most + 1):
                    if each.id in found:
                        break
                    found[each.id] = each
            return plan_rows(found.values())[:most]

        rows: tuple[Row, ...] = self._cached(("history", tips, most), read)
        return rows

    def history(
        self, q: str = "", branch: str = "", start: int = 0, count: int = MOST_HISTORY
    ) -> HistoryPage:
        """Return a part of the history of all versions, or of one, with all words of `q`."""
        refs = self.list_refs()
        tips = (self.session(branch).snapshot_id,) if branch else self._tips()
        if q.strip():
            words = q.lower().split()
            rows = tuple(each for each in self._rows(tips, None) if _matches(each.snapshot, words))
            rows = tuple(replace(each, lane=0, passing=(), joining=()) for each in rows)
            total = len(rows)
        else:
            rows = self._rows(tips, start + count)
            total = self.count_commits()
            if branch:
                total = sum(1 for _ in self.repository.protocol.ancestry(SnapshotId.parse(tips[0])))
        by_id: dict[str, tuple[RefEntry, ...]] = {}
        for each in refs:
            by_id[each.snapshot_id] = (*by_id.get(each.snapshot_id, ()), each)
        part = rows[start : start + count]
        lanes = max((max(row.lane, *row.passing, *row.joining, 0) + 1 for row in part), default=1)
        branches = tuple(each.name for each in refs)
        return HistoryPage(q, branch, start, total, part, min(lanes, 12), by_id, branches)

    def commit(self, id: str) -> Commit:
        """Return a snapshot, by id or by the name of a branch or tag."""
        found = self._find_snapshot(self.session(id).snapshot_id)
        refs = tuple(each for each in self.list_refs() if each.snapshot_id == found.id)
        return Commit(found, refs, read_job(found))

    def _changes(self, old: str, new: str) -> Diff:
        ids = [self.session(each).snapshot_id for each in (old, new)]
        found: Diff = self._cached(
            ("changes", *ids), lambda: contents.find_changes(self.repository, *ids)
        )
        return found

    def compare(self, old: str, new: str) -> Comparison:
        """Return the changes from one version to another, and the commits that only it has."""
        if not old or not new:
            return Comparison(old, new, None)
        found = self._changes(old, new)
        first, last = (self.session(each).snapshot_id for each in (old, new))
        history = self.repository.ancestry
        known = {each.id for each in islice(history(snapshot_id=first), 200)}
        newest = islice(history(snapshot_id=last), 200)
        commits = tuple(takewhile(lambda each: each.id not in known, newest))
        return Comparison(old, new, found, commits)

    # Storage and operation

    def storage(self, ref: str) -> StoragePage:
        """Return the bytes by array, largest first, and by commit, newest first."""
        session = self.session(ref)
        arrays, commits = self._cached(
            ("storage", session.snapshot_id),
            lambda: (contents.measure_arrays(session), contents.measure_commits(session)),
        )
        return StoragePage(ref, arrays, commits)

    def operations(self) -> tuple[Operation, ...]:
        """Return the newest operations; empty for generations without an ops log."""
        if self.repository.spec_version is not SpecVersion.v2:
            return ()
        return tuple(
            Operation(each.updated_at, type(each.kind).__name__, _details(each.kind))
            for each in islice(self.repository.ops_log(), MOST_OPERATIONS)
        )

    def health(self, *, checks: bool = False) -> Health:
        """Return the state of the repository; with `checks`, check all files and count garbage."""
        repository = self.repository
        status, reason = self._status()
        virtual = repository.context.virtual
        refused = set(virtual.refused_prefixes)
        containers = repository.config.virtual_chunk_containers or {}
        operations = self.operations()
        try:
            leases = tuple(list_leases(repository.storage))
        except IcechunkError:
            leases = ()
        check = garbage = None
        if checks:
            check = repository.check()
            summary = repository.garbage_collect(
                datetime.now(UTC) - timedelta(days=1), dry_run=True
            )
            garbage = {
                "objects": summary.chunks_deleted + summary.manifests_deleted
                + summary.snapshots_deleted + summary.transaction_logs_deleted,
                "bytes": summary.bytes_deleted,
            }  # fmt: skip
        return Health(
            status,
            reason,
            leases,
            datetime.now(UTC),
            next((each.updated_at for each in operations if each.operation == "GCRan"), None),
            next(
                (each.updated_at for each in operations if each.operation == "ExpirationRan"), None
            ),
            tuple((prefix, prefix not in refused) for prefix in sorted(containers)),
            _read_protected(repository),
            check,
            garbage,
        )

    def jobs(self, ref: str) -> Jobs:
        """Return the commits of jobs, and the ledger of ingested files."""
        session = self.session(ref)
        jobs, quarantined = [], []
        for each in islice(self.repository.ancestry(snapshot_id=session.snapshot_id), 500):
            metrics = read_job(each)
            if metrics:
                jobs.append(Job(each, metrics))
                if metrics.get("quarantined"):
                    quarantined.append((each, int(metrics["quarantined"])))
        found = Jobs(ref, tuple(jobs[:200]), 0, 0, (), tuple(quarantined))
        if session.state.view.find_node("/_frazil/ledger/source") is None:
            return found
        try:
            files, size, rows = self._read_ledger(session)
        except (*READ_ERRORS, KeyError) as error:
            return replace(found, ledger_problem=explain(error))
        return replace(found, files=files, file_bytes=size, ledger=rows)

    def _read_ledger(self, session: Session) -> tuple[int, int, tuple[Mapping[str, Any], ...]]:
        group = zarr.open_group(session.store, path="_frazil/ledger", mode="r")
        names = ("source", "group", "size", "start", "stop", "job")
        arrays: dict[str, Any] = {name: group[name] for name in names}
        count = int(arrays["source"].shape[0])
        part = slice(max(0, count - MOST_LEDGER_ROWS), count)
        columns = {name: np.asarray(each[part]).tolist() for name, each in arrays.items()}
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return count, int(np.asarray(arrays["size"][:1_000_000]).sum()), tuple(reversed(rows))


# Parts of answers


def spell_json(answer: Any) -> str:
    """Spell an answer as JSON; numbers that JSON does not have are null."""
    return json.dumps(_finite(to_plain(answer)), ensure_ascii=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list) else value


def is_internal(path: str) -> bool:
    """Return True for the groups in which Frazil keeps ledgers and statistics."""
    return path == INTERNAL or path.startswith(f"{INTERNAL}/")


def read_job(snapshot: SnapshotInfo) -> Mapping[str, Any]:
    """Return the metrics of the job that committed a snapshot; empty without one."""
    found = snapshot.metadata.get("frazil_job")
    return found if isinstance(found, dict) else {}


def _spell(attributes: Mapping[str, Any]) -> str:
    return json.dumps(attributes, ensure_ascii=False)


def _normal(path: str) -> str:
    return "/" + path.strip("/")


def _text(attributes: Mapping[str, Any], name: str) -> str | None:
    found = attributes.get(name)
    return found if isinstance(found, str) and found.strip() else None


def _describe(node: Node) -> Variable:
    assert node.array is not None
    metadata = read_metadata(node)
    attributes = metadata.get("attributes")
    attributes = attributes if isinstance(attributes, dict) else {}
    dims = tuple(node.array.dimension_names or ())
    name = node.path.rpartition("/")[2]
    return Variable(
        node.path,
        tuple(each.array_length for each in node.array.shape),
        dims,
        spell_data_type(metadata.get("data_type")),
        _text(attributes, "long_name") or _text(attributes, "standard_name"),
        _text(attributes, "units"),
        (len(dims) == 1 and dims[0] == name) or name.endswith(("_bnds", "_bounds")),
    )


def _choose_variables(arrays: Sequence[Variable]) -> tuple[Variable, ...]:
    """Return the arrays to show first: no coordinates, near the root, with most axes."""
    data = [each for each in arrays if not each.is_coordinate]
    data.sort(key=lambda each: (-min(2, len(each.shape)), each.path.count("/"), each.path))
    return tuple(data[:MOST_VARIABLES])


_Read = TypeVar("_Read")


def _translate(read: Callable[[], _Read]) -> _Read:
    """Read values, with errors of Zarr and codecs as errors of the request."""
    try:
        return read()
    except NotFoundError:
        raise
    except READ_ERRORS as error:
        raise InvalidInputError(explain(error)) from error


def _plain_slice(found: Slice) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "path": found.path, "form": found.form, "axes": [to_plain(each) for each in found.axes],
        "at": to_plain(found.at or {}), "units": found.units, "texts": found.texts,
        "is_north_up": found.is_north_up, "is_geographic": found.is_geographic, "note": found.note,
    }  # fmt: skip
    if found.values is not None:
        is_map = found.form == "map"
        plain["values"] = pack(found.values) if is_map else to_numbers(np.asarray(found.values))
    return plain


_SIZES = {"bool": 1, "bfloat16": 2}


def _item_bytes(data_type: object) -> int | None:
    if not isinstance(data_type, str):
        return None
    digits = "".join(each for each in data_type if each.isdigit())
    if data_type in _SIZES:
        return _SIZES[data_type]
    return int(digits) // 8 if is_number(data_type) and digits else None


def _matches(snapshot: SnapshotInfo, words: Sequence[str]) -> bool:
    text = f"{snapshot.message} {snapshot.id} {snapshot.written_at:%F} {snapshot.metadata}".lower()
    return all(word in text for word in words)


def _details(kind: object) -> str:
    text = repr(kind)
    return text[text.index("(") + 1 : -1] if "(" in text else text


def _read_protected(repository: Repository) -> Mapping[str, str | None]:
    try:
        return repository.protected_branches()
    except IcechunkError:  # generations without repository metadata
        return {}
