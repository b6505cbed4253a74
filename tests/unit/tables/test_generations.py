"""Tables of repositories of every generation say what the interface in Python says."""

import sys
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from frazil import Repository
from frazil.errors import FormatError
from frazil.format.chunk_table import ETag, InlineRef, LastModified, NativeRef, VirtualRef
from frazil.overview.contents import measure_arrays
from frazil.overview.preview import list_nodes
from tests.known_repositories import open_known
from tests.unit.tables.rows import read_rows

KNOWN: tuple[str, ...] = (
    "draft-json", "alpha-msgpack-0.1.0a1-a4", "alpha-real-20241226-a8", "alpha-msgpack-0.1.0-0.1.3",
    "v1-1.0.3-split", "v1-1.1.21-expired", "v2-2.0.0a3", "v2-2.3.0-expired",
    "v2-2.3.0-split", "v2-migrated-from-v1-1.1.21",
)  # fmt: skip
"""Of all generations, written by the official library and by those before it."""
if sys.version_info >= (3, 12):
    KNOWN += ("v2-2.3.0-rich",)  # whose rectilinear grids the Zarr of older Pythons does not know


@pytest.fixture(params=KNOWN)
def repo(request: pytest.FixtureRequest, generations: Path) -> Repository:
    """A repository of some generation."""
    return open_known(generations / request.param)


def test_versions_are_those_that_refs_lead_to(repo: Repository) -> None:
    tips = {("branch", name): repo.lookup_branch(name) for name in repo.list_branches()}
    tips |= {("tag", name): repo.lookup_tag(name) for name in repo.list_tags()}
    lines = {ref: list(repo.ancestry(snapshot_id=tip)) for ref, tip in tips.items()}
    infos = {info.id: info for line in lines.values() for info in line}

    snapshots = {row["snapshot_id"]: row for row in read_rows(repo, "snapshots")}
    refs = read_rows(repo, "refs")
    history = read_rows(repo, "history")

    assert {id: (row["message"], row["written_at"]) for id, row in snapshots.items()} == {
        id: (info.message, info.written_at) for id, info in infos.items()
    }
    assert {(row["kind"], row["name"]): row["snapshot_id"] for row in refs} == tips
    assert sorted(
        (r["kind"], r["ref"], r["position"], r["snapshot_id"]) for r in history
    ) == sorted((*ref, at, info.id) for ref, line in lines.items() for at, info in enumerate(line))
    named = {("branch", n): id for id, row in snapshots.items() for n in row["branches"]}
    named |= {("tag", n): id for id, row in snapshots.items() for n in row["tags"]}
    assert named == tips


def test_operations_are_those_of_the_log(repo: Repository) -> None:
    try:
        expected = [(type(each.kind).__name__, each.updated_at) for each in repo.ops_log()]
    except FormatError:
        expected = []

    found = read_rows(repo, "ops_log")

    assert [(row["operation"], row["updated_at"]) for row in found] == expected


def test_nodes_arrays_and_manifests_are_those_of_the_version(repo: Repository) -> None:
    session = repo.readonly_session("main")
    nodes = list_nodes(session)
    measured = {each.path: each for each in measure_arrays(session)}

    found = read_rows(repo, "nodes")
    arrays = {row["path"]: row for row in read_rows(repo, "arrays", references="3")}
    manifests = {row["manifest_id"]: row for row in read_rows(repo, "manifests")}
    storage = read_rows(repo, "storage")

    assert [(row["path"], row["kind"]) for row in found] == [(n.path, n.kind) for n in nodes]
    assert {
        path: (row["references"], row["native_bytes"], row["inline_bytes"], row["virtual_bytes"])
        for path, row in arrays.items()
    } == {
        path: (each.chunks, each.native_bytes, each.inline_bytes, each.virtual_bytes)
        for path, each in measured.items()
    }
    assert {path: tuple(row["shape"]) for path, row in arrays.items()} == {
        each.path: each.shape for each in nodes if each.kind == "array"
    }
    files = {each.id: each for each in repo.list_manifest_files(session.snapshot_id)}
    assert {id: (row["size_bytes"], row["references"]) for id, row in manifests.items()} == {
        id: (each.size_bytes, each.num_chunk_refs) for id, each in files.items()
    }
    by_array: Counter[str] = Counter()
    for row in storage:
        assert row["shared_bytes"] + row["unique_bytes"] == row["bytes"]
        by_array[row["array"]] += row["bytes"]
    assert +by_array == +Counter({path: each.total_bytes for path, each in measured.items()})


def test_chunks_are_all_references(repo: Repository) -> None:
    view = repo.readonly_session("main").state.view
    folder = view.assets.layout.chunks
    expected = {
        (node.path, place): _describe(ref, folder)
        for node in view.nodes()
        if node.array is not None
        for place, ref in view.table(node).refs().items()
    }

    found = read_rows(repo, "chunks", references="50")
    sources = {row["location"]: row for row in read_rows(repo, "virtual_sources")}

    assert len(found) == len(expected)
    assert {(row["array"], tuple(row["chunk"])): _told(row) for row in found} == expected
    locations = Counter(each[3] for each in expected.values() if each[0] == "virtual")
    assert {location: row["references"] for location, row in sources.items()} == locations
    assert sum(row["bytes"] for row in sources.values()) == sum(
        row["size"] for row in found if row["kind"] == "virtual"
    )
    for location, row in sources.items():
        holders = {each["array"] for each in found if each["location"] == location}
        assert set(row["arrays"]) == holders


def test_changes_are_what_differs_between_each_two_versions(repo: Repository) -> None:
    line = list(repo.ancestry(branch="main"))
    expected = Counter[Any]()
    for info, parent in pairwise(line):
        diff = repo.diff(from_snapshot_id=parent.id, to_snapshot_id=info.id)
        kinds = {
            "group_created": diff.new_groups, "group_deleted": diff.deleted_groups,
            "group_updated": diff.updated_groups, "array_created": diff.new_arrays,
            "array_deleted": diff.deleted_arrays, "array_updated": diff.updated_arrays,
        }  # fmt: skip
        expected.update((info.id, kind, path) for kind, paths in kinds.items() for path in paths)
        expected.update((info.id, "node_moved", source, to) for source, to in diff.moved_nodes)
        view = repo.readonly_session(snapshot_id=info.id).state.view
        for path, places in diff.updated_chunks.items():
            node = view.find_node(path)
            refs = {} if node is None or node.array is None else view.table(node).refs()
            for place in map(tuple, places):
                change = "chunk_set" if place in refs else "chunk_deleted"
                expected[(info.id, change, path, place)] += 1

    found = read_rows(repo, "changes", from_=line[-1].id)

    assert Counter(map(_key, found)) == expected


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    if row["change"] == "node_moved":
        return (row["snapshot_id"], row["change"], row["from_path"], row["path"])
    key = (row["snapshot_id"], row["change"], row["path"])
    return key if row["chunk"] is None else (*key, tuple(row["chunk"]))


def _describe(ref: NativeRef | VirtualRef | InlineRef, folder: str) -> tuple[Any, ...]:
    match ref:
        case InlineRef(data):
            return ("inline", len(data), None, None, None, None)
        case NativeRef(id, offset, length):
            return ("native", length, offset, f"{folder}/{id}", None, None)
        case VirtualRef(location, offset, length, checksum):
            etag = checksum.value if isinstance(checksum, ETag) else None
            seconds = checksum.seconds if isinstance(checksum, LastModified) else None
            moment = None if seconds is None else datetime.fromtimestamp(seconds, UTC)
            return ("virtual", length, offset, location, etag, moment)


def _told(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("kind", "size", "offset", "location", "etag", "last_modified")
    return tuple(row[name] for name in names)
