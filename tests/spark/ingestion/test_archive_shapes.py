"""Archives of all shapes, ingested by tasks on Spark: what is read equals what is in the files.

The shapes are those of `tests/archives`, whose tests run here with tasks of one file each.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

from frazil.virtual import deaccumulate, from_path, to_units
from tests.archives import test_archives as archives
from tests.archives import test_file_rules as rules
from tests.archives.files import DAYS, create, ingest, make, make_tiff, on_spark, read, save
from tests.archives.test_archives import save_forecast, save_tree
from tests.spark.ingestion import test_ingest_times as times

pytestmark = pytest.mark.xdist_group("spark")

Shape = Callable[..., None]
SHAPES: list[tuple[Shape, dict[str, Any]]] = [
    (archives.test_a_scalar_time_becomes_the_dimension, {"mode": "auto"}),
    (archives.test_a_time_is_taken_from_an_attribute_or_from_the_name, {"mode": "virtual"}),
    (archives.test_the_times_of_wrf_are_read, {"mode": "native"}),
    (archives.test_variables_in_separate_files_are_merged, {"mode": "native", "calls": 2}),
    (
        times.test_bounds_follow_their_coordinate_in_every_mode,
        {"mode": "auto", "named": "bounds", "steps": 300},
    ),
    (
        times.test_what_is_there_is_widened_where_its_type_does_not_hold_the_new_times,
        {"mode": "virtual"},
    ),
    (archives.test_tiles_make_a_mosaic_in_any_order, {"mode": "virtual"}),
    (archives.test_months_of_different_lengths_follow_each_other, {"mode": "auto"}),
    (archives.test_only_files_with_other_codecs_are_decoded, {}),
    (archives.test_late_files_that_are_not_whole_chunks_are_inserted, {"mode": "auto"}),
    (archives.test_late_files_are_set_aside_or_refused_if_that_is_wanted, {}),
    (archives.test_a_file_that_overlaps_in_part_replaces_on_request, {"mode": "native"}),
    (archives.test_files_whose_integers_no_scale_holds_are_decoded, {"mode": "auto"}),
    (archives.test_zarr_stores_are_found_by_pattern_and_by_folder, {"mode": "auto"}),
    (archives.test_names_may_have_any_character, {"mode": "auto"}),
    (archives.test_one_file_that_does_not_fit_blocks_no_other, {}),
    (archives.test_strips_need_not_divide_the_height_of_an_image, {"mode": "native", "rows": 5}),
    (
        rules.test_a_dimension_without_a_variable_and_a_file_of_groups_alone_make_no_arrays,
        {"mode": "auto"},
    ),
    (rules.test_the_newest_of_files_for_one_place_replaces_the_others, {"mode": "auto"}),
    (
        rules.test_files_of_other_fill_values_are_read_with_their_own,
        {"mode": "auto", "dtype": "f4"},
    ),
    (rules.test_coordinates_that_differ_in_their_last_digits_are_one, {"mode": "virtual"}),
    (
        rules.test_files_of_other_encodings_are_ingested_into_groups_of_their_own,
        {"mode": "auto", "batches": [(0, 3), (3, 6)]},
    ),
]


@pytest.mark.parametrize(
    ("shape", "options"), SHAPES, ids=[each.__name__.removeprefix("test_") for each, _ in SHAPES]
)
def test_an_archive_is_ingested_by_tasks(
    tmp_path: Path, spark: SparkSession, shape: Shape, options: dict[str, Any]
) -> None:
    names = shape.__code__.co_varnames[: shape.__code__.co_argcount]
    (tmp_path / "archive").mkdir()
    paths = {name: tmp_path / name for name in ("files", "archive")}
    given = {"tmp_path": tmp_path, **paths, **options}
    if "repo" in names:
        given["repo"] = create(tmp_path / "repo")
    with on_spark(spark):
        shape(**{name: given[name] for name in names})


def test_a_tree_of_groups_is_ingested_by_tasks(tmp_path: Path, spark: SparkSession) -> None:
    for at in (0, 2, 4):
        save_tree(tmp_path / "files" / f"{at}.nc", at, has_support=at != 2)
    repo = create(tmp_path / "repo")

    with on_spark(spark):
        ingest(repo, tmp_path / "files", append_dim="time", source_group="*")

    product, support = read(repo, group="PRODUCT"), read(repo, group="PRODUCT/SUPPORT/INPUT")
    assert (support["time"].values == DAYS[:6].values).all()
    for at in (0, 2, 4):
        steps = np.arange(800).reshape(2, 400)
        assert (product["no2"][at : at + 2].values == at + steps).all()
        heights = support["height"][at : at + 2]
        assert (heights == at - steps).all() if at != 2 else heights.isnull().all()


def test_values_are_converted_by_tasks(tmp_path: Path, spark: SparkSession) -> None:
    parts = [save_forecast(tmp_path / "files" / f"{at}.nc", at) for at in (0, 1)]
    repo = create(tmp_path / "repo")

    convert = {"tp": [deaccumulate("step"), lambda rain: rain * 2], "t2m": to_units("degC")}
    with on_spark(spark):
        ingest(repo, tmp_path / "files", append_dim="time", convert=convert)

    truth, found = xr.concat(parts, "time"), read(repo)
    rain = xr.concat([truth["tp"].isel(step=[0]), truth["tp"].diff("step")], "step") * 2
    np.testing.assert_allclose(found["tp"], rain, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(found["t2m"], truth["t2m"] - 273.15, atol=1e-4)


def test_members_with_other_codecs_and_images_in_tiles_are_ingested_by_tasks(
    tmp_path: Path, spark: SparkSession
) -> None:
    for member, at in ((1, 0), (1, 2), (2, 2)):
        path = tmp_path / "files" / f"member={member}" / f"{at}.nc"
        save(make("t", at, 2, member), path, {"shuffle": member == 1})
    image = np.arange(640, dtype="i4").reshape(32, 20)
    for row in (0, 1):
        place = (500_000.0, 4_000_000.0 - 160 * row)
        tile = make_tiff(image[16 * row : 16 * row + 16], corner=place, step=10, epsg=32633, rows=5)
        (tmp_path / f"{row}.tif").write_bytes(tile)
    repo, tiles = create(tmp_path / "repo"), create(tmp_path / "tiles")

    members = {"append_dim": ["member", "time"], "coords": {"member": from_path(r"member=(\d+)")}}
    with on_spark(spark):
        ingest(repo, f"{tmp_path}/files/**/*.nc", **members)
        ingest(tiles, f"{tmp_path}/*.tif", append_dim=["y", "x"])

    found = read(repo)["t"]
    for member, at in ((1, 0), (1, 2), (2, 2)):
        part = found.sel(member=member, time=DAYS[at : at + 2])
        assert part.values.tolist() == make("t", at, 2, member)["t"].values.tolist()
    assert found.sel(member=2, time=DAYS[:2]).isnull().all()
    assert read(tiles)["0"].values.tolist() == image.tolist()
