"""Options that name nothing, files that hold nothing, and parsers that raise anything."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr

import frazil
import frazil.spark
from frazil.errors import InvalidInputError, InvalidSourcesError
from frazil.spark.ingestion.ledger import read_ledger
from tests.spark.ingestion.archives import expect, read, save_archive

pytestmark = pytest.mark.xdist_group("spark")


def ingest(sources: object, repo: frazil.Repository, **options: Any) -> frazil.spark.IngestReport:
    """Ingest along time; `source_` begins the options of source files."""
    given = {name: each for name, each in options.items() if name == "source_group"}
    given |= {n.removeprefix("source_"): each for n, each in options.items() if n not in given}
    return frazil.ingest(repo, sources, **{"append_dim": "time", **given})  # type: ignore[arg-type]


def assert_untouched(repo: frazil.Repository) -> None:
    assert len(list(repo.ancestry(branch="main"))) == 1
    assert not read_ledger(repo.readonly_session("main").store).entries


# Types


@pytest.mark.parametrize("dim", [3, b"time", {"time"}, "", [], ["time", ""], ["time", "time"]])
def test_append_dim_is_a_name_or_a_list_of_names(
    repo: frazil.Repository, archive: Path, dim: object
) -> None:
    save_archive(archive, 2)

    with pytest.raises(InvalidInputError, match=r"invalid append_dim .*: it must be the name of a"):
        ingest(archive, repo, append_dim=dim)
    assert_untouched(repo)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("source_skip", "time"), ("source_skip", 3), ("source_load", "t"), ("source_load", [1]),
        ("source_rename", ["t"]), ("source_rename", {"t": 1}), ("chunks", 3),
        ("chunks", {"time": "2"}), ("encoding", "t"),
        ("encoding", {"t": 3}), ("source_group", None), ("group", 3),
    ],
)  # fmt: skip
def test_options_of_another_type_are_refused(
    repo: frazil.Repository, archive: Path, option: str, value: object
) -> None:
    save_archive(archive, 1)

    with pytest.raises(InvalidInputError, match=option.removeprefix("source_")):
        ingest(archive, repo, **{option: value})


# Names


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"source_skip": ["qualty"]},
            "invalid skip 'qualty': .*arrays .*t.*p.*did you mean 'quality'",
        ),
        ({"source_load": ["station", "P2"]}, "invalid load 'P2': .*arrays .*station"),
        ({"source_rename": {"tiem": "t"}}, "invalid rename 'tiem': .*did you mean 'time'"),
        ({"source_rename": {"p": "t"}}, "invalid rename: .*several arrays the name 't'"),
        ({"chunks": {"tmie": 4}}, "invalid chunks 'tmie': .*dimensions .*did you mean 'time'"),
        ({"chunks": {"tt": {"x": 4}}}, "invalid chunks 'tt': .*arrays"),
        ({"chunks": {"t": {"xx": 4}}}, "invalid chunks of 't' along 'xx': .*did you mean 'x'"),
        ({"encoding": {"station ": {}}}, "invalid encoding 'station ': .*did you mean 'station'"),
        ({"encoding": {"t": {"chunk": 1}}}, "invalid encoding 'chunk' of 't': .*mean 'chunks'"),
        ({"append_dim": "tiem"}, "invalid append_dim 'tiem': .*dimensions .*mean 'time'"),
        ({"source_group": "sciense"}, "no group 'sciense': .*groups science.*mean 'science'"),
        ({"source_group": "science/b"}, "no group 'science/b': its group 'science' has groups a"),
    ],
)
def test_names_that_nothing_has_are_refused_with_what_there_is(
    repo: frazil.Repository, archive: Path, options: dict[str, Any], expected: str
) -> None:
    for path in save_archive(archive, 2):
        with h5py.File(path, "a") as file:
            file.create_group("science/a")["v"] = np.ones(3)

    for more in ({}, {"source_on_bad_file": "skip"}):
        with pytest.raises(InvalidInputError, match=expected):
            ingest(archive, repo, **options, **more)
    assert_untouched(repo)


def test_names_may_be_those_that_other_files_or_the_repository_have(
    repo: frazil.Repository, archive: Path
) -> None:
    first, *_ = save_archive(archive, 2)
    with xr.load_dataset(first, decode_cf=False) as whole:
        whole.assign(only=("time", [1, 2])).to_netcdf(first)

    ingest(
        archive,
        repo,
        chunks={"time": 4, "p": {"x": 8}},
        source_skip=["only"],
    )
    lacking = xr.load_dataset(first, decode_cf=False).drop_vars(["p", "only"])
    lacking["time"] = lacking["time"] + 4
    lacking.to_netcdf(archive / "late.nc")
    options: dict[str, Any] = {"chunks": {"p": {"x": 8}}, "encoding": {"p": {"compressors": None}}}
    report = ingest(archive, repo, source_skip=["only"], **options)

    assert [each.region for each in report.files] == [(4, 6)]
    assert "only" not in read(repo)
    assert [each.region for each in ingest(archive, repo, **options).files] == [(0, 2)]
    assert read(repo)["only"].values[:2].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"append_dim": "tiem"}, "invalid append_dim 'tiem': .*dimensions .*mean 'time'"),
        ({"append_dim": ["time", "member"]}, "invalid append_dim 'member': .*dimensions "),
        ({"chunks": {"tiem": 1}}, "invalid chunks 'tiem': .*mean 'time'"),
        ({"encoding": {"tt": {"compressors": None}}}, "invalid encoding 'tt'"),
        ({"source_skip": ["statoin"]}, "invalid skip 'statoin': .*mean 'station'"),
        ({"source_rename": {"tiem": "t"}}, "invalid rename 'tiem'"),
        ({"source_load": ["pp"]}, "invalid load 'pp'"),
        ({"source_take": ["tt"]}, "invalid take 'tt'"),
        ({"source_group": "science"}, "invalid source_group 'science': .*from the root group"),
    ],
)
def test_names_that_nothing_has_are_refused_although_all_files_are_known(
    repo: frazil.Repository, archive: Path, options: dict[str, Any], expected: str
) -> None:
    save_archive(archive, 2)
    ingest(archive, repo)

    assert ingest(archive, repo).snapshot_id is None
    with pytest.raises(InvalidInputError, match=expected):
        ingest(archive, repo, **options)


def test_names_of_former_files_may_be_left_out_of_later_ones(
    repo: frazil.Repository, archive: Path
) -> None:
    first, *_ = save_archive(archive, 2)
    ingest(archive, repo, source_skip=["station"])
    lacking = xr.load_dataset(first, decode_cf=False).drop_vars(["station"])
    lacking["time"] = lacking["time"] + 4
    lacking.to_netcdf(archive / "late.nc")

    assert ingest(archive, repo, source_skip=["station"]).snapshot_id is not None
    assert ingest(archive, repo, source_skip=["station"]).snapshot_id is None
    assert "station" not in read(repo)


# Nothing to ingest


def save_groups(folder: Path) -> Path:
    path = folder / "groups.nc"
    with h5py.File(path, "w") as file:
        file.create_group("empty")
        for name in ("science/LSAR", "metadata"):
            file.create_group(name)["v"] = np.arange(3.0)
    return path


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "native"}, {"mode": "virtual"}, {"source_on_bad_file": "skip"}, {"dry_run": True},
     {"append_dim": None}, {"source_group": "science"}],
)  # fmt: skip
def test_files_without_arrays_are_an_error_that_lists_their_groups(
    repo: frazil.Repository, archive: Path, options: dict[str, Any]
) -> None:
    save_groups(archive)

    with pytest.raises(InvalidSourcesError, match=r"takes one of .*science/LSAR"):
        ingest(archive, repo, **options)
    assert_untouched(repo)


def test_a_zarr_hierarchy_of_groups_is_an_error_that_lists_them(
    repo: frazil.Repository, archive: Path
) -> None:
    root = zarr.open_group(archive / "z.zarr", mode="w")
    root.create_group("a/b").create_array("v", data=np.arange(3.0), dimension_names=["x"])

    with pytest.raises(InvalidSourcesError, match="takes one of a/b"):
        ingest(archive / "z.zarr", repo, append_dim=None)
    ingest(
        archive / "z.zarr",
        repo,
        append_dim=None,
        source_group="a/b",
    )
    assert read(repo)["v"].values.tolist() == [0, 1, 2]


def test_leaving_everything_out_is_an_error(repo: frazil.Repository, archive: Path) -> None:
    save_archive(archive, 1)

    with pytest.raises(InvalidSourcesError, match="leaves none"):
        ingest(
            archive,
            repo,
            source_skip=["t", "p", "station", "quality", "time", "x", "y"],
        )
    assert_untouched(repo)


def test_a_file_without_arrays_among_others_is_a_bad_file(
    repo: frazil.Repository, archive: Path
) -> None:
    save_archive(archive, 2)
    empty = save_groups(archive)

    with pytest.raises(InvalidSourcesError, match=r"groups\.nc: .*source_group="):
        ingest(archive, repo)
    report = ingest(archive, repo, source_on_bad_file="skip")
    empty.touch()
    again = ingest(archive, repo, source_on_bad_file="skip")

    assert [each.location for each in report.bad] == [empty.as_uri()]
    assert (len(report.files), again.snapshot_id, len(again.bad)) == (2, None, 1)


# What parsers raise


PANICKING = """
class PanicException(BaseException):
    pass


class VirtualTIFF:
    pass


def _open_tiff(path, store):
    raise {error}
"""


@pytest.fixture
def install_parser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], None]]:
    """Make a package that reads TIFF, and fails."""

    def install(error: str) -> None:
        package = tmp_path / "site" / "virtual_tiff"
        package.mkdir(parents=True)
        for name in ("__init__.py", "parser.py"):
            (package / name).write_text(PANICKING.format(error=error))
        monkeypatch.syspath_prepend(str(package.parent))
        for module in ("virtual_tiff", "virtual_tiff.parser"):
            monkeypatch.delitem(sys.modules, module, raising=False)

    yield install
    for module in ("virtual_tiff", "virtual_tiff.parser"):
        sys.modules.pop(module, None)


def test_a_panic_of_a_foreign_runtime_is_a_bad_file(
    repo: frazil.Repository, archive: Path, install_parser: Callable[[str], None]
) -> None:
    install_parser("PanicException('index out of bounds')")
    save_archive(archive, 2)
    (archive / "bad.tif").write_bytes(b"II*\0" + bytes(100))

    with pytest.raises(InvalidSourcesError, match="PanicException: index out of bounds"):
        ingest(archive, repo)
    report = ingest(archive, repo, source_on_bad_file="skip")

    assert [each.location for each in report.bad] == [(archive / "bad.tif").as_uri()]
    xr.testing.assert_identical(read(repo), expect(archive))


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit"])
def test_what_ends_a_program_is_no_bad_file(
    repo: frazil.Repository, archive: Path, install_parser: Callable[[str], None], error: str
) -> None:
    install_parser(f"{error}()")
    (archive / "a.tif").write_bytes(b"II*\0" + bytes(100))

    with pytest.raises((KeyboardInterrupt, SystemExit)):
        ingest(archive, repo, source_on_bad_file="skip")


@pytest.mark.parametrize("kept", [0.02, 0.5, 0.999])
def test_a_truncated_file_is_a_bad_file(
    repo: frazil.Repository, archive: Path, kept: float
) -> None:
    save_archive(archive, 2)
    path = archive / "short.cdf"
    times = ("time", np.arange(99, dtype="i4"), {"units": "days since 2000-01-01"})
    whole = xr.Dataset({"t": (("time", "y"), np.ones((99, 50)))}, coords={"time": times})
    whole.to_netcdf(path, format="NETCDF3_64BIT")
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])

    report = ingest(archive, repo, source_on_bad_file="skip")

    assert [each.location for each in report.bad] == [path.as_uri()]


def test_metadata_of_zarr_that_nobody_understands_are_a_bad_file(
    repo: frazil.Repository, archive: Path
) -> None:
    save_archive(archive, 2)
    broken = archive.parent / "broken.zarr"
    broken.mkdir()
    (broken / "zarr.json").write_text("{")

    report = ingest([archive, broken], repo, source_on_bad_file="skip")

    assert [each.location for each in report.bad] == [broken.as_uri()]
