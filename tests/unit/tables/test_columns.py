"""Types of columns, joins by broadcasting, and what is refused."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
import zarr

import frazil
from frazil import Repository, RepositoryConfig, VirtualChunkContainer, VirtualChunkSpec
from frazil.errors import InvalidInputError, NodeNotFoundError
from frazil.tables.table_options import Layout, Options
from frazil.tables.table_source import open_source, open_table
from frazil.xarray import to_icechunk


def make(dataset: xr.Dataset, **encoding: Any) -> Repository:
    repo = Repository.create(frazil.in_memory_storage())
    session = repo.writable_session("main")
    to_icechunk(dataset, session, mode="w", encoding=encoding)
    session.commit("made")
    return repo


def read(repo: Repository, **options: Any) -> pa.Table:
    table = open_table(open_source(Options(**options), repo))
    batches = [batch for part in table.partitions() for batch in table.read(part)]
    return pa.Table.from_batches(batches, table.schema)


@pytest.mark.parametrize(("values", "type", "expected"), [
    (np.array([0, 255], "u1"), pa.int16(), [0, 255]),
    (np.array([0, 65535], "u2"), pa.int32(), [0, 65535]),
    (np.array([0, 2**32 - 1], "u4"), pa.int64(), [0, 2**32 - 1]),
    (np.array([0, 2**64 - 1], "u8"), pa.decimal128(20, 0), [Decimal(0), Decimal(2**64 - 1)]),
    (np.array([-1, 1], "i1"), pa.int8(), [-1, 1]),
    (np.array([0.5, np.nan], "f2"), pa.float32(), [0.5, None]),
    (np.array([0.5, np.nan]), pa.float64(), [0.5, None]),
    (np.array([True, False]), pa.bool_(), [True, False]),
    (np.array(["a", "bc"], object), pa.string(), ["a", "bc"]),
    (np.array([1 + 2j, 3]), pa.struct([("re", pa.float64()), ("im", pa.float64())]),
     [{"re": 1, "im": 2}, {"re": 3, "im": 0}]),
    (np.array(["2020-01-01T00:00:00.123456789", "NaT"], "M8[ns]"), pa.timestamp("us", "UTC"),
     [datetime(2020, 1, 1, 0, 0, 0, 123456, UTC), None]),
])  # fmt: skip
def test_columns_have_types_that_spark_has(
    values: np.ndarray[Any, Any], type: pa.DataType, expected: list[Any]
) -> None:
    found = read(make(xr.Dataset({"a": ("x", values)})))

    assert found.schema == pa.schema([("x", pa.int64()), ("a", type)])
    assert found["a"].to_pylist() == expected


def test_values_are_masked_and_scaled_as_xarray_does() -> None:
    dataset = xr.Dataset({"a": ("x", [0.5, np.nan, 1.5])})

    found = read(make(dataset, a={"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9}))

    assert found["a"].to_pylist() == [0.5, None, 1.5]


def test_times_of_other_calendars_are_texts() -> None:
    times = xr.date_range("2000-02-29", periods=3, calendar="360_day", use_cftime=True)
    repo = make(xr.Dataset({"a": ("time", [1, 2, 3])}, {"time": times}))

    found = read(repo, where="time > '2000-02-30'")

    assert found["time"].to_pylist() == ["2000-02-30T00:00:00", "2000-03-01T00:00:00"]


def test_arrays_with_fewer_dimensions_are_repeated_and_others_refused() -> None:
    dataset = xr.Dataset(
        {"a": (("x", "y"), [[1, 2], [3, 4]]), "b": ("y", [5, 6]), "c": ((), 7), "d": ("z", [8])}
    )
    repo = make(dataset)

    assert read(repo, variables=("b", "c", "a")).to_pylist() == [
        {"x": x, "y": y, "b": 5 + y, "c": 7, "a": 1 + 2 * x + y} for x in (0, 1) for y in (0, 1)
    ]
    with pytest.raises(InvalidInputError, match=r"a\(x, y\) and d\(z\) .* with `variables`"):
        read(repo)
    with pytest.raises(NodeNotFoundError, match="has no array 'e': there are a, b, c, d"):
        read(repo, variables=("e",))
    with pytest.raises(InvalidInputError, match="unknown column 'e'"):
        read(repo, variables=("a",), columns=("e",))


def test_arrays_without_names_of_dimensions_are_refused_unless_left_out() -> None:
    repo = make(xr.Dataset({"a": ("x", [1, 2])}))
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="b", shape=(2,), dtype="i4")
    session.commit("unnamed")

    assert read(repo, variables=("a",))["a"].to_pylist() == [1, 2]
    with pytest.raises(InvalidInputError, match="the array b has dimensions without names"):
        read(repo)


def test_coordinates_of_two_dimensions_prune_chunks() -> None:
    place = np.arange(24.0).reshape(4, 6)
    dataset = xr.Dataset(
        {"a": (("y", "x"), np.arange(24).reshape(4, 6))}, {"place": (("y", "x"), place)}
    )
    table = open_table(
        open_source(Options(where="place IN (7, 16)"), make(dataset, a={"chunks": (2, 2)}))
    )

    assert table.count_chunks()["a"] == (2, 6)  # type: ignore[attr-defined]
    rows = [row for p in table.partitions() for b in table.read(p) for row in b.to_pylist()]
    assert sorted(row["a"] for row in rows) == [7, 16]


def test_empty_arrays_have_no_rows() -> None:
    found = read(make(xr.Dataset({"a": (("x", "y"), np.zeros((0, 3)))})))

    assert found.num_rows == 0
    assert found.schema.names == ["x", "y", "a"]


def test_partitions_are_as_large_as_asked_for_and_never_a_tiny_chunk_each() -> None:
    repo = make(xr.Dataset({"a": ("x", np.arange(1000.0))}), a={"chunks": (10,)})

    def count(size: int) -> int:
        return len(open_table(open_source(Options(target_bytes=size), repo)).partitions())

    assert [count(size) for size in (1 << 20, 16 * 100, 16 * 10, 1)] == [1, 10, 100, 100]


def make_virtual(folder: Path) -> tuple[Repository, str]:
    """An array of one virtual chunk."""
    (folder / "data.bin").write_bytes(np.arange(4, dtype="<i4").tobytes())
    prefix = f"file://{folder}/"
    config = RepositoryConfig.default()
    store = frazil.ObjectStoreConfig.LocalFileSystem(str(folder))
    config.set_virtual_chunk_container(VirtualChunkContainer(prefix, store))
    repo = Repository.create(frazil.local_filesystem_storage(str(folder / "repo")), config)
    repo.save_config()
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=(4,), chunks=(4,), dtype="i4", compressors=None,
        dimension_names=["x"],
    )  # fmt: skip
    spec = VirtualChunkSpec([0], f"{prefix}data.bin", 0, 16)
    session.store.set_virtual_refs("a", [spec], validate_containers=True)
    session.commit("virtual")
    return repo, prefix


def test_virtual_chunks_are_read_only_if_their_container_is_authorized(tmp_path: Path) -> None:
    repo, prefix = make_virtual(tmp_path)
    url = str(tmp_path / "repo")

    with pytest.raises(InvalidInputError) as caught:
        read(repo, columns=("a",))
    assert f'add authorize="{prefix}"' in caught.value.message
    for authorize in ((prefix,), ("*",)):
        source = open_source(Options(repo=url, authorize=authorize))
        table = open_table(source)
        (batch,) = (b for part in table.partitions() for b in table.read(part))
        assert batch.column("a").to_pylist() == [0, 1, 2, 3]
    with pytest.raises(InvalidInputError, match="the containers of the repository are file://"):
        open_source(Options(repo=url, authorize=("s3://elsewhere/",)))


@pytest.mark.parametrize("layout", ["cells", "chunks"])
def test_access_to_virtual_chunks_is_checked_before_any_task_is_planned(
    tmp_path: Path, layout: Layout
) -> None:
    repo, prefix = make_virtual(tmp_path)
    (tmp_path / "data.bin").unlink()  # so that reading anything fails in another way
    only_rows = ("x",) if layout == "cells" else ("chunk",)

    table = open_table(open_source(Options(layout=layout), repo))
    with pytest.raises(InvalidInputError, match=f'authorize="{prefix}"') as caught:
        table.partitions()
    assert caught.value.kind == "unauthorized-virtual-chunk-container"
    for options in (
        Options(layout=layout, authorize=("*",)),
        Options(layout=layout, columns=only_rows),
    ):
        assert open_table(open_source(options, repo)).partitions()
