"""Random steps inside a session: what its store writes, deletes and reads."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.interop.machine import documents
from tests.interop.machine.steps import Build, Column, OnSession, OnStore, Range, Step
from tests.interop.machine.weighting import weighted

USUAL_PATHS = ("", "g", "x", "xy", "s", "g/x")
"""Few, so that steps meet."""

UNUSUAL_PATHS = ("g/xy", "g/h", "g/h/x", "g-", "c/x", "e")

DATA = (b"abc", b"ABCDE", b"twenty bytes of data", b"other twenty bytes!!")
"""Some are inline, some are not."""

ARRAY_PATHS = ("x", "x", "x", "g/x", "xy", "xy", "s", "e")

paths = st.sampled_from((*USUAL_PATHS * 3, *UNUSUAL_PATHS))
numbers = st.integers(0, 2)


def metadata_key(path: str) -> str:
    """The key of a node's metadata."""
    return f"{path}/zarr.json" if path else "zarr.json"


def node_path(path: str) -> str:
    """A path as sessions spell it."""
    return f"/{path}"


@cache
def array_documents(axes: int) -> st.SearchStrategy[bytes]:
    """Arrays of so many axes, also ones that differ in size only."""
    shapes: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {
        0: [((), ())],
        1: [((4,), (1,)), ((6,), (1,)), ((6,), (2,)), ((2,), (1,)), ((5,), (2,))],
        2: [((2, 4), (1, 1)), ((4, 4), (1, 2)), ((3, 2), (1, 1))],
    }
    names: list[Any] = [None, ["t", None][:axes], ["t", "p"][:axes]]
    return st.builds(
        lambda grid, number, named: documents.array(grid[0], grid[1], number, named),
        st.sampled_from(shapes[axes]), numbers, st.sampled_from(names),
    )  # fmt: skip


def rectilinear_documents() -> st.SearchStrategy[bytes]:
    """Arrays of one axis whose chunks have lengths of their own."""
    lengths: list[list[Any]] = [[[1, 3]], [[[1, 2], 2]], [[2, 2]], [[4]]]
    return st.builds(documents.rectilinear, st.just((4,)), st.sampled_from(lengths), numbers)


@cache
def documents_for(path: str) -> st.SearchStrategy[bytes]:
    """Mostly what the name of the path stands for; never an array with nodes below it."""
    groups = st.builds(documents.group, numbers)
    if path in ("", "g", "g/h", "g-"):
        return groups
    arrays = array_documents(documents.axes_of(path))
    if path == "e":
        return st.sampled_from([documents.array((size,), (1,)) for size in (4, 0, 2)])
    odd = [(2, rectilinear_documents())] if documents.axes_of(path) == 1 else []
    return weighted((8, arrays), (1, groups), *odd)


metadata_sets = paths.flatmap(
    lambda path: st.tuples(st.just(metadata_key(path)), documents_for(path))
)
usual_nodes = st.permutations(
    [
        (metadata_key(""), documents.group()),
        (metadata_key("g"), documents.group()),
        (metadata_key("x"), documents.array((4,), (1,))),
        (metadata_key("xy"), documents.array((2, 4), (1, 2), names=["t", "p"])),
        (metadata_key("s"), documents.array((), ())),
        (metadata_key("g/x"), documents.array((4,), (1,))),
    ]
).flatmap(lambda pairs: st.sampled_from((6, 6, 5, 4, 2)).map(lambda count: pairs[:count]))


@cache
def places(path: str) -> st.SearchStrategy[tuple[int, ...]]:
    """Places for a chunk, of which some are outside of the grid.

    Of arrays without any chunk the first one is left out: the official library has a place for it.
    """
    if path == "e":
        return st.sampled_from(((1,), (2,), (3,)))
    return st.tuples(*[st.sampled_from((0, 0, 1, 1, 2, 3, 4))] * documents.axes_of(path))


def chunk_key(path: str, place: tuple[int, ...]) -> str:
    """The key of a chunk."""
    return "/".join([*([path] if path else []), "c", *map(str, place)])


chunk_keys = weighted((9, st.sampled_from(ARRAY_PATHS)), (1, paths)).flatmap(
    lambda path: st.builds(chunk_key, st.just(path), places(path))
)
chunk_sets = st.tuples(chunk_keys, st.sampled_from((*DATA * 4, b"")))
keys = weighted((1, paths.map(metadata_key)), (2, chunk_keys))
odd_keys = st.sampled_from(
    ("", "x", "x/c/", "x/c/a", "x/c/-1", "x/c/0/", ".zgroup", "x/.zarray", "x/d/0",
      "zarr.json/", "c", "x/c/00", "x/c/4294967296", "x/c/+1", "x/0", "g/.zattrs")
)  # fmt: skip
prefixes = st.one_of(
    paths, paths.map(lambda path: f"{path}/"), chunk_keys, st.sampled_from(("x/c", "g/x/c/", "no"))
)
ranges = st.one_of(
    st.builds(
        lambda start, size: Range("RangeByteRequest", (start, start + size)),
        st.integers(0, 6), st.integers(1, 8),
    ),
    st.integers(0, 6).map(lambda n: Range("OffsetByteRequest", (n,))),
)  # fmt: skip
chunk_ranges = st.one_of(ranges, st.integers(0, 6).map(lambda n: Range("SuffixByteRequest", (n,))))

locations = st.sampled_from(
    ("file://{files}/v.bin", "vcc://local/v.bin") * 4
    + ("FILE://{files}/./v.bin", "file:///nowhere/v.bin",
     "vcc://other/v.bin", "v.bin", "s3://bucket/key", "file://{files}/absent.bin", "")
)  # fmt: skip
offsets, lengths = st.integers(0, 250), st.integers(0, 12)
checksums = st.sampled_from((None, None, "an etag"))


def on_store(slot: str, method: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Calls of a method of the store."""
    return st.fixed_dictionaries(dict(arguments)).map(lambda found: OnStore(slot, method, found))


def on_session(
    slot: str, method: str, **arguments: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    """Calls of a method of the session."""
    return st.fixed_dictionaries(dict(arguments)).map(lambda found: OnSession(slot, method, found))


@cache
def sets(slot: str) -> st.SearchStrategy[Step]:
    """Writing metadata and chunks."""
    every = weighted((2, metadata_sets), (4, chunk_sets))
    odd = st.tuples(odd_keys, st.sampled_from((b"{}", b"no json", b"[1]")))
    bad = st.tuples(paths.map(metadata_key), st.sampled_from((b"{}", b"no json", b"[1]")))
    method = st.sampled_from(("set", "set", "set", "set_if_not_exists"))
    return st.builds(
        lambda name, pair: OnStore(slot, name, {"key": pair[0], "value": pair[1]}),
        method, weighted((20, every), (1, odd), (1, bad)),
    )  # fmt: skip


@cache
def deletes(slot: str) -> st.SearchStrategy[Step]:
    """Deleting keys, nodes and everything."""
    return weighted(
        (10, on_store(slot, "delete", key=keys)),
        (1, on_store(slot, "delete", key=odd_keys)),
        (5, on_store(slot, "delete_dir", prefix=prefixes)),
        (1, on_store(slot, "clear")),
        (1, on_session(slot, "discard_changes")),
    )


@cache
def virtual(slot: str) -> st.SearchStrategy[Step]:
    """Setting virtual references, one or several."""
    where = {"offset": offsets, "length": lengths}
    one = on_store(
        slot, "set_virtual_ref",
        key=weighted((8, chunk_keys), (1, odd_keys)), location=locations,
        checksum=checksums, validate_container=st.booleans(), **where,
    )  # fmt: skip
    array_paths = st.sampled_from(("x", "x", "g/x", "s", "g"))
    specs = array_paths.flatmap(
        lambda path: on_store(
            slot, "set_virtual_refs",
            array_path=st.just(path), chunks=st.lists(_specs(path), max_size=3),
            validate_containers=st.booleans(),
        )
    )  # fmt: skip
    return weighted((3, one), (2, specs), (1, _columns(slot)))


def _specs(path: str) -> st.SearchStrategy[Build]:
    fields = st.fixed_dictionaries(
        {"index": places(path).map(list), "location": locations, "offset": offsets,
         "length": lengths, "etag_checksum": checksums}
    )  # fmt: skip
    return fields.map(lambda found: Build("VirtualChunkSpec", found))


def _columns(slot: str) -> st.SearchStrategy[Step]:
    def columns(count: int) -> st.SearchStrategy[Any]:
        return st.lists(st.integers(1, 12), min_size=count, max_size=count).map(
            lambda found: Column(tuple(found))
        )

    return st.integers(0, 3).flatmap(
        lambda count: on_store(
            slot, "set_virtual_refs_arr",
            array_path=st.sampled_from(("x", "g/x")), chunk_grid_shape=st.just((count,)),
            locations=st.lists(locations, min_size=count, max_size=count),
            offsets=columns(count), lengths=columns(count),
            arr_offset=st.sampled_from((None, (0,), (1,), (3,))), checksum=checksums,
            validate_containers=st.booleans(),
        )
    )  # fmt: skip
