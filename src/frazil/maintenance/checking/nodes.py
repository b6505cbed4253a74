"""The nodes of a snapshot: what `zarr.json` says and what the snapshot says. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache

from frazil.engine.array_metadata import read_node_metadata
from frazil.errors import InvalidInputError
from frazil.format.coordinates import Extents
from frazil.format.dialect import Dialect
from frazil.format.paths import ROOT, parent_path
from frazil.format.snapshot import ArrayData, ManifestRef, Node
from frazil.maintenance.checking.problems import Problems, error, note, warning

_WITHOUT_EXTENTS = frozenset(
    {
        Dialect.DRAFT, Dialect.ALPHA_A, Dialect.ALPHA_B, Dialect.ALPHA_C, Dialect.ALPHA_D,
        Dialect.ALPHA_E, Dialect.ALPHA_F,
    }
)  # fmt: skip
"""Where manifests hold the references of all arrays, and refs to them say nothing of extents."""


# Most nodes are the same in one snapshot after the other.
_read_metadata = lru_cache(10_000)(read_node_metadata)


def has_extents(dialect: Dialect) -> bool:
    """Whether the snapshots of a dialect say which chunks a manifest covers."""
    return dialect not in _WITHOUT_EXTENTS


def check_nodes(nodes: Mapping[str, Node], key: str, dialect: Dialect) -> Problems:
    """All nodes of a snapshot file, and how they go together; raises FormatError."""
    for node in nodes.values():
        yield from check_metadata(node, key, dialect)
        if node.array is not None and has_extents(dialect):
            yield from check_extents(node.path, node.array, key)
    yield from _check_parents(nodes, key)
    repeated = [id for id, n in Counter(node.id for node in nodes.values()).items() if n > 1]
    for id in repeated:
        paths = sorted(node.path for node in nodes.values() if node.id == id)
        yield error(key, f"the nodes {', '.join(paths)} have one id, {id}", path=paths[0])


def _check_parents(nodes: Mapping[str, Node], key: str) -> Problems:
    missing: set[str] = set()
    for path in nodes:
        parent = parent_path(path)
        if path == ROOT:
            continue
        found = nodes.get(parent)
        if found is None:
            missing.add(parent)
        elif found.array is not None:
            # Allowed, as officially: both are read, though Zarr lists nothing below an array.
            yield note(key, f"it lies in {parent}, which is an array", path=path)
    for parent in sorted(missing):
        yield warning(key, "there are nodes in it, and no group of this path", path=parent)


def check_metadata(node: Node, key: str, dialect: Dialect) -> Problems:
    """Whether a node's `zarr.json` can be read and says what the snapshot says."""
    # Only V1 and V2 keep zarr.json as it was given; V2 knows all grids that there are.
    known = dialect if dialect is Dialect.V1 else Dialect.V2
    try:
        told = _read_metadata(node.user_data, known)
    except InvalidInputError as failure:
        yield error(key, f"its metadata can't be used: {failure.message}", path=node.path)
        return
    if (told is None) != (node.array is None):
        kinds = ["array" if each else "group" for each in (told, node.array)]
        yield error(key, f"zarr.json says {kinds[0]}, the snapshot {kinds[1]}", path=node.path)
    elif told is not None and node.array is not None:
        for what in _compare(told, node.array):
            yield error(key, what, path=node.path)


def _compare(told: ArrayData, kept: ArrayData) -> Iterator[str]:
    pairs = {
        "shape": ([d.array_length for d in told.shape], [d.array_length for d in kept.shape]),
        "number of chunks": (
            [d.num_chunks for d in told.shape],
            [d.num_chunks for d in kept.shape],
        ),
        "dimension names": (_names(told), _names(kept)),
    }
    for what, (there, here) in pairs.items():
        if there != here:
            yield f"the {what} is {there} by zarr.json, {here} by the snapshot"


def _names(array: ArrayData) -> list[str | None]:
    names = array.dimension_names
    return [None] * len(array.shape) if names is None else list(names)


# Extents


def check_extents(path: str, array: ArrayData, key: str) -> Problems:
    """Whether the manifests of an array cover chunks that it has, none twice."""
    grid = tuple((0, each.num_chunks) for each in array.shape)
    sound = []
    for ref in array.manifests:
        what = _find_extents_problem(ref.extents, grid)
        if what is None:
            sound.append(ref)
        else:
            yield error(key, f"the extents of manifest {ref.id} {what}", path=path)
    yield from (
        error(key, f"the extents of manifests {a.id} and {b.id} overlap", path=path)
        for a, b in find_overlaps(sound)
    )


def _find_extents_problem(extents: Extents, grid: Extents) -> str | None:
    if len(extents) != len(grid):
        return f"have {len(extents)} axes, the array has {len(grid)}"
    for (start, stop), (_, limit) in zip(extents, grid, strict=True):
        if start >= stop:
            return f"are empty: {start}..{stop}"
        if stop > limit:
            return f"reach to {stop} on an axis of {limit} chunks"
    return None


def find_overlaps(refs: "list[ManifestRef]") -> Iterator[tuple[ManifestRef, ManifestRef]]:
    """Pairs of manifests that cover a chunk both; quick where extents are split along an axis."""
    active: list[ManifestRef] = []
    for ref in sorted(refs, key=lambda each: each.extents):
        if ref.extents:
            active = [each for each in active if each.extents[0][1] > ref.extents[0][0]]
        yield from ((each, ref) for each in active if _overlap(each.extents, ref.extents))
        active.append(ref)


def _overlap(a: Extents, b: Extents) -> bool:
    return all(x[0] < y[1] and y[0] < x[1] for x, y in zip(a, b, strict=True))
