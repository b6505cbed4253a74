"""Programs that once meant one thing to Frazil and another to the official library."""

import pytest

from tests.interop.machine import documents
from tests.interop.machine.lockstep import Program, run_program
from tests.interop.machine.steps import (
    Build,
    Column,
    Fork,
    Merge,
    Moved,
    OnRepository,
    OnSession,
    OnStore,
    Open,
    Step,
)
from tests.interop.official_library import OfficialLibrary

GROUP = documents.group()
ARRAY = documents.array((4,), (1,))


def writable(slot: str = "a") -> Step:
    return Open(slot, "writable_session", {"branch": "main"})


def put(key: str, value: bytes, slot: str = "a") -> Step:
    return OnStore(slot, "set", {"key": key, "value": value})


def delete(key: str, slot: str = "a") -> Step:
    return OnStore(slot, "delete", {"key": key})


def commit(slot: str = "a") -> Step:
    return OnSession(slot, "commit", {"message": "message", "allow_empty": True})


def spec(index: int, location: str, length: int = 1, etag: str | None = None) -> Build:
    place = {"location": location, "offset": 0, "length": length}
    return Build("VirtualChunkSpec", {"index": [index], **place, "etag_checksum": etag})


def set_specs(*specs: Build, validate_containers: bool = False) -> Step:
    arguments = {
        "array_path": "x", "chunks": list(specs), "validate_containers": validate_containers,
    }  # fmt: skip
    return OnStore("a", "set_virtual_refs", arguments)


PROGRAMS: dict[str, list[Step]] = {
    "deleting the metadata of no node leaves what lies below": [
        writable(), put("g/x/zarr.json", ARRAY), delete("g/zarr.json"), commit(),
    ],
    "deleting a group deletes what lies below": [
        writable(), put("g/zarr.json", GROUP), put("g/x/zarr.json", ARRAY), commit(),
        writable(), delete("g/zarr.json"), commit(),
    ],
    "deleting in a session that has ended is the session's refusal": [
        writable(), put("x/zarr.json", ARRAY), commit(), delete("x/zarr.json"), delete("x/c/0"),
    ],
    "a chunk without bytes is refused before its place is looked at": [
        writable(), put("x/zarr.json", ARRAY), put("x/c/9", b""), put("no/c/0", b""),
    ],
    "a virtual location is looked at before anything else": [
        writable(),
        OnStore("a", "set_virtual_ref", {"key": "x/", "location": "v", "offset": 0, "length": 1}),
        commit(),
        OnStore("a", "set_virtual_ref", {"key": "x/", "location": "v", "offset": 0, "length": 1}),
    ],
    "many virtual references need a location each": [
        writable(), put("x/zarr.json", ARRAY), set_specs(spec(0, "s3://a/b"), spec(1, "")),
    ],
    "a reference outside of all containers is not set, wherever its place is": [
        writable(), put("x/zarr.json", ARRAY),
        set_specs(spec(9, "s3://a/b"), spec(0, "s3://a/b", 0), validate_containers=True),
        commit(),
    ],
    "of several virtual references for one chunk the last one counts": [
        writable(),
        put("x/zarr.json", ARRAY),
        set_specs(spec(1, "s3://a/b"), spec(1, "s3://a/c", etag="an etag"), spec(1, "s3://a/d")),
        set_specs(spec(2, "s3://a/b"), spec(2, "s3://a/c", etag="an etag")),
        OnStore("a", "array_chunk_iterator", {"array_path": "/x"}),
        commit(),
    ],
    "an empty location in a column leaves its chunk as it is": [
        writable(), put("x/zarr.json", ARRAY),
        OnStore("a", "set_virtual_refs_arr", {
            "array_path": "x", "chunk_grid_shape": (2,), "locations": ["", "s3://a/b"],
            "offsets": Column((0, 0)), "lengths": Column((0, 3)), "validate_containers": False,
        }),
        OnStore("a", "array_chunk_iterator", {"array_path": "/x"}),
        commit(),
    ],
    "shifting an array without chunks changes nothing": [
        writable(), put("x/zarr.json", ARRAY), commit(), writable(),
        OnSession("a", "shift_array", {"array_path": "/x", "chunk_offset": [1]}), commit(),
    ],
    "shifting looks for the array before it asks whether it may": [
        writable(), put("g/zarr.json", GROUP), commit(),
        OnSession("a", "shift_array", {"array_path": "/g", "chunk_offset": [1]}),
    ],
    "reindexing looks for the array before it asks whether it may": [
        writable(),
        put("g/zarr.json", GROUP),
        commit(),
        OnSession("a", "reindex_array", {"array_path": "/g", "forward": Moved(1, 4)}),
    ],
    "reindexing leaves what nothing moves to, unless it is told where chunks come from": [
        writable(),
        put("x/zarr.json", ARRAY),
        put("x/c/0", b"abc"),
        put("x/c/1", b"twenty bytes of data"),
        commit(),
        writable(),
        OnSession("a", "reindex_array", {"array_path": "/x", "forward": Moved(1, 4)}),
        commit(),
        writable(),
        OnSession(
            "a",
            "reindex_array",
            {"array_path": "/x", "forward": Moved(1, 4), "backward": Moved(-1, 4)},
        ),
        commit(),
    ],
    "a fork can be merged twice": [
        writable(), Fork("a", "a1"), put("x/zarr.json", ARRAY, "a1"), put("x/c/0", b"abc", "a1"),
        Merge("a", ("a1",)), Merge("a", ("a1",)), commit(),
    ],
    "two forks that create one node can't both be merged": [
        writable(), Fork("a", "a1"), Fork("a", "a2"), put("x/zarr.json", ARRAY, "a1"),
        put("x/zarr.json", ARRAY, "a2"), Merge("a", ("a1",)), Merge("a", ("a2",)), commit(),
    ],
    "a fork can't delete a node that its session has made": [
        writable(),
        put("x/zarr.json", ARRAY),
        Fork("a", "a1"),
        delete("x/zarr.json", "a1"),
        Merge("a", ("a1",)),
        commit(),
    ],
    "a fork can't make anew what its session has deleted": [
        writable(),
        put("x/zarr.json", ARRAY),
        commit(),
        writable(),
        delete("x/zarr.json"),
        Fork("a", "a1"),
        put("x/zarr.json", ARRAY, "a1"),
        Merge("a", ("a1",)),
        commit(),
    ],
    "a fork can make anew what it has deleted itself, if no other one deletes it": [
        writable(),
        put("x/zarr.json", ARRAY),
        commit(),
        writable(),
        Fork("a", "a1"),
        Fork("a", "a2"),
        delete("x/zarr.json", "a1"),
        put("x/zarr.json", ARRAY, "a1"),
        delete("x/zarr.json", "a2"),
        Merge("a", ("a1",)),
        Merge("a", ("a2",)),
        commit(),
    ],
    "a fork that made anew what it had deleted can be merged once": [
        writable(),
        put("x/zarr.json", ARRAY),
        commit(),
        writable(),
        Fork("a", "a1"),
        delete("x/zarr.json", "a1"),
        put("x/zarr.json", ARRAY, "a1"),
        Merge("a", ("a1",)),
        Merge("a", ("a1",)),
        commit(),
    ],
    "a fork can't bring back what its session deletes after it": [
        writable(),
        put("x/zarr.json", ARRAY),
        commit(),
        writable(),
        Fork("a", "a1"),
        delete("x/zarr.json", "a1"),
        put("x/zarr.json", ARRAY, "a1"),
        delete("x/zarr.json"),
        Merge("a", ("a1",)),
        commit(),
    ],
    "metadata is looked at before the session is asked": [
        Open("a", "rearrange_session", {"branch": "main"}), put("x/zarr.json", b"{}"),
        put("x/zarr.json", ARRAY),
    ],
    "a virtual reference without bytes is refused, also if a good one of its chunk follows": [
        writable(), put("x/zarr.json", ARRAY),
        set_specs(spec(0, "file:///v.bin", 0), spec(0, "file:///v.bin")),
    ],
    "the same metadata is no edit that a rearrange session could refuse": [
        writable(), put("x/zarr.json", ARRAY), commit(),
        Open("a", "rearrange_session", {"branch": "main"}), put("x/zarr.json", ARRAY),
        put("x/zarr.json", documents.array((5,), (1,))),
    ],
    "a session for edits refuses moves, after all else is in order": [
        writable(), put("zarr.json", GROUP), put("x/zarr.json", ARRAY),
        OnSession("a", "move", {"from_path": "/no", "to_path": "/y"}),
        OnSession("a", "move", {"from_path": "/x", "to_path": "/x"}),
        OnSession("a", "move", {"from_path": "/x", "to_path": "/y"}),
        commit(), OnSession("a", "move", {"from_path": "/x", "to_path": "/y"}),
    ],
    "a repository without feature flags refuses all names of flags": [
        OnRepository("set_feature_flag", {"name": "no_such_flag", "setting": True}),
    ],
    "both ends of a diff are looked at before either is looked up": [
        OnRepository("diff", {"from_branch": "none"}),
        OnRepository("diff", {"from_snapshot_id": "no id"}),
        OnRepository("diff", {"from_branch": "none", "to_snapshot_id": "no id"}),
        OnRepository("diff", {"from_branch": "none", "to_branch": "main"}),
    ],
    "a repository without amends refuses them of sessions that have ended, too": [
        writable(), commit(), OnSession("a", "amend", {"message": "message"}),
    ],
    "a rectilinear grid is metadata that V1 can't have": [
        writable(), put("x/zarr.json", documents.rectilinear((4,), [[1, 3]])), commit(),
    ],
}  # fmt: skip


@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_both_libraries_agree_that(name: str, spec_version: int, official: OfficialLibrary) -> None:
    run_program(Program(spec_version, tuple(PROGRAMS[name])), official)
