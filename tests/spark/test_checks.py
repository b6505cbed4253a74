"""What single checks find, without any session."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import xarray as xr

from frazil.errors import InvalidInputError
from frazil.spark import checks
from frazil.spark.audit import (
    NewRegion,
    NewVersion,
    VariableMetadata,
    plan_tasks,
    render_findings,
)
from frazil.spark.checks import (
    as_checks,
    count_different,
    count_missing,
    count_samples,
    find_differences,
    find_duplicates,
    find_gaps,
    find_outside,
    find_turns,
    read_blocks,
    sample_chunks,
)

NAN = np.nan
DAYS = np.arange("2000-01-01", "2000-01-07", dtype="datetime64[D]").astype("datetime64[ns]")
TWO_FILES = (checks.FileRegion("a.nc", "time", 2, 4), checks.FileRegion("b.nc", "time", 4, 6))


def version_of(values: Any, dim: str | None = "time") -> NewVersion:
    """Six times, of which the last four come with two files."""
    return NewVersion(xr.Dataset(coords={"time": values}), {}, {}, dim, TWO_FILES)


def region_of(values: Any, source: Any = None) -> NewRegion:
    dataset = xr.Dataset({"t": ("time", np.asarray(values))})
    other = dataset if source is None else xr.Dataset({"t": ("time", np.asarray(source))})
    return NewRegion(dataset, TWO_FILES[0], lambda: other)


def places(findings: Sequence[checks.Finding]) -> list[tuple[tuple[str, ...], object]]:
    return [(each.files, each.region) for each in findings]


@pytest.mark.parametrize(
    ("values", "turns"),
    [
        ([1, 2, 3], []),
        ([3, 2, 1], []),
        ([1, 2, 1, 3], [2]),
        ([9, 8, 8, 7], []),
        ([1.0, NAN, 3.0], [1]),
        ([5], []),
        (DAYS, []),
        (DAYS[[0, 2, 1, 3]], [2]),
    ],
)
def test_turns_are_where_values_go_the_other_way(values: Any, turns: list[int]) -> None:
    assert find_turns(np.asarray(values)) == turns


def test_duplicates_report_where_the_value_was_first() -> None:
    assert find_duplicates(np.array([4, 5, 4, 6, 5, 4])) == [(2, 0), (4, 1), (5, 0)]


@pytest.mark.parametrize(
    ("values", "step", "gaps"),
    [
        ([0, 1, 2, 4], None, [3]),
        ([4, 2, 1, 0], None, [1]),
        ([0, 31, 59, 90, 151], None, [4]),
        ([0.0, 0.1, 0.2, 0.3], 0.1, []),
        ([0.0, 0.1, 0.25], 0.1, [2]),
        (DAYS, "1D", []),
        (DAYS, "12h", [1, 2, 3, 4, 5]),
        (DAYS[[0, 1, 3]], np.timedelta64(1, "D"), [2]),
        ([7], None, []),
    ],
)
def test_gaps_are_longer_than_a_step(values: Any, step: Any, gaps: list[int]) -> None:
    assert find_gaps(np.asarray(values), step) == gaps


def test_a_step_that_is_no_span_is_refused_at_once() -> None:
    with pytest.raises(InvalidInputError, match="a month"):
        checks.complete(step="a month")


def test_only_what_is_new_is_held_against_files() -> None:
    old = version_of([0, 0, 1, 2, 3, 4])
    assert list(checks.unique().check_whole(old)) == []

    assert places(checks.unique().check_whole(version_of([0, 1, 2, 1, 3, 4]))) == [
        (("a.nc",), (3, 4))
    ]
    assert places(checks.monotonic().check_whole(version_of([0, 1, 2, 3, 4, 2]))) == [
        (("b.nc",), (5, 6))
    ]


def test_a_gap_names_all_files_behind_it_and_one_inside_of_a_file_that_file() -> None:
    between = checks.complete().check_whole(version_of([0, 1, 5, 6, 7, 8]))
    inside = checks.complete().check_whole(version_of([0, 1, 2, 3, 4, 9]))

    assert places(between) == [(("a.nc", "b.nc"), (1, 3))]
    assert places(inside) == [(("b.nc",), (4, 6))]


def test_a_coordinate_that_is_not_there_is_reported() -> None:
    with pytest.raises(ValueError, match="name a dimension"):
        checks.monotonic().check_whole(version_of(range(6), None))


def test_differences_of_metadata_are_spelt_out() -> None:
    one = {"data_type": "float32", "attributes": {"units": "K", "_FillValue": NAN}}
    other = {"data_type": "float64", "attributes": {"_FillValue": NAN, "title": "other"}}

    assert list(find_differences(one, other, checks.CF_ATTRIBUTES)) == [
        ("data type", '"float32"', '"float64"'),
        ("units", '"K"', "null"),
    ]


def test_metadata_is_compared_with_what_was_and_with_files() -> None:
    kelvin = {"data_type": "float32", "attributes": {"units": "K"}}
    celsius = {"data_type": "float32", "attributes": {"units": "C"}}
    since = {"data_type": "int64", "attributes": {"units": "days since 2000-01-01"}}
    reported = [
        VariableMetadata("t", "float32", {"units": "C"}, ("a.nc",)),
        VariableMetadata("time", "int64", {"units": "days since 2001-01-01"}, ("a.nc",)),
    ]
    version = NewVersion(
        xr.Dataset(), {"t": kelvin, "time": since}, {"t": celsius}, "time", TWO_FILES, reported
    )

    found = checks.same_metadata().check_whole(version)

    assert [(each.variable, each.files, each.message) for each in found] == [
        ("t", (), 'units is "K" now, "C" it was'),
        ("t", ("a.nc",), 'units is "C" in the file, "K" in the repository'),
    ]


def test_missing_values_are_counted() -> None:
    assert count_missing(np.array([1.0, NAN, NAN])) == 2
    assert count_missing(np.array(["2000", "NaT"], "M8[D]")) == 1
    assert count_missing(np.array([0, 1])) == 0


def test_values_outside_are_counted_with_their_range() -> None:
    assert find_outside(np.array([1.0, NAN, -5.0, 9.0, 3.0]), 0, 4) == (2, -5.0, 9.0)
    assert find_outside(np.array([0, 4]), 0, 4) is None


def test_fill_shares_and_ranges_are_found_by_variable() -> None:
    half = region_of([1.0, NAN, 3.0, NAN])

    assert list(checks.fill_share(at_most=0.5).check_region(half)) == []
    (found,) = checks.fill_share(at_most=0.4).check_region(half)
    assert (found.variable, found.files, found.region) == ("t", ("a.nc",), (2, 4))
    assert list(checks.values_between(1, 3).check_region(half)) == []
    (found,) = checks.values_between(1.5, 3, ["t"]).check_region(half)
    assert found.message == "1 values are outside of 1.5 to 3: 1 to 1"
    with pytest.raises(KeyError, match="humidity"):
        checks.values_between(0, 1, ["humidity"]).check_region(half)


def test_blocks_are_all_values_and_not_more_at_once_than_said() -> None:
    array = xr.DataArray(np.arange(60).reshape(6, 10))
    array.encoding["chunks"] = (2, 5)

    blocks = list(read_blocks(array, most_bytes=2 * 10 * 8))

    assert [block.size for block in blocks] == [20, 20, 20]
    assert sorted(np.concatenate([block.ravel() for block in blocks])) == list(range(60))


@pytest.mark.parametrize("named", ["bounds", "climatology"])
@pytest.mark.parametrize("spoilt", ["time", "edges", None])
def test_all_times_are_compared_as_times(named: str, spoilt: str | None) -> None:
    def count_from(start: str, first: int) -> dict[str, Any]:
        times = np.arange(first, first + 2)
        units = {"units": f"days since {start}", "calendar": "noleap", named: "edges"}
        edges = np.stack([times, times + 1], axis=1)
        return {"time": ("time", times, units), "edges": (("time", "nv"), edges)}

    there = count_from("2000-01-01", 2)
    if spoilt is not None:
        there[spoilt] = (there[spoilt][0], there[spoilt][1] - 2, *there[spoilt][2:])
    many = {"t": ("time", np.ones(2)), "u": ("time", np.ones(2))}
    source = xr.decode_cf(xr.Dataset({**count_from("2000-01-03", 0), **many}))
    region = NewRegion(xr.decode_cf(xr.Dataset({**there, **many})), TWO_FILES[0], lambda: source)

    found = checks.samples_equal_source().check_region(region)

    assert [each.variable for each in found] == ([] if spoilt is None else [spoilt])


def test_samples_are_compared_with_the_source() -> None:
    same = checks.samples_equal_source(share=1.0)

    assert list(same.check_region(region_of([1.0, NAN]))) == []
    (found,) = same.check_region(region_of([1.0, NAN], [1.0, 2.0]))
    assert found.message == "1 values in [0:2] of the file are others here"
    (found,) = same.check_region(region_of([1.0, NAN], [[1.0], [2.0]][0]))
    assert "shape (1,), and (2,) here" in found.message


def test_samples_are_as_many_as_said_and_the_same_each_time() -> None:
    assert count_samples(1000, 0.01, 1) == 10
    assert count_samples(3, 0.01, 2) == 2
    assert count_samples(1, 0.01, 5) == 1
    assert sample_chunks(100, 5, 1) == sample_chunks(100, 5, 1)
    assert len(set(sample_chunks(100, 5, 2))) == 5
    assert count_different(np.array([1, 2]), np.array([1, 3])) == 1


def test_functions_report_what_they_like() -> None:
    finding = checks.Finding("two", check="other", variable="t", files=("x",), region=(0, 1))

    def own(dataset: xr.Dataset, region: checks.FileRegion) -> list[str | checks.Finding]:
        return [f"{dict(dataset.sizes)} {region.indexers}", finding, checks.Finding("three")]

    (check,) = as_checks([own])

    assert check.check_region(region_of([1.0])) == [  # type: ignore[union-attr]
        checks.Finding("{'time': 1} {'time': slice(2, 4, None)}", "own", None, ("a.nc",), (2, 4)),
        finding,
        checks.Finding("three", "own", None, ("a.nc",), (2, 4)),
    ]


def test_tasks_have_enough_to_do() -> None:
    regions = [checks.FileRegion(str(number)) for number in range(100)]

    light = plan_tasks(regions, 1 << 20, 0.01, 2)
    heavy = plan_tasks(regions, 100 << 20, 1.0, 2)

    assert [len(each) for each in light[:2]] == [16, 16]
    assert {len(each) for each in heavy} == {2}
    assert [each for group in heavy for each in group] == regions


def test_many_findings_are_cut_short() -> None:
    shown = render_findings([checks.Finding("x", "c", files=("a", "b"))] * 60).splitlines()

    assert len(shown) == 2 + 50 + 1
    assert shown[2].split() == ["c", "a", "and", "1", "more", "x"]
    assert shown[-1] == "and 10 more"
