"""Virtual references whose sources are gone, changed, too short, or of no container."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import zarr

import frazil
from frazil import Repository
from frazil.config import RepositoryConfig
from frazil.credentials import LocalFileSystemAccess
from frazil.format.manifest import VirtualRef
from frazil.maintenance.findings import Problem, Severity
from frazil.storage.memory import MemoryStorage
from frazil.storage.store_config import ObjectStoreConfig
from frazil.virtual.containers import VirtualChunkContainer
from tests.damages import Refs, read_node, rewrite_manifest, what_matters, with_refs

PATH = "/virtual"
CHUNK = 8


def _create(folder: Path, checksum: datetime | str | None = None) -> Repository:
    """A repository with two virtual chunks in each of two files."""
    prefix = f"{folder.as_uri()}/"
    config = RepositoryConfig()
    store = ObjectStoreConfig.LocalFileSystem(str(folder))
    config.set_virtual_chunk_container(VirtualChunkContainer(prefix, store))
    repository = Repository.create(MemoryStorage(), config, {prefix: LocalFileSystemAccess})
    repository.save_config()
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="virtual", shape=(4 * CHUNK,), chunks=(CHUNK,), dtype="uint8",
        compressors=None,
    )  # fmt: skip
    for chunk in range(4):
        name = ("one", "two")[chunk // 2]
        (folder / name).write_bytes(np.arange(2 * CHUNK, dtype=np.uint8).tobytes())
        session.store.set_virtual_ref(
            f"virtual/c/{chunk}", f"{prefix}{name}", offset=CHUNK * (chunk % 2), length=CHUNK,
            checksum=checksum,
        )  # fmt: skip
    session.commit("virtual")
    return repository


def _check(repository: Repository) -> Sequence[Problem]:
    return what_matters(repository.check(virtual=True))


def test_sources_that_are_there_are_fine(tmp_path: Path) -> None:
    report = _create(tmp_path).check(virtual=True)

    assert what_matters(report) == []
    assert (report.counts.virtual_refs, report.counts.virtual_sources) == (4, 2)


def test_a_source_that_is_gone_is_found(tmp_path: Path) -> None:
    repository = _create(tmp_path)
    (tmp_path / "two").unlink()

    assert what_matters(repository.check()) == []
    (problem,) = _check(repository)

    assert problem.object == f"{tmp_path.as_uri()}/two"
    assert (problem.path, problem.coordinate) == (PATH, (3,))
    assert "gone" in problem.what


def test_a_source_that_is_too_short_is_found(tmp_path: Path) -> None:
    repository = _create(tmp_path)
    (tmp_path / "one").write_bytes(bytes(2 * CHUNK - 1))

    (problem,) = _check(repository)

    assert "too short" in problem.what


def test_a_source_that_was_changed_is_found(tmp_path: Path) -> None:
    repository = _create(tmp_path, datetime(2100, 1, 1, tzinfo=UTC))
    later = datetime(2101, 1, 1, tzinfo=UTC).timestamp()
    os.utime(tmp_path / "one", (later, later))

    (problem,) = _check(repository)

    assert problem.object.endswith("/one")
    assert "the virtual chunk has changed" in problem.what


def test_a_source_of_another_etag_is_found(tmp_path: Path) -> None:
    repository = _create(tmp_path, '"an etag of old"')

    problems = _check(repository)

    assert [each.object.rpartition("/")[2] for each in problems] == ["one", "two"]
    assert "its etag was to be an etag of old" in problems[0].what


def test_locations_outside_of_all_containers_are_a_warning(tmp_path: Path) -> None:
    repository = _create(tmp_path)
    config = repository.config
    config.clear_virtual_chunk_containers()
    other = Repository.open(repository.storage).reopen(config)
    other.save_config()

    (problem,) = what_matters(frazil.Repository.open(repository.storage).check())

    assert (problem.severity, problem.path) == (Severity.WARNING, PATH)
    assert "no container of the configuration holds 2 locations" in problem.what


def test_a_container_that_is_not_authorized_is_noted_once(tmp_path: Path) -> None:
    repository = Repository.open(_create(tmp_path).storage)

    report = repository.check(virtual=True)

    assert what_matters(report) == []
    assert len([each for each in report.notes if "not authorized" in each.what]) == 1


def test_what_is_no_location_is_found(tmp_path: Path) -> None:
    repository = _create(tmp_path)
    node, _ = read_node(repository, PATH)
    refs: Refs = {(n,): VirtualRef("no scheme", 0, 1) for n in range(4)}
    rewrite_manifest(repository, PATH, lambda manifest: with_refs(manifest, node, refs))

    (problem,) = what_matters(frazil.Repository.open(repository.storage).check())

    assert (problem.severity, problem.path) == (Severity.ERROR, PATH)
    assert "it has no scheme" in problem.what


def test_a_virtual_chunk_that_does_not_decode_is_found_by_a_deep_check(tmp_path: Path) -> None:
    repository = _create(tmp_path)
    node, _ = read_node(repository, PATH)
    location = f"{tmp_path.as_uri()}/one"
    refs: Refs = {(n,): VirtualRef(location, 0, CHUNK - (n == 2)) for n in range(4)}
    rewrite_manifest(repository, PATH, lambda manifest: with_refs(manifest, node, refs))

    assert _check(repository) == []
    assert what_matters(repository.check(deep=True)) == []
    report = repository.check(deep=True, virtual=True)

    (problem,) = what_matters(report)
    assert (problem.object, problem.path, problem.coordinate) == (location, PATH, (2,))
    assert "can't be decoded" in problem.what
    assert report.counts.decoded_chunks == 4


def test_a_source_that_is_gone_is_reported_once_by_a_deep_check(tmp_path: Path) -> None:
    repository = _create(tmp_path)
    (tmp_path / "two").unlink()

    (problem,) = what_matters(repository.check(deep=True, virtual=True))

    assert "gone" in problem.what
