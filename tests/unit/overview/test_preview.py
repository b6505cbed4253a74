"""A quick look reads few chunks, and shows north up."""

import base64
import zlib
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from frazil import Repository, RepositoryConfig, in_memory_storage
from frazil.errors import InvalidInputError
from frazil.overview.contents import describe_array, map_chunks, measure_arrays
from frazil.overview.preview import (
    MOST_BYTES,
    MOST_CHUNKS,
    MOST_SAMPLE_CHUNKS,
    MOST_SIDE,
    limit_chunks,
    pack,
    plan_spans,
    read_series,
    read_slice,
)
from frazil.repository.session import Session
from frazil.storage.wrappers import CountingStorage, Verb
from frazil.web.report import render_report
from tests.repositories import split_every

# A chunk, or a coordinate at two places; sharded, also the index of a shard.
MOST_READS = MOST_CHUNKS + 2


def make_repository() -> tuple[Repository, CountingStorage]:
    storage = CountingStorage(in_memory_storage())
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    return Repository.create(storage, config), storage


def commit(repo: Repository, session: Session) -> Session:
    session.commit("data")
    return repo.readonly_session("main")


@pytest.mark.parametrize("shape", [(4_000_000_000,), (65536, 65536), (1000, 2000, 2000), (4,) * 16])
def test_an_empty_array_of_billions_of_chunks_reads_nothing(shape: tuple[int, ...]) -> None:
    repo, storage = make_repository()
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="t", shape=shape, chunks=(1,) * len(shape), dtype="f4")
    reader = commit(repo, session)
    storage.reset()

    found = describe_array(reader, "t")
    grid = map_chunks(reader, "t")
    preview = read_slice(reader, "t")

    assert found.values is not None
    assert found.values.elements == 0
    assert found.chunks["grid"] == grid.room.sum() == np.prod([int(each) for each in shape])
    assert grid.room.size <= 64 * 64
    assert preview.values is not None
    assert preview.values.size <= MOST_CHUNKS
    assert storage.counts.total == 0


def test_a_grid_that_no_integer_of_the_processor_holds_is_drawn() -> None:
    repo, _ = make_repository()
    session = repo.writable_session("main")
    shape = (4_000_000_000,) * 3
    array = zarr.create_array(session.store, name="t", shape=shape, chunks=(1, 1, 1), dtype="i1")
    array[3_999_999_999, 3_999_999_999, 3_999_999_999] = 7
    reader = commit(repo, session)

    grid = map_chunks(reader, "t")

    assert grid.room.sum() == 4_000_000_000**3
    assert grid.counts["native"][-1, -1] == 1
    assert describe_array(reader, "t").values is not None
    assert "/t" in render_report(repo, "x")


def test_an_array_chunked_along_time_is_not_read_whole() -> None:
    repo, storage = make_repository()
    session = repo.writable_session("main")
    values = np.arange(8 * 60 * 60, dtype="f4").reshape(8, 60, 60)
    zarr.create_array(session.store, name="t", data=values, chunks=(8, 2, 2), compressors=None)
    reader = commit(repo, session)
    storage.reset()

    found = describe_array(reader, "t")
    sampled = storage.counts.total
    preview = read_slice(reader, "t", {"axis 0": 4})

    assert found.values is not None
    assert found.values.chunks == MOST_SAMPLE_CHUNKS
    assert found.values.elements == MOST_SAMPLE_CHUNKS * 32
    assert sampled <= MOST_SAMPLE_CHUNKS + found.manifests
    assert storage.counts.total - sampled <= MOST_CHUNKS
    assert "shows 20 of 60 along axis 1" in str(preview.note)
    np.testing.assert_array_equal(preview.values, values[4, 1::3, 1::3])


def test_a_shard_is_not_read_whole() -> None:
    repo, storage = make_repository()
    session = repo.writable_session("main")
    values = np.random.default_rng(0).random((64, 64))
    zarr.create_array(
        session.store, name="t", data=values, chunks=(2, 2), shards=(64, 64), compressors=None
    )
    reader = commit(repo, session)
    storage.reset()

    found = describe_array(reader, "t")

    assert found.values is not None
    assert found.values.elements == 4
    assert storage.counts.bytes_read < values.nbytes // 1.5


def test_a_report_reads_few_chunks_of_each_array() -> None:
    repo, storage = make_repository()
    session = repo.writable_session("main")
    for name in ("a", "b"):
        zarr.create_array(session.store, name=name, data=np.ones((24, 24)), chunks=(1, 1))
    commit(repo, session)
    storage.reset()

    render_report(repo, "x")

    assert storage.counts.total < 4 * MOST_READS + 60  # small maps and large ones


def test_a_report_that_took_too_long_reads_no_more_values() -> None:
    repo, storage = make_repository()
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="t", data=np.ones((40, 40)), chunks=(1, 1))
    commit(repo, session)
    storage.reset()

    document = render_report(repo, "x", most_seconds=0)

    assert "its values were not read" in document
    assert storage.counts.requests[Verb.GET] < 20  # metadata, and none of 1,600 chunks


def test_a_chunk_that_is_too_large_is_not_read() -> None:
    repo, storage = make_repository()
    session = repo.writable_session("main")
    array = zarr.create_array(
        session.store, name="t", shape=(1 << 26,), chunks=(1 << 26,), dtype="f8"
    )
    array[:1] = 1
    reader = commit(repo, session)
    storage.reset()

    found = describe_array(reader, "t")

    assert found.values is None
    assert "a chunk holds 512.0 MiB" in str(found.unreadable)
    with pytest.raises(InvalidInputError, match="a preview reads at most"):
        read_slice(reader, "t")
    assert storage.counts.bytes_read < 10_000


@given(
    st.lists(st.tuples(st.integers(1, 1 << 40), st.integers(1, 1 << 20)), min_size=1, max_size=2),
    st.integers(1, MOST_CHUNKS),
)
def test_a_slice_lies_in_few_chunks_evenly_spread_over_the_array(
    sizes: list[tuple[int, int]], most: int
) -> None:
    lengths, chunks = zip(*sizes, strict=True)

    spans = plan_spans([(0, each) for each in lengths], chunks, most)

    touched = 1
    for length, chunk, span in zip(lengths, chunks, spans, strict=True):
        indices = span.indices
        assert 0 < len(indices) <= MOST_SIDE
        assert 0 <= indices[0] <= indices[-1] < length
        assert indices[0] < span.step
        assert length - indices[-1] <= span.step
        touched *= len({index // chunk for index in indices})
        for parts in (span.split(), span.split_by_chunk()):
            read = [range(part.start, part.stop, part.step or 1) for _, part in parts]
            assert [index for each in read for index in each] == list(indices)
    assert touched <= most


@given(st.lists(st.integers(1, 1 << 12), max_size=3), st.integers(1, 16))
def test_the_bytes_of_chunks_are_bounded(chunks: list[int], itemsize: int) -> None:
    size = itemsize * int(np.prod(chunks, dtype=object)) if chunks else itemsize

    if size > MOST_BYTES:
        with pytest.raises(InvalidInputError):
            limit_chunks(chunks, itemsize, 64)
    else:
        assert 1 <= limit_chunks(chunks, itemsize, 64) * size <= MOST_BYTES


def test_a_series_reads_the_chunks_along_its_axis_and_no_others() -> None:
    repo, storage = make_repository()
    session = repo.writable_session("main")
    values = np.arange(30 * 4 * 4, dtype="f4").reshape(30, 4, 4)
    zarr.create_array(
        session.store, name="t", data=values, chunks=(1, 2, 2), dimension_names=("time", "y", "x")
    )
    times = np.arange(30) * 6
    zarr.create_array(session.store, name="time", data=times, dimension_names=("time",),
                      attributes={"units": "hours since 2024-01-01"})  # fmt: skip
    reader = commit(repo, session)
    storage.reset()

    found = read_series(reader, "t", "time", {"y": 3, "x": 0})

    assert found.values == values[:, 3, 0].tolist()
    assert found.axis.labels is not None
    assert found.axis.labels[:2] == ["2024-01-01 00:00", "2024-01-01 06:00"]
    assert storage.counts.total <= 30 + 4


def test_chunks_that_cant_be_read_leave_holes_and_a_reason() -> None:
    repo, storage = make_repository()
    session = repo.writable_session("main")
    values = np.arange(36, dtype="f4").reshape(6, 6)
    zarr.create_array(session.store, name="t", data=values, chunks=(3, 3), compressors=None)
    reader = commit(repo, session)
    key = next(iter(storage.list("chunks/"))).key
    storage.delete_many([key])

    found = read_slice(reader, "t")

    assert found.values is not None
    assert np.isnan(found.values).sum() == 9
    assert "9 values could not be read" in str(found.note)


def test_an_axis_that_is_not_there_is_refused() -> None:
    repo, _ = make_repository()
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="t", data=np.ones((3, 4)), dimension_names=("y", "x"))
    reader = commit(repo, session)

    for arguments in (
        {"at": {"z": 0}}, {"dims": ["z"]}, {"dims": ["x", "x"]}, {"dims": ["x"], "at": {"y": 3}},
        {"windows": {"x": (4, 9)}},
    ):  # fmt: skip
        with pytest.raises(InvalidInputError):
            read_slice(reader, "t", **arguments)


def test_packed_numbers_keep_four_digits_and_integers_stay_exact() -> None:
    rng = np.random.default_rng(0)
    for values in (
        rng.normal(270, 20, 500), rng.integers(-9, 1 << 20, 500), np.array([np.nan, np.inf]),
    ):  # fmt: skip
        planes = np.frombuffer(zlib.decompress(base64.b64decode(pack(values))), np.uint8)
        found = planes.reshape(4, -1).T.copy().view(np.float32).ravel()
        np.testing.assert_allclose(found, values, rtol=2e-5 if values.dtype.kind == "f" else 0)


# North

LATITUDES = np.linspace(-80, 80, 5)
FIELD = LATITUDES[:, None] + np.arange(3) / 10


def preview_of(
    values: np.ndarray[Any, Any],
    dims: tuple[str, ...] | None,
    coordinates: dict[str, tuple[tuple[str, ...], Any, dict[str, Any]]],
    path: str = "group/t",
    attributes: dict[str, Any] | None = None,
) -> Any:
    """The preview of an array whose coordinates are beside it."""
    repo, _ = make_repository()
    session = repo.writable_session("main")
    group = path.rpartition("/")[0]
    zarr.create_array(
        session.store, name=path, data=values, dimension_names=dims, attributes=attributes or {}
    )
    for name, (own, data, reported) in coordinates.items():
        where = name.removeprefix("/") if name.startswith("/") else f"{group}/{name}".strip("/")
        zarr.create_array(
            session.store,
            name=where,
            data=np.asarray(data),
            dimension_names=own,
            attributes=reported,
        )
    reader = commit(repo, session)
    return read_slice(reader, path)


@pytest.mark.parametrize(
    ("name", "attributes", "ends"),
    [
        ("lat", {}, (-80, 80)),
        ("latitude", {"units": "degrees_north"}, (-80, 80)),
        ("Latitude", {}, (-80, 80)),
        ("rlat", {"standard_name": "grid_latitude", "units": "degrees"}, (-20, 20)),
        ("y", {}, (0, 4000)),
        ("y", {"standard_name": "projection_y_coordinate", "units": "m"}, (-9e6, 9e6)),
        ("row", {"axis": "Y"}, (0, 1)),
        ("northing", {}, (1e5, 2e5)),
        ("j", {"units": "degree_N"}, (-80, 80)),
    ],
)
@pytest.mark.parametrize("is_ascending", [True, False])
def test_north_is_up(
    name: str, attributes: dict[str, Any], ends: tuple[float, float], is_ascending: bool
) -> None:
    first, last = ends if is_ascending else ends[::-1]
    stored = FIELD if is_ascending else FIELD[::-1]

    found = preview_of(
        stored, (name, "lon"), {name: ((name,), np.linspace(first, last, 5), attributes)}
    )

    assert found.is_north_up
    np.testing.assert_array_equal(found.values, FIELD[::-1])


def test_a_packed_latitude_is_decoded_before_it_is_compared() -> None:
    latitudes = np.array([8000, 4000, 0, -4000, -8000], "i2")

    found = preview_of(
        FIELD, ("lat", "lon"), {"lat": (("lat",), latitudes, {"scale_factor": -0.01})}
    )

    np.testing.assert_array_equal(found.values, FIELD[::-1])


def test_west_is_left() -> None:
    found = preview_of(
        FIELD,
        ("lat", "lon"),
        {
            "lat": (("lat",), LATITUDES, {}),
            "lon": (("lon",), np.array([20.0, 10.0, 0.0]), {"units": "degrees_east"}),
        },
    )

    assert found.values[0].tolist() == FIELD[-1, ::-1].tolist()
    assert found.is_geographic


def test_north_is_up_where_latitude_is_the_last_axis() -> None:
    found = preview_of(
        FIELD.T,
        ("lon", "lat"),
        {"lat": (("lat",), LATITUDES, {}), "lon": (("lon",), np.arange(3.0), {})},
    )

    np.testing.assert_array_equal(found.values, FIELD[::-1])


def test_north_is_up_on_curved_grids() -> None:
    latitudes = np.repeat(LATITUDES[:, None], 3, axis=1)

    found = preview_of(
        FIELD,
        ("j", "i"),
        {"nav_lat": (("j", "i"), latitudes, {"standard_name": "latitude"})},
        attributes={"coordinates": "nav_lat nav_lon"},
    )

    np.testing.assert_array_equal(found.values, FIELD[::-1])


def test_a_coordinate_of_a_group_above_counts() -> None:
    found = preview_of(FIELD, ("lat", "lon"), {"/lat": (("lat",), LATITUDES, {})}, "a/b/t")

    np.testing.assert_array_equal(found.values, FIELD[::-1])


@pytest.mark.parametrize(
    ("dims", "coordinates"),
    [
        (None, {}),
        (("lat", "lon"), {}),
        (("depth", "lon"), {"depth": (("depth",), LATITUDES, {"units": "m"})}),
        (("time", "lat"), {"lat": (("lat",), [1.0, 2.0, 3.0], {})}),
        (("lat", "lon"), {"lat": (("lat",), np.full(5, np.nan), {})}),
        (("lat", "lon"), {"lat": (("other",), LATITUDES, {})}),
        (("y", "x"), {"y": (("y",), LATITUDES, {"standard_name": "depth"})}),
    ],
)
def test_without_a_coordinate_that_gives_north_a_slice_is_drawn_as_it_is_stored(
    dims: tuple[str, ...] | None, coordinates: dict[str, Any]
) -> None:
    found = preview_of(FIELD, dims, coordinates)

    assert not found.is_north_up
    np.testing.assert_array_equal(found.values, FIELD)


# Manifests


def test_references_are_counted_in_few_manifests() -> None:
    storage = CountingStorage(in_memory_storage())
    config = split_every(2, inline_up_to=0)
    repo = Repository.create(storage, config)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="t", data=np.ones(40), chunks=(1,))
    reader = commit(Repository.open(storage), session)
    storage.reset()

    found = describe_array(reader, "t", most_manifests=5)
    requests = storage.counts.total
    measured = measure_arrays(reader, most_manifests=5)

    assert (found.manifests, found.counted_manifests) == (20, 5)
    assert found.chunks["native"] == 10
    assert "counted in 5 of 20 manifests" in found.describe_references()
    assert requests <= 5 + MOST_SAMPLE_CHUNKS
    assert not measured[0].is_complete
    assert measured[0].chunks == 10
    assert measure_arrays(reader)[0].is_complete
