"""Many manifests read together give what each gives alone, or are left to be read alone."""

from hypothesis import given
from hypothesis import strategies as st

from frazil.format.files import decode_manifest, decode_native_manifests, encode_manifest
from frazil.format.header import Dialect, FileType, decode_file, encode_file
from frazil.format.ids import ChunkId, ManifestId, NodeId
from frazil.format.manifest import (
    ChunkRef,
    ChunkTable,
    InlineRef,
    Manifest,
    NativeRef,
    VirtualRef,
)

NODE_IDS = st.binary(min_size=8, max_size=8).map(NodeId)
NATIVE_REFS: st.SearchStrategy[ChunkRef] = st.builds(
    NativeRef,
    st.binary(min_size=12, max_size=12).map(ChunkId),
    st.integers(0, 1),
    st.integers(0, 2**40),
)
OTHER_REFS: st.SearchStrategy[ChunkRef] = st.one_of(
    st.builds(InlineRef, st.binary(max_size=3)),
    st.builds(VirtualRef, st.just("s3://bucket/file"), st.integers(0, 9), st.integers(0, 9)),
)


def _tables(refs: st.SearchStrategy[ChunkRef]) -> st.SearchStrategy[ChunkTable]:
    places: st.SearchStrategy[tuple[int, ...]] = st.tuples(st.integers(0, 99))
    return st.dictionaries(places, refs, max_size=5).map(lambda found: ChunkTable.of(1, found))


def _files(tables: st.SearchStrategy[ChunkTable], most: int) -> st.SearchStrategy[bytes]:
    arrays = st.dictionaries(NODE_IDS, tables, max_size=most)
    manifests = st.builds(Manifest, st.just(ManifestId(bytes(12))), arrays)
    dialects = st.sampled_from([Dialect.V1, Dialect.V2])
    return st.builds(encode_manifest, manifests, dialects)


FILES = st.one_of(
    _files(_tables(NATIVE_REFS), 1), _files(_tables(st.one_of(NATIVE_REFS, OTHER_REFS)), 2)
)


@st.composite
def damaged_files(draw: st.DrawFn) -> bytes:
    """Files with one byte of their payload changed, or with some cut off."""
    header, payload = decode_file(draw(FILES), FileType.MANIFEST)
    changed = bytearray(payload)
    changed[draw(st.integers(0, len(payload) - 1))] = draw(st.integers(0, 255))
    return encode_file(header, [bytes(changed[: draw(st.integers(0, len(payload)))])])


def assert_same(files: list[bytes]) -> list[int]:
    natives, others = decode_native_manifests(files)
    alone = [decode_manifest(data) for n, data in enumerate(files) if n not in others]
    refs = [each for found in alone for each in found.value.arrays.values()]
    ids = [row.tobytes() for each in refs for row in each.natives().ids]

    assert all(len(each.natives()) == len(each) for each in refs)
    assert [row.tobytes() for row in natives.ids] == ids
    assert natives.lengths.tolist() == [n for r in refs for n in r.natives().lengths.tolist()]
    return others


@given(st.lists(FILES, max_size=5))
def test_many_together_give_what_each_gives_alone(files: list[bytes]) -> None:
    assert_same(files)


@given(st.lists(st.one_of(FILES, damaged_files()), min_size=1, max_size=5))
def test_what_is_damaged_is_left_to_be_read_alone(files: list[bytes]) -> None:
    assert_same(files)


@given(st.lists(st.binary(max_size=50), max_size=3))
def test_what_is_no_manifest_is_left_to_be_read_alone(files: list[bytes]) -> None:
    assert assert_same(files) == list(range(len(files)))


def test_plain_manifests_are_read_together() -> None:
    refs: dict[tuple[int, ...], ChunkRef] = {
        (n,): NativeRef(ChunkId(bytes([n]) * 12), 0, n + 1) for n in range(3)
    }
    manifest = Manifest(ManifestId(bytes(12)), {NodeId(bytes(8)): ChunkTable.of(1, refs)})
    file = encode_manifest(manifest, Dialect.V2)

    assert assert_same([file, file, b"", file]) == [2]
