import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError, NodeNotFoundError
from frazil.format.header import Dialect
from frazil.format.ids import ChunkId
from frazil.format.manifest import NativeRef, VirtualRef
from frazil.repository.context import SessionState
from frazil.repository.virtual_refs import (
    ChunkBatch,
    all_virtual_chunk_locations,
    chunk_batches,
    chunk_type,
    set_virtual_ref,
    spell_ids,
)
from frazil.storage import ChunkType
from tests.session_states import (
    commit_change,
    create_context,
    open_session,
    plant,
    set_array,
    write_chunks,
)


@pytest.fixture
def state() -> SessionState:
    """A session with inline chunks in `/g/a`, a native one at 1 and, uncommitted, a virtual at 2."""
    context = create_context()
    plant(context)
    commit_change(context, lambda s: write_chunks(s, "/g/a", 1, data=b"n" * 2000))
    session = open_session(context)
    ref = VirtualRef("s3://bucket/key", 7, 9)
    set_virtual_ref(session, "g/a/c/2", ref, validate_container=False)
    return session


def join(batches: list[ChunkBatch]) -> dict[tuple[int, ...], tuple[object, ...]]:
    """Kind, place, offset, length and bytes of each chunk."""
    found: dict[tuple[int, ...], tuple[object, ...]] = {}
    for coords, kinds, places, offsets, lengths, inline in batches:
        columns = (kinds.tolist(), places, offsets.tolist(), lengths.tolist())
        for row, (coordinate, *rest) in enumerate(zip(coords.tolist(), *columns, strict=True)):
            found[tuple(coordinate)] = (*rest, inline.get(row))
    return found


def test_chunks_of_all_kinds_are_in_the_columns(state: SessionState) -> None:
    ref = state.view.find_chunk(state.view.get_node("/g/a"), (1,))
    assert isinstance(ref, NativeRef)

    found = join(list(chunk_batches(state, "/g/a", 100)))

    assert found[(0,)] == (ChunkType.inline.value, "", 0, 1, b"0")
    assert found[(1,)] == (ChunkType.native.value, str(ref.chunk_id), 0, 2000, None)
    assert found[(2,)] == (ChunkType.virtual.value, "s3://bucket/key", 7, 9, None)
    assert len(found) == 8


def test_batches_have_the_types_that_numpy_users_expect(state: SessionState) -> None:
    for coords, kinds, _, offsets, lengths, _ in chunk_batches(state, "/g/a", 3):
        assert [coords.dtype.name, kinds.dtype.name] == ["uint32", "uint8"]
        assert {offsets.dtype.name, lengths.dtype.name} == {"uint64"}
        assert 0 < len(coords) <= 3


def test_what_is_no_array_has_no_chunks(state: SessionState) -> None:
    assert list(chunk_batches(state, "/g", 10)) == []
    assert list(chunk_batches(state, "/nowhere", 10)) == []


@pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)
def test_an_array_without_chunks_has_none_in_every_generation(dialect: Dialect) -> None:
    context = create_context(dialect)
    plant(context)
    commit_change(context, lambda s: set_array(s, "/empty", 4))
    session = open_session(context)

    assert list(chunk_batches(session, "/empty", 10)) == []
    assert len(session.view.table(session.view.get_node("/empty"))) == 0
    assert len(join(list(chunk_batches(session, "/g/a", 10)))) == 8


def test_virtual_locations_are_listed_once_a_chunk(state: SessionState) -> None:
    ref = VirtualRef("s3://bucket/key", 100, 9)
    set_virtual_ref(state, "g/b/c/0", ref, validate_container=False)

    assert all_virtual_chunk_locations(state) == ["s3://bucket/key", "s3://bucket/key"]


def test_a_chunk_has_a_kind_wherever_one_looks(state: SessionState) -> None:
    kinds = [chunk_type(state, "/g/a", (index,)).name for index in (0, 1, 2, 99)]

    assert kinds == ["inline", "native", "virtual", "uninitialized"]
    assert chunk_type(state, "/g/a", (0, 0)) is ChunkType.uninitialized
    with pytest.raises(InvalidInputError, match="/g"):
        chunk_type(state, "/g", (0,))
    with pytest.raises(NodeNotFoundError, match="/nowhere"):
        chunk_type(state, "/nowhere", (0,))


@given(st.lists(st.binary(min_size=12, max_size=12)), st.booleans())
def test_ids_are_spelled_in_bulk_as_one_by_one(ids: list[bytes], is_draft: bool) -> None:
    size = 16 if is_draft else 12
    full = [id.ljust(size, b"\xa5") for id in ids]
    rows = np.frombuffer(b"".join(full), np.uint8).reshape(len(full), size)

    assert spell_ids(rows) == [str(ChunkId(id)) for id in full]
