"""The shape of every verb, and the verbs in a process without PySpark."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import icechunk
import pytest
import xarray as xr

import frazil
import frazil.spark
from frazil.errors import InvalidInputError
from frazil.spark import SourceOptions

WITHOUT_SPARK = frazil._HOMES["spark.driver"].split()
OF_FRAMES = ["write_frame", "commit_batch"]
"""Verbs whose session is that of a DataFrame."""
ON_SPARK = [*WITHOUT_SPARK, "read", "sql"]
MOST_OPTIONS = 15
HOLD_OPTIONS = ("job", "source_options", "blocks", "spark")
"""Parameters that hold several options, and the session."""


def parameters_of(verb: Callable[..., Any]) -> list[inspect.Parameter]:
    """Its parameters, but those of other tables and of other verbs."""
    known = inspect.signature(verb).parameters.values()
    return [each for each in known if each.kind is not each.VAR_KEYWORD]


@pytest.mark.parametrize("name", [*ON_SPARK, *OF_FRAMES, "find_written"])
def test_the_repository_comes_first_and_options_are_few_and_named(name: str) -> None:
    parameters = parameters_of(getattr(frazil.spark, name))

    assert parameters[0].name == ("source" if name == "copy" else "repo")
    named = [each for each in parameters if each.kind is each.KEYWORD_ONLY]
    assert len([each for each in named if each.name not in HOLD_OPTIONS]) <= MOST_OPTIONS
    # Beside what a verb works on, only names say what an argument is.
    assert len(parameters) - len(named) <= 4


@pytest.mark.parametrize("name", ON_SPARK)
def test_the_session_is_optional_and_last(name: str) -> None:
    last = parameters_of(getattr(frazil.spark, name))[-1]

    assert (last.name, last.default, last.kind) == ("spark", None, last.KEYWORD_ONLY)


def test_an_option_has_one_type_everywhere() -> None:
    found: dict[str, set[str]] = {}
    for name in (*WITHOUT_SPARK, "read", "sql"):
        for each in parameters_of(getattr(frazil.spark, name)):
            found.setdefault(each.name, set()).add(str(each.annotation))

    for option in ("job", "authorize", "metadata", "message", "dry_run", "statistics"):
        assert len(found[option]) == 1, option


@pytest.mark.parametrize("name", [*ON_SPARK, *OF_FRAMES, "find_written"])
def test_an_unknown_option_is_refused_with_the_nearest_one(name: str) -> None:
    verb = getattr(frazil.spark, name)
    parameters = parameters_of(verb)
    given = ["memory://"] * len([each for each in parameters if each.default is each.empty])
    known = parameters[-1].name

    given_by_name = {"query": "q"} if name == "commit_batch" else {}
    with pytest.raises(InvalidInputError, match=f"no option '{known}x'.*{known}"):
        verb(*given[: len(given) - len(given_by_name)], **given_by_name, **{f"{known}x": 1})


@pytest.mark.parametrize(
    "name", ["BlockOptions", "Derivation", "Job", "MaintenancePolicy", "SourceOptions"]
)
def test_a_value_of_options_refuses_unknown_ones_alike(name: str) -> None:
    cls = getattr(frazil.spark, name)
    known = next(iter(inspect.signature(cls).parameters))

    with pytest.raises(InvalidInputError, match=f"{name} has no option '{known}x'.*{known}"):
        cls(**{f"{known}x": 1})


def test_options_of_a_value_may_be_given_by_their_own_names(tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))
    files = save_scenes(tmp_path / "files")

    report = frazil.ingest(repo, files, append_dim="time", skip=["b"], progress=False)  # type: ignore[call-arg]

    assert [each.name for each in report.variables] == ["a", "time"]
    with pytest.raises(InvalidInputError, match=r"skip= beside source_options=: .* SourceOptions"):
        frazil.ingest(repo, files, skip=["b"], source_options=SourceOptions(skip=["a"]))  # type: ignore[call-arg]
    with pytest.raises(InvalidInputError, match=r"use frazil\.spark\.check"):
        frazil.check(repo, spark=None)


def save_scenes(folder: Path) -> Path:
    folder.mkdir()
    for at in range(2):
        values = {name: ("time", [at]) for name in "ab"}
        xr.Dataset(values, {"time": [at]}).to_netcdf(folder / f"{at}.nc")
    return folder


@pytest.mark.parametrize("name", WITHOUT_SPARK)
def test_a_verb_without_spark_has_the_other_parameters(name: str) -> None:
    on_spark = inspect.signature(getattr(frazil.spark, name)).parameters
    here = inspect.signature(getattr(frazil, name)).parameters

    assert [*here] == [each for each in on_spark if each != "spark"]
    assert not hasattr(icechunk, name)


ALL_OF_THEM = """
import sys
from datetime import timedelta

for name in ("pyspark", "py4j"):
    sys.modules[name] = None  # as if it were not installed

import numpy as np
import xarray as xr
import zarr
import frazil

folder = sys.argv[1]
for day in range(2):
    data = {"t": (("time", "x"), np.full((1, 4), day, "f4")), "time": ("time", [day])}
    xr.Dataset(data).to_netcdf(f"{folder}/{day}.nc", engine="h5netcdf")
repo = frazil.Repository.create(frazil.local_filesystem_storage(f"{folder}/repo"))
url = f"{folder}/repo"


def fill(session, row):
    zarr.open_array(session.store, path="rows")[row] = row


def create(session):
    zarr.create_array(
        session.store, name="rows", shape=(3,), chunks=(1,), dtype="i4", dimension_names=["row"]
    )


reports = [
    frazil.ingest(url, f"{folder}/*.nc", append_dim="time"),
    frazil.materialize(url, authorize=["*"]),
    frazil.transform(url, ["t"], "twice", lambda t: t * 2),
    frazil.transform(url, ["t"], "mean", reduce="mean", over="time"),
    frazil.derive(url, frazil.spark.Derivation(output="by-place", chunks={"time": 2, "x": 2})),
    frazil.rechunk(url, "t", (2, 2)),
    frazil.foreach_region(url, range(3), fill, prepare=create),
    frazil.write(url, xr.Dataset({"w": ("y", [1, 2])}), group="written"),
    frazil.analyze(url),
    frazil.compact(url),
    frazil.rewrite_manifests(url),
    frazil.copy(url, f"{folder}/copy"),
    frazil.export_zarr(url, f"{folder}/plain", group="written"),
    frazil.import_zarr(url, f"{folder}/plain", group="imported"),
    frazil.check(url),
    frazil.collect_garbage(url, timedelta(days=1)),
    frazil.maintain(url).garbage,
]
assert frazil.stats(url).total_bytes() > 0
assert {each.ran_on for each in reports} == {"driver"}
found = xr.open_zarr(repo.readonly_session("main").store, consolidated=False)
np.testing.assert_array_equal(found.twice, found.t * 2)
np.testing.assert_array_equal(found.rows, [0, 1, 2])
try:
    frazil.spark.stats(url, job=frazil.spark.Job(run_on="spark"))
except frazil.errors.SetupError as error:
    print(error)
"""


def test_verbs_of_the_package_need_no_pyspark(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", ALL_OF_THEM, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert child.returncode == 0, child.stderr
    assert child.stdout == (
        "a task on Spark needs pyspark, which is not installed: pip install 'frazil[spark]'\n"
    )
