"""Files become chunks of the repository's own, on Spark."""

import os
import shutil
from pathlib import Path
from typing import Any

import h5py
import icechunk
import numpy as np
import pytest
import xarray as xr
import zarr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidInputError, InvalidSourcesError
from frazil.spark.ingestion.ingest_plan import NativeArray, Part
from frazil.spark.ingestion.native_write import OpenSources, SourceToRead, WritePieces, plan_tasks
from frazil.spark.ingestion.source_data import Reading
from frazil.storage import ChunkType
from tests.spark.ingestion.archives import (
    ENCODING,
    Ingest,
    expect,
    make_days,
    read,
    save_archive,
    save_days,
)

pytestmark = pytest.mark.xdist_group("spark")


def array_of(repo: frazil.Repository, name: str) -> zarr.Array[Any]:
    return zarr.open_array(repo.readonly_session("main").store, path=name, mode="r")


def how(report: frazil.spark.IngestReport) -> dict[str, str]:
    return {each.name: each.treatment for each in report.variables}


def kinds(repo: frazil.Repository, name: str, count: int) -> list[ChunkType]:
    session = repo.readonly_session("main")
    return [session.chunk_type(f"/{name}", (number, 0, 0)) for number in range(count)]


def test_values_are_copied_with_chosen_chunks_and_codecs_and_the_official_library_reads_them(
    repo: frazil.Repository, archive: Path, ingest: Ingest, tmp_path: Path
) -> None:
    save_archive(archive, 7)
    encoding = {"t": {"shards": (6, 24, 16), "compressors": zarr.codecs.GzipCodec(level=1)}}

    report = ingest(mode="native", chunks={"time": 3, "p": {"x": 5}}, encoding=encoding)

    expected = expect(archive)
    assert how(report)["t"] == how(report)["p"] == "native"
    assert array_of(repo, "t").shards == (6, 24, 16)
    assert array_of(repo, "t").chunks == (3, 24, 16)
    assert array_of(repo, "p").chunks == (3, 24, 5)
    assert report.metrics["chunks_written"] == 3 + 5 * 4
    saved = frazil.Repository.fetch_config(repo.storage)
    assert not (saved and saved.virtual_chunk_containers)
    shutil.rmtree(archive)
    xr.testing.assert_identical(read(repo), expected)
    official = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path / "repo")))
    store = official.readonly_session("main").store
    xr.testing.assert_identical(xr.open_zarr(store, consolidated=False).load(), expected)


def test_attributes_and_packed_values_are_kept_as_stored(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    for start in (0, 2):
        days = make_days(start)
        days["t"] = days.t.where(days.t > 275).assign_attrs(units="K")
        packed = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -999}
        days.to_netcdf(archive / f"{start:04}.nc", encoding={"t": packed})

    ingest(mode="native", chunks={"time": 3})

    stored = array_of(repo, "t")
    assert stored.dtype == np.dtype("i2")
    assert stored.attrs["scale_factor"] == 0.01
    raw = [h5py.File(path)["t"][:] for path in sorted(archive.glob("*.nc"))]
    assert np.array_equal(np.asarray(stored[:]), np.concatenate(raw))
    xr.testing.assert_identical(read(repo), expect(archive))


def test_a_chunk_that_is_partly_filled_is_filled_by_the_next_append(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 4)
    ingest(mode="native", chunks={"time": 3})

    # Other chunks and codecs in files make no difference to an array that is native.
    make_days(8).to_netcdf(archive / "0008.nc", encoding={"t": {"chunksizes": (2, 3, 16)}})
    save_archive(archive, 3, first=5)
    report = ingest()

    assert (how(report)["t"], how(report)["p"]) == ("native", "native")
    assert "it is native in the repository" in str(report)
    assert array_of(repo, "t").chunks == (3, 24, 16)
    xr.testing.assert_identical(read(repo), expect(archive))
    assert ingest().snapshot_id is None


def test_a_changed_file_and_a_better_one_take_their_places(
    spark: SparkSession, repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 5)
    ingest(mode="native", chunks={"time": 4})
    save_days(archive, 0, seed=1)
    save_days(archive, 6, seed=1)
    save_archive(archive, 1, first=5)

    report = ingest(mode="native")

    assert sorted(each.region or () for each in report.files) == [(0, 2), (6, 8), (10, 12)]
    xr.testing.assert_identical(read(repo), expect(archive))
    assert len(read(repo, "_frazil/ledger").source) == 6

    better = save_days(archive.parent / "better", 2, seed=2)
    frazil.spark.ingest(repo, better, append_dim="time", on_overlap="replace", spark=spark)
    shutil.copy2(better, archive / better.name)
    xr.testing.assert_identical(read(repo), expect(archive))


def test_only_files_that_cant_be_virtual_are_native(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 2)
    make_days(4).to_netcdf(
        archive / "0004.nc", encoding={**ENCODING, "t": {"chunksizes": (2, 24, 16)}}
    )

    report = ingest()

    assert (how(report)["t"], how(report)["p"]) == ("virtual and native", "virtual")
    reasons = {each.name: each.reason for each in report.variables}
    assert reasons["t"].startswith("1 of 3 files: codecs is")
    assert "chunk shape is [2, 24, 16], and [1, 12, 8] elsewhere" in reasons["t"]
    assert reasons["p"] == ""
    xr.testing.assert_identical(read(repo), expect(archive))


def test_filters_that_zarr_does_not_know_are_decoded_by_hdf5(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    for path in save_archive(archive, 3):
        with h5py.File(path, "r+") as file:
            values, scales = file["p"][:], [each[0] for each in file["p"].dims]
            del file["p"]
            made = file.create_dataset("p", data=values, chunks=(1, 24, 16), scaleoffset=0)
            made.attrs["long_name"] = "pressure"
            for axis, scale in enumerate(scales):
                made.dims[axis].attach_scale(scale)

    with pytest.raises(InvalidSourcesError, match="Zarr has no codec for"):
        ingest(mode="virtual")
    report = ingest()

    assert (how(report)["t"], how(report)["p"]) == ("virtual", "native")
    xr.testing.assert_identical(read(repo), expect(archive))


def test_a_virtual_array_goes_on_natively_behind_a_chunk_that_is_not_full(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_days(archive, 0, 3)
    ingest(mode="virtual")

    save_days(archive, 3, 3)
    with pytest.raises(InvalidSourcesError, match="mode='auto'"):
        ingest(mode="virtual")
    report = ingest()

    assert (how(report)["t"], how(report)["p"]) == ("virtual", "virtual and native")
    is_virtual = [each is ChunkType.virtual for each in kinds(repo, "p", 3)]
    assert is_virtual == [True, False, False]
    xr.testing.assert_identical(read(repo), expect(archive))


def test_values_that_mean_something_else_are_refused(archive: Path, ingest: Ingest) -> None:
    save_archive(archive, 2)
    odd = archive / "0004.nc"
    days = make_days(4)
    days.t.attrs["units"] = "C"
    days.to_netcdf(odd, encoding={"p": {"dtype": "i8"}})

    with pytest.raises(InvalidSourcesError) as caught:
        ingest(mode="native")

    assert "data type is int64" in str(caught.value)
    assert "units is C" in str(caught.value)
    assert caught.value.files == (odd.as_uri(),)


def test_chunks_for_a_virtual_ingest_are_refused(archive: Path, ingest: Ingest) -> None:
    save_days(archive, 0)

    with pytest.raises(InvalidInputError, match="mode='native'"):
        ingest(mode="virtual", chunks={"time": 1})


def test_other_formats_are_decoded_through_their_chunks(
    spark: SparkSession, repo: frazil.Repository, archive: Path
) -> None:
    for number in range(3):
        make_days(2 * number).to_zarr(archive / f"{number}.zarr", zarr_format=3, consolidated=False)
    names = [archive / f"{number}.zarr" for number in range(3)]

    frazil.spark.ingest(
        repo,
        names,
        append_dim="time",
        mode="native",
        chunks={"time": 4},
        source_options=frazil.spark.SourceOptions(rename={"t": "temperature"}),
        spark=spark,
    )

    parts = [make_days(2 * number) for number in range(3)]
    expected = xr.decode_cf(xr.concat(parts, "time", data_vars="minimal"))
    found = read(repo).rename({"temperature": "t"})
    xr.testing.assert_equal(found, expected)


def test_a_file_that_changes_between_plan_and_reading_is_named(archive: Path) -> None:
    path = save_days(archive, 0)
    header = frazil.virtual.open(path).header
    session = frazil.Repository.create(frazil.in_memory_storage()).writable_session("main")
    zarr.create_array(session.store, name="p", shape=(2, 24, 16), chunks=(1, 24, 16), dtype="i4")
    box = ((0, 2), (0, 24), (0, 16))
    array = NativeArray(
        "p", (2, 24, 16), (1, 24, 16), (2, 24, 8), 4, 0, (Part("a", box, (0, 0, 0)),)
    )
    (pieces,) = plan_tasks([array], 1)
    write = WritePieces("", {"a": SourceToRead.of(header)}, Reading())
    write(session.fork(), pieces)

    save_days(archive, 0, seed=1)
    os.utime(path, ns=(1, 1))

    with pytest.raises(InvalidSourcesError, match="was changed while it was ingested"):
        write(session.fork(), pieces)


def test_a_file_that_changes_while_it_is_read_is_named(archive: Path) -> None:
    path = save_days(archive, 0)
    source = SourceToRead.of(frazil.virtual.open(path).header)
    values = np.empty((1, 24, 16), "i4")
    whole = ((0, 1), (0, 24), (0, 16))

    with OpenSources({"a": source}, Reading()) as sources:
        sources.read("a", "p", whole, values, whole)
        assert np.array_equal(values, make_days(0).p.values[:1])
        sources.refuse_changed()
        os.utime(path, ns=(1, 1))

        with pytest.raises(InvalidSourcesError) as caught:
            sources.refuse_changed()

    assert caught.value.files == ("a",)
