"""Arrays of Zarr's own strategies: any type, any shape, chunks and shards, any index."""

import os
from typing import Any

import numpy as np
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.testing.strategies import arrays, basic_indices, numpy_arrays, orthogonal_indices

from frazil import IcechunkStore, Repository
from tests.repositories import create, split_every

EXAMPLES = 2000 if "FRAZIL_DEEP" in os.environ else 12


def make_store(spec_version: int) -> IcechunkStore:
    repository = create(config=split_every(2, inline_up_to=16), spec_version=spec_version)
    return repository.writable_session("main").store


stores = st.builds(make_store, st.sampled_from([1, 2]))


@st.composite
def arrays_of_regular_chunks(draw: st.DrawFn, content: Any) -> zarr.Array[Any]:
    """An array with this content, in any chunks that V1 has a place for, too."""
    with zarr.config.set({"array.rectilinear_chunks": False}):
        made: zarr.Array[Any] = draw(
            arrays(arrays=st.just(content), zarr_formats=st.just(3), stores=stores)
        )
    return made


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_arrays_are_read_as_they_were_written_before_and_after_a_commit(
    data: st.DataObject,
) -> None:
    expected = data.draw(numpy_arrays())
    array = data.draw(arrays_of_regular_chunks(expected))
    store = array.store
    assert isinstance(store, IcechunkStore)

    np.testing.assert_equal(np.asarray(array[:]), expected)
    store.session.commit("an array")

    np.testing.assert_equal(read_anew(store, array.path), expected)


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_chunks_may_be_of_many_sizes_in_v2(data: st.DataObject) -> None:
    expected = data.draw(numpy_arrays())
    with zarr.config.set({"array.rectilinear_chunks": True}):
        array = data.draw(
            arrays(
                arrays=st.just(expected),
                zarr_formats=st.just(3),
                stores=st.builds(make_store, st.just(2)),
            )
        )
        store = array.store
        assert isinstance(store, IcechunkStore)
        store.session.commit("an array")

        np.testing.assert_equal(read_anew(store, array.path), expected)


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_parts_of_arrays_are_read_and_written_like_those_of_numpy(data: st.DataObject) -> None:
    expected = data.draw(numpy_arrays()).copy()
    array = data.draw(arrays_of_regular_chunks(expected))
    store = array.store
    assert isinstance(store, IcechunkStore)
    index = data.draw(basic_indices(shape=expected.shape))
    indexer, numpy_indexer = data.draw(orthogonal_indices(shape=expected.shape))

    np.testing.assert_equal(np.asarray(array[index]), expected[index])
    np.testing.assert_equal(np.asarray(array.oindex[indexer]), expected[numpy_indexer])
    filling = expected.flat[0] if expected.size else 0
    array[index] = np.full(np.shape(expected[index]), filling, expected.dtype)
    expected[index] = filling
    store.session.commit("a part")

    np.testing.assert_equal(read_anew(store, array.path), expected)


def read_anew(store: IcechunkStore, path: str) -> Any:
    """What another process would read."""
    reader = Repository.open(store.session.state.assets.storage).readonly_session("main")
    return np.asarray(zarr.open_array(reader.store, path=path, mode="r")[:])
