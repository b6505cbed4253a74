"""What a file was when it was opened is what reads are held to."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from frazil import virtual
from frazil.errors import StorageError
from frazil.virtual import FileVersion
from tests.virtual.files import days, save
from tests.virtual.repositories import commit, make_repository, read

LONG_AGO = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_the_version_is_the_files_own(tmp_path: Path) -> None:
    path = save(days(0, 2), tmp_path / "a.nc")
    os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))

    source = virtual.open(path)

    assert source.version == FileVersion(None, LONG_AGO, path.stat().st_size)
    assert source.references["t"].versions == (source.version,)


def test_a_file_that_changes_after_it_was_opened_is_refused_by_name(tmp_path: Path) -> None:
    path = save(days(0, 2), tmp_path / "a.nc")
    os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    source = virtual.open(path)
    repository = commit(virtual.combine([source]), [source], tmp_path)
    assert read(repository)["t"].values.tolist() == days(0, 2)["t"].values.tolist()

    os.utime(path)  # as a program does that writes to it

    with pytest.raises(StorageError, match=r"virtual chunk has changed \(.*a\.nc\)"):
        read(repository)


def test_a_file_that_changes_before_it_is_committed_is_refused_too(tmp_path: Path) -> None:
    path = save(days(0, 2), tmp_path / "a.nc")
    os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    source = virtual.open(path)

    os.utime(path)
    repository = commit(virtual.combine([source]), [source], tmp_path)

    with pytest.raises(StorageError, match=r"virtual chunk has changed \(.*a\.nc\)"):
        read(repository)


def test_versions_of_many_files_are_kept_apart(tmp_path: Path) -> None:
    paths = [save(days(start, 2), tmp_path / f"{start}.nc") for start in (0, 2)]
    for path in paths:
        os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    sources = [virtual.open(path) for path in paths]
    repository = commit(virtual.combine(sources, "time"), sources, tmp_path)

    os.utime(paths[1])

    opened = virtual.read_dataset(repository.readonly_session("main").store)
    assert opened.sizes["time"] == 4
    with pytest.raises(StorageError, match=r"virtual chunk has changed \(.*2\.nc\)"):
        read(repository)


def test_a_dataset_of_virtualizarr_is_held_to_its_files_too(tmp_path: Path) -> None:
    path = save(days(0, 2), tmp_path / "a.nc")
    os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    source = virtual.open(path)
    first = commit(virtual.combine([source]), [source], tmp_path)
    repository = make_repository(tmp_path)
    session = repository.writable_session("main")
    virtual.write_dataset(virtual.read_dataset(first.readonly_session("main").store), session.store)
    session.commit("again")

    os.utime(path)

    with pytest.raises(StorageError, match=r"virtual chunk has changed \(.*a\.nc\)"):
        read(repository)


@pytest.mark.parametrize(
    ("e_tag", "checksum"),
    [('"strong"', '"strong"'), ('W/"weak"', LONG_AGO), (None, LONG_AGO)],
)
def test_a_strong_etag_counts_before_the_time(e_tag: str | None, checksum: object) -> None:
    assert FileVersion(e_tag, LONG_AGO, 1).checksum == checksum


def test_parts_of_a_second_are_rounded_up() -> None:
    version = FileVersion(None, LONG_AGO.replace(microsecond=1), 1)

    assert version.checksum == LONG_AGO.replace(second=7)
