"""Contents of the pages as values: shown as HTML and, at the same address with `.json`, as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from frazil.errors import IcechunkError, InvalidInputError
from frazil.ops import SpecVersion
from frazil.overview.contents import (
    ArrayOverview,
    ChunkMap,
    StoredArray,
    describe_array,
    find_changes,
    map_chunks,
    measure_arrays,
)
from frazil.overview.preview import NodeEntry, Preview, list_nodes, normalize, read_preview
from frazil.repository.locate import read_version
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.snapshots import Diff, SnapshotInfo
from frazil.urls import BranchRef, NamedRef

MOST_SNAPSHOTS = 500
MOST_OPERATIONS = 500


@dataclass(frozen=True, slots=True)
class Home:
    """Repository with its history and refs."""

    name: str
    generation: str
    status: str | None
    """None for generations without a status."""
    branches: Mapping[str, str]
    tags: Mapping[str, str]
    snapshots: tuple[SnapshotInfo, ...]
    """Newest snapshots of all branches and tags."""
    is_complete: bool


def gather_home(repository: Repository, name: str) -> Home:
    """Collect the contents of the home page."""
    branches = {each: repository.lookup_branch(each) for each in sorted(repository.list_branches())}
    tags = {each: repository.lookup_tag(each) for each in sorted(repository.list_tags())}
    found: dict[str, SnapshotInfo] = {}
    is_complete = True
    for start in dict.fromkeys([*branches.values(), *tags.values()]):
        history = list(islice(repository.ancestry(snapshot_id=start), MOST_SNAPSHOTS + 1))
        is_complete &= len(history) <= MOST_SNAPSHOTS
        found.update((each.id, each) for each in history)
    newest = sorted(found.values(), key=lambda each: each.written_at, reverse=True)
    return Home(
        name,
        repository.dialect.value,
        repository.status.availability.name if has_repo_info(repository) else None,
        branches,
        tags,
        tuple(newest[:MOST_SNAPSHOTS]),
        is_complete and len(newest) <= MOST_SNAPSHOTS,
    )


@dataclass(frozen=True, slots=True)
class TreeAnswer:
    """Nodes of a version."""

    ref: str
    nodes: tuple[NodeEntry, ...]


def gather_tree(repository: Repository, ref: str) -> TreeAnswer:
    """Collect all groups and arrays."""
    return TreeAnswer(ref, tuple(list_nodes(open_ref(repository, ref))))


@dataclass(frozen=True, slots=True)
class ArrayAnswer:
    """Array, its chunks, and the position of the slice shown."""

    ref: str
    array: ArrayOverview
    chunks: ChunkMap
    at: tuple[int, ...]
    """Index along each axis but the last two."""


def gather_array(
    repository: Repository, ref: str, path: str, at: str = "", *, reads_values: bool = True
) -> ArrayAnswer:
    """Collect the contents of an array's page."""
    session = open_ref(repository, ref)
    array = describe_array(session, path, reads_values=reads_values)
    return ArrayAnswer(ref, array, map_chunks(session, path), parse_place(at, array.shape))


def parse_place(text: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Parse indices along all axes but the last two, such as `3,0`; the middle if empty."""
    lengths = shape[:-2]
    if not text.strip():
        return tuple(length // 2 for length in lengths)
    try:
        place = tuple(int(each) for each in text.split(","))
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is no place in an array, such as 3,0") from error
    if len(place) != len(lengths) or not all(
        0 <= each < length for each, length in zip(place, lengths, strict=True)
    ):
        raise InvalidInputError(f"{text!r} is not in {lengths}, the axes before the last two")
    return place


def read_slice(repository: Repository, ref: str, path: str, at: str) -> Preview | None:
    """Read a slice along the last two axes, or the only one; None if the values aren't numbers."""
    session = open_ref(repository, ref)
    _, array = session.state.view.get_array(normalize(path))
    shape = tuple(each.array_length for each in array.shape)
    return None if 0 in shape else read_preview(session, path, parse_place(at, shape))


def try_slice(
    repository: Repository, ref: str, path: str, at: str
) -> tuple[Preview | None, str | None]:
    """Read a slice, or return the reason why it can't be read."""
    try:
        return read_slice(repository, ref, path, at), None
    except (IcechunkError, ValueError, OSError, NotImplementedError) as error:
        return None, str(getattr(error, "message", None) or error)


@dataclass(frozen=True, slots=True)
class DiffAnswer:
    """Changes from one version to another."""

    old: str
    new: str
    difference: Diff


def gather_diff(repository: Repository, old: str, new: str) -> DiffAnswer:
    """Collect the changes; the second version must come after the first."""
    ids = [open_ref(repository, each).snapshot_id for each in (old, new)]
    return DiffAnswer(old, new, find_changes(repository, *ids))


@dataclass(frozen=True, slots=True)
class StorageAnswer:
    """Storage used by the arrays of a version."""

    ref: str
    arrays: tuple[StoredArray, ...]


def gather_storage(repository: Repository, ref: str) -> StorageAnswer:
    """Collect the bytes by array and kind, largest first."""
    return StorageAnswer(ref, measure_arrays(open_ref(repository, ref)))


@dataclass(frozen=True, slots=True)
class Operation:
    """Entry of the ops log."""

    updated_at: datetime
    operation: str
    details: str


def gather_operations(repository: Repository) -> tuple[Operation, ...]:
    """Collect the newest operations; empty for generations without an ops log."""
    if not has_repo_info(repository):
        return ()
    return tuple(
        Operation(each.updated_at, type(each.kind).__name__, _details(each.kind))
        for each in islice(repository.ops_log(), MOST_OPERATIONS)
    )


def _details(kind: object) -> str:
    text = repr(kind)
    return text[text.index("(") + 1 : -1] if "(" in text else text


def has_repo_info(repository: Repository) -> bool:
    """Return True if the repository has a status and an ops log, as only spec version 2 does."""
    return repository.spec_version is SpecVersion.v2


def open_ref(repository: Repository, ref: str) -> Session:
    """Open a read-only session by branch, tag or snapshot id; the branch main if empty."""
    return read_version(repository, NamedRef(ref) if ref else BranchRef("main"))
