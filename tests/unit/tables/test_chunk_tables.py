"""Tables of arrays, manifests and chunks beside the interface in Python, for every generation."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from frazil import Repository
from frazil.format.manifest import ETag, InlineRef, LastModified, NativeRef, VirtualRef
from frazil.overview.contents import measure_arrays
from frazil.overview.nodes import list_nodes
from tests.unit.tables.rows import read_rows


def test_nodes_arrays_and_manifests_are_those_of_the_version(generation: Repository) -> None:
    session = generation.readonly_session("main")
    nodes = list_nodes(session)
    measured = {each.path: each for each in measure_arrays(session)}

    found = read_rows(generation, "nodes")
    arrays = {row["path"]: row for row in read_rows(generation, "arrays", references="3")}
    manifests = {row["manifest_id"]: row for row in read_rows(generation, "manifests")}
    storage = read_rows(generation, "storage")

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
    files = {each.id: each for each in generation.list_manifest_files(session.snapshot_id)}
    assert {id: (row["size_bytes"], row["references"]) for id, row in manifests.items()} == {
        id: (each.size_bytes, each.num_chunk_refs) for id, each in files.items()
    }
    by_array: Counter[str] = Counter()
    for row in storage:
        assert row["shared_bytes"] + row["unique_bytes"] == row["bytes"]
        by_array[row["array"]] += row["bytes"]
    assert +by_array == +Counter({path: each.total_bytes for path, each in measured.items()})


def test_chunks_are_all_references(generation: Repository) -> None:
    view = generation.readonly_session("main").state.view
    folder = view.assets.layout.chunks
    expected = {
        (node.path, place): _describe(ref, folder)
        for node in view.nodes()
        if node.array is not None
        for place, ref in view.table(node).refs().items()
    }

    found = read_rows(generation, "chunks", references="50")
    sources = {row["location"]: row for row in read_rows(generation, "virtual_sources")}

    assert len(found) == len(expected)
    assert {(row["array"], tuple(row["chunk"])): _reported(row) for row in found} == expected
    locations = Counter(each[3] for each in expected.values() if each[0] == "virtual")
    assert {location: row["references"] for location, row in sources.items()} == locations
    assert sum(row["bytes"] for row in sources.values()) == sum(
        row["size"] for row in found if row["kind"] == "virtual"
    )
    for location, row in sources.items():
        holders = {each["array"] for each in found if each["location"] == location}
        assert set(row["arrays"]) == holders


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


def _reported(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("kind", "size", "offset", "location", "etag", "last_modified")
    return tuple(row[name] for name in names)
