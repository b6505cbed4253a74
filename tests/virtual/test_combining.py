"""Many sources as one: what comes together, and what is reported of what does not."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from frazil import virtual
from frazil.errors import InvalidInputError, NotFoundError
from frazil.virtual import Plan, Problem, ProblemKind, Severity, Treatment
from tests.virtual.files import CHUNKS, days, save
from tests.virtual.repositories import commit, read, read_combined

OTHER_CHUNKS = {"zlib": True, "chunksizes": (1, 20, 30)}


def plan(*paths: Path, dims: str | tuple[str, ...] = "time") -> Plan:
    return virtual.combine([virtual.open(path).header for path in paths], dims)


def uris(*paths: Path) -> tuple[str, ...]:
    return tuple(path.as_uri() for path in paths)


def only(problems: tuple[Problem, ...]) -> Problem:
    (found,) = problems
    return found


# What comes together


def test_files_follow_each_other_by_their_coordinate_whatever_their_order(tmp_path: Path) -> None:
    paths = [save(days(start, 4), tmp_path / f"{start}.nc") for start in (8, 0, 4)]

    found = read_combined(paths, "time")

    parts = [xr.open_dataset(path) for path in sorted(paths)]
    expected = xr.concat(parts, "time", data_vars="minimal", join="exact")
    xr.testing.assert_identical(found, expected.load())


def test_the_last_file_may_end_inside_of_a_chunk(tmp_path: Path) -> None:
    paths = [save(days(0, 4), tmp_path / "a.nc"), save(days(4, 3), tmp_path / "b.nc")]

    found = read_combined(paths, "time")

    assert found.sizes["time"] == 7
    assert found["t"].values[4:].tolist() == days(4, 3)["t"].values.tolist()


def test_files_make_a_grid_along_two_dimensions(tmp_path: Path) -> None:
    whole = days(0, 4)
    paths = []
    for at, x in enumerate((slice(0, 15), slice(15, 30))):
        for start in (0, 2):
            part = whole.isel(time=slice(start, start + 2), x=x)
            paths.append(save(part, tmp_path / f"{at}-{start}.nc"))

    found = read_combined(paths, ("time", "x"))

    with xr.open_dataset(paths[0]) as first:
        assert found["t"].values.tolist() == whole["t"].values.tolist()
        assert found["x"].values.tolist() == whole["x"].values.tolist()
        assert found["t"].attrs == first["t"].attrs


def test_coordinates_that_go_down_are_kept_so(tmp_path: Path) -> None:
    whole = days(0, 2)
    paths = [
        save(whole.isel(y=slice(10, 20)), tmp_path / "south.nc"),
        save(whole.isel(y=slice(0, 10)), tmp_path / "north.nc"),
    ]

    found = read_combined(paths, "y")

    assert found["y"].values.tolist() == whole["y"].values.tolist()
    assert found["t"].values.tolist() == whole["t"].values.tolist()


def test_files_that_count_from_different_days_are_counted_from_one(tmp_path: Path) -> None:
    first, second = days(0, 2), days(2, 2)
    second["time"] = ("time", [0, 1], {"units": "days since 2000-01-03", "calendar": "standard"})
    paths = [save(first, tmp_path / "a.nc"), save(second, tmp_path / "b.nc")]

    found = read_combined(paths, "time")

    assert found["time"].values.astype("M8[D]").tolist() == (
        np.arange("2000-01-01", "2000-01-05", dtype="M8[D]").tolist()
    )
    assert found["time"].encoding["units"] == "days since 2000-01-01"


def test_small_variables_come_along_inline(tmp_path: Path) -> None:
    parts = [days(start, 2) for start in (0, 2)]
    paths = []
    for at, part in enumerate(parts):
        part["bounds"] = (("time", "edge"), np.array([[at, at + 1]] * 2))
        part["station"] = ((), "Kiel")
        paths.append(save(part, tmp_path / f"{at}.nc"))

    planned = plan(*paths)
    found = read_combined(paths, "time")

    assert planned.variables["bounds"].treatment is Treatment.INLINE
    assert found["bounds"].values.tolist() == [[0, 1], [0, 1], [1, 2], [1, 2]]
    assert found["station"].item() == "Kiel"


def test_a_variable_that_some_files_lack_reads_as_missing_there(tmp_path: Path) -> None:
    whole, lacking = days(0, 2), days(2, 2)
    whole["u"] = whole["t"] + 1
    paths = [
        save(whole, tmp_path / "a.nc", u=CHUNKS),
        save(lacking, tmp_path / "b.nc"),
    ]

    problem = only(plan(*paths).report.of(ProblemKind.MISSING))
    found = read_combined(paths, "time")

    assert (problem.subject, problem.files) == ("u", uris(paths[1]))
    assert found["u"].isnull().any(("x", "y")).values.tolist() == [False, False, True, True]


# The plan as a value


def test_headers_and_plans_travel_and_workers_place_their_references(tmp_path: Path) -> None:
    paths = [save(days(start, 4), tmp_path / f"{start}.nc") for start in (0, 4)]
    headers = [pickle.loads(pickle.dumps(virtual.open(path).header)) for path in paths]

    planned = pickle.loads(pickle.dumps(virtual.combine(headers, "time")))
    columns = planned.columns_of("t", virtual.open(paths[1]))

    assert planned.variables["t"].metadata["shape"] == [8, 20, 30]
    assert columns.coordinates[:, 0].tolist() == [2] * 4 + [3] * 4
    assert columns.locations == uris(paths[1])


def test_a_source_that_is_not_in_the_plan_is_refused(tmp_path: Path) -> None:
    inside, outside = save(days(0, 2), tmp_path / "a.nc"), save(days(2, 2), tmp_path / "b.nc")
    planned = plan(inside)

    with pytest.raises(NotFoundError, match=r"b\.nc is none of the sources"):
        planned.columns_of("t", virtual.open(outside))
    with pytest.raises(InvalidInputError, match=r"not given: .*a\.nc"):
        commit(planned, [], tmp_path)


def test_the_report_prints_as_a_table(tmp_path: Path) -> None:
    paths = [save(days(start, 2), tmp_path / f"{start}.nc") for start in (0, 2, 8)]

    lines = str(plan(*paths).report).splitlines()

    assert lines[0].split() == ["what", "follows", "of", "kind", "what", "it", "is", "files"]
    assert lines[2].startswith(
        "notes         time  gap   nothing between 2000-01-04 and 2000-01-09"
    )
    assert all(uri in lines[2] for uri in uris(*paths[1:]))


# What is wrong with places


def test_files_without_the_coordinate_have_no_place(tmp_path: Path) -> None:
    good, bad = save(days(0, 2), tmp_path / "a.nc"), tmp_path / "b.nc"
    save(days(2, 2).drop_vars("time"), bad)

    problem = only(plan(good, bad).report.of(ProblemKind.NO_COORDINATE))

    assert (problem.subject, problem.files) == ("time", uris(bad))
    assert problem.severity is Severity.STOPS


def test_more_than_one_file_needs_a_dimension(tmp_path: Path) -> None:
    paths = [save(days(start, 2), tmp_path / f"{start}.nc") for start in (0, 2)]

    problem = only(plan(*paths, dims=()).report.of(ProblemKind.NO_COORDINATE))

    assert problem.files == uris(*paths)


def test_files_that_cover_the_same_are_duplicates(tmp_path: Path) -> None:
    paths = [save(days(0, 2), tmp_path / f"{name}.nc") for name in "ab"]

    problem = only(plan(*paths).report.of(ProblemKind.DUPLICATE))

    assert problem.files == uris(*paths)
    with pytest.raises(InvalidInputError, match="duplicate"):
        read_combined(paths, "time")


def test_files_that_cover_some_of_the_same_overlap(tmp_path: Path) -> None:
    paths = [save(days(start, 4), tmp_path / f"{start}.nc") for start in (0, 2, 6)]

    problem = only(plan(*paths).report.of(ProblemKind.OVERLAP))

    assert problem.files == uris(*paths[:2])
    assert problem.text == "they overlap in part, at time 2000-01-03 to 2000-01-04"


def test_gaps_are_noted_and_stop_nothing(tmp_path: Path) -> None:
    paths = [save(days(start, 2), tmp_path / f"{start}.nc") for start in (0, 4)]

    problem = only(plan(*paths).report.of(ProblemKind.GAP))

    assert (problem.severity, problem.files) == (Severity.NOTES, uris(*paths))
    assert read_combined(paths, "time").sizes["time"] == 4


def test_months_of_different_lengths_are_no_gap(tmp_path: Path) -> None:
    paths = []
    for at in (0, 31, 60, 91):
        paths.append(save(days(at, 1), tmp_path / f"{at}.nc", t={"chunksizes": (1, 20, 30)}))

    assert not plan(*paths).report.of(ProblemKind.GAP)


def test_a_place_in_the_grid_that_no_file_has_is_noted(tmp_path: Path) -> None:
    whole = days(0, 4)
    paths = [
        save(whole.isel(time=slice(0, 2), x=slice(0, 15)), tmp_path / "a.nc"),
        save(whole.isel(time=slice(0, 2), x=slice(15, 30)), tmp_path / "b.nc"),
        save(whole.isel(time=slice(2, 4), x=slice(0, 15)), tmp_path / "c.nc"),
    ]

    problem = only(plan(*paths, dims=("time", "x")).report.of(ProblemKind.GAP))
    found = read_combined(paths, ("time", "x"))

    assert problem.text.startswith("1 of the places")
    assert found["t"][2:, :, 15:].isnull().all()
    assert found["t"][:2].values.tolist() == whole["t"][:2].values.tolist()


def test_coordinates_that_go_up_and_down_are_reported(tmp_path: Path) -> None:
    good, bad = save(days(0, 4), tmp_path / "a.nc"), tmp_path / "b.nc"
    save(days(4, 4).isel(time=[0, 2, 1, 3]), bad)

    problem = only(plan(good, bad).report.of(ProblemKind.NOT_MONOTONIC))

    assert (problem.subject, problem.files) == ("time", uris(bad))


def test_times_that_have_no_place_in_the_calendar_of_the_first_are_reported(tmp_path: Path) -> None:
    good, bad = save(days(0, 2), tmp_path / "a.nc"), tmp_path / "b.nc"
    other = days(2, 2)
    other["time"].attrs["calendar"] = "noleap"
    save(other, bad)

    problem = only(plan(good, bad).report.of(ProblemKind.COORDINATE))

    assert (problem.subject, problem.files) == ("time", uris(bad))


def test_other_coordinates_must_be_the_same(tmp_path: Path) -> None:
    good, moved, shorter = (tmp_path / f"{name}.nc" for name in ("a", "b", "c"))
    save(days(0, 2), good)
    save(days(2, 2).assign_coords(y=np.linspace(61, 51, 20)), moved)
    save(days(4, 2).isel(x=slice(0, 29)), shorter)

    report = plan(good, moved, shorter).report

    assert only(report.of(ProblemKind.COORDINATE)).files == uris(moved)
    assert {each.files for each in report.of(ProblemKind.LENGTH)} == {uris(shorter)}


def test_the_same_source_twice_is_refused(tmp_path: Path) -> None:
    path = save(days(0, 2), tmp_path / "a.nc")

    with pytest.raises(InvalidInputError, match="more than once"):
        plan(path, path)
    with pytest.raises(InvalidInputError, match="no sources"):
        virtual.combine([], "time")


# What must be re-encoded


def differing(tmp_path: Path, second: xr.Dataset, **encoding: object) -> tuple[Plan, Path]:
    """The plan for two good files and one of another sort."""
    other = tmp_path / "other.nc"
    save(second, other, **encoding)  # type: ignore[arg-type]
    paths = [save(days(start, 2), tmp_path / f"{start}.nc") for start in (0, 2)]
    return plan(*paths, other), other


@pytest.mark.parametrize(
    ("kind", "encoding"),
    [
        (ProblemKind.DATA_TYPE, {**CHUNKS, "dtype": "f8"}),
        (ProblemKind.CODECS, {**CHUNKS, "zlib": False}),
        (ProblemKind.CODECS, {**CHUNKS, "shuffle": False}),
        (ProblemKind.CHUNKS, OTHER_CHUNKS),
        (ProblemKind.ENCODING, {**CHUNKS, "_FillValue": -1.0}),
        (ProblemKind.FILL_VALUE, {**CHUNKS, "_FillValue": -1.0}),
    ],
)
def test_what_is_stored_in_another_way_must_be_re_encoded(
    tmp_path: Path, kind: ProblemKind, encoding: dict[str, object]
) -> None:
    planned, other = differing(tmp_path, days(4, 2), t=encoding)

    problem = only(planned.report.of(kind))

    assert (problem.subject, problem.files) == ("t", uris(other))
    assert planned.variables["t"].treatment is Treatment.REENCODED
    assert problem.text in planned.variables["t"].reasons


def test_scale_and_offset_of_each_file_must_be_re_encoded(tmp_path: Path) -> None:
    packed = {**CHUNKS, "dtype": "i2", "_FillValue": -32768, "add_offset": 280.0}
    paths = [
        save(days(at, 2), tmp_path / f"{at}.nc", t={**packed, "scale_factor": scale})
        for at, scale in ((0, 0.01), (2, 0.01), (4, 0.02))
    ]

    planned = plan(*paths)

    problem = only(planned.report.of(ProblemKind.ENCODING))
    assert problem.text == "scale_factor is 0.02, and 0.01 elsewhere"
    assert problem.files == uris(paths[2])
    assert [each.name for each in planned.reencoded] == ["t"]


def test_other_units_must_be_re_encoded(tmp_path: Path) -> None:
    planned, other = differing(tmp_path, days(4, 2, units="degC"))

    problem = only(planned.report.of(ProblemKind.ENCODING))

    assert (problem.text, problem.files) == ("units is degC, and K elsewhere", uris(other))


def test_how_hard_a_compressor_tried_is_no_difference(tmp_path: Path) -> None:
    planned, _ = differing(tmp_path, days(4, 2), t={**CHUNKS, "complevel": 9})

    assert not planned.report.problems
    assert planned.variables["t"].treatment is Treatment.VIRTUAL


def test_years_of_different_lengths_end_inside_of_chunks(tmp_path: Path) -> None:
    years = {"zlib": True, "chunksizes": (73, 1, 30)}
    paths = []
    for start, length in ((0, 366), (366, 365), (731, 365)):
        part = days(start, length).isel(y=slice(0, 1))
        paths.append(save(part, tmp_path / f"{start}.nc", t=years))

    planned = plan(*paths)

    problem = only(planned.report.of(ProblemKind.RAGGED))
    assert problem.files == uris(*paths)
    assert problem.text == "its chunks of 73 along time don't end where the file does"
    assert planned.variables["t"].treatment is Treatment.REENCODED
    assert planned.variables["time"].treatment is Treatment.INLINE


def test_variables_that_differ_with_no_dimension_to_distinguish_them(tmp_path: Path) -> None:
    parts = [days(start, 2).assign(run=((), start)) for start in (0, 2)]
    paths = [save(part, tmp_path / f"{at}.nc") for at, part in enumerate(parts)]

    planned = plan(*paths)

    problem = only(planned.report.of(ProblemKind.VALUES))
    assert (problem.subject, problem.files) == ("run", uris(paths[1]))
    with pytest.raises(InvalidInputError, match="run"):
        read_combined(paths, "time")


def test_what_is_taken_from_the_first_file_unread_is_noted(tmp_path: Path) -> None:
    areas = np.random.default_rng(0).random((20, 30))
    parts = [days(start, 2).assign(area=(("y", "x"), areas)) for start in (0, 2)]
    paths = [save(part, tmp_path / f"{at}.nc") for at, part in enumerate(parts)]

    problem = only(plan(*paths).report.of(ProblemKind.NOT_COMPARED))
    found = read_combined(paths, "time")

    assert (problem.subject, problem.files) == ("area", uris(*paths))
    assert problem.severity is Severity.NOTES
    assert found["area"].values.tolist() == areas.tolist()


def test_the_rest_can_be_written_without_what_must_be_re_encoded(tmp_path: Path) -> None:
    parts = [days(start, 2).assign(run=((), start)) for start in (0, 2)]
    paths = [save(part, tmp_path / f"{at}.nc") for at, part in enumerate(parts)]
    sources = [virtual.open(path) for path in paths]

    planned = virtual.combine(sources, "time").without(["run"])
    found = read(commit(planned, sources, tmp_path))

    assert set(found.variables) == {"t", "time", "x", "y"}
    with pytest.raises(NotFoundError, match="nothing"):
        planned.without(["nothing"])


def test_dimensions_in_another_order_do_not_fit(tmp_path: Path) -> None:
    planned, other = differing(tmp_path, days(4, 2).transpose("time", "x", "y"))

    problem = only(planned.report.of(ProblemKind.DIMENSIONS))

    assert (problem.subject, problem.files) == ("t", uris(other))
    assert problem.severity is Severity.STOPS
