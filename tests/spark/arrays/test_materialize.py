"""Virtual chunks become the repository's own."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from frazil import Repository
from frazil.config import RepositoryConfig
from frazil.credentials import LocalFileSystemAccess, containers_credentials
from frazil.errors import NodeNotFoundError, StorageError
from frazil.spark import Job, materialize, rechunk
from frazil.spark.arrays.materialize import split
from frazil.storage import local_filesystem_storage, local_filesystem_store
from frazil.virtual import VirtualChunkContainer
from tests.command_line import make_frazil

pytestmark = pytest.mark.xdist_group("spark")

VALUES = np.arange(5000, dtype="<i4")
CHUNK = 500


@pytest.fixture
def virtual(tmp_path: Path) -> Repository:
    """Arrays whose chunks are in a file, but for one that is the repository's and one that is not."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "values.bin").write_bytes(b"header" + VALUES.tobytes())
    prefix = f"file://{folder}/"
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    config.set_virtual_chunk_container(
        VirtualChunkContainer(prefix, local_filesystem_store(str(folder)), "here")
    )
    authorized = containers_credentials({prefix: LocalFileSystemAccess})
    storage = local_filesystem_storage(str(tmp_path / "repo"))
    repo = Repository.create(storage, config, authorized)
    session = repo.writable_session("main")
    for name in ("data/a", "data/b", "c"):
        array = zarr.create_array(
            session.store, name=name, shape=(6000,), chunks=(CHUNK,), dtype="<i4", compressors=None,
            dimension_names=["x"],
        )  # fmt: skip
        for number in range(10):
            session.store.set_virtual_ref(
                f"{name}/c/{number}", "vcc://here/values.bin",
                offset=6 + 4 * CHUNK * number, length=4 * CHUNK,
            )  # fmt: skip
        array[CHUNK : 2 * CHUNK] = -1
    session.commit("refer")
    return repo


EXPECTED = np.concatenate([VALUES, np.zeros(1000, "<i4")])
EXPECTED[CHUNK : 2 * CHUNK] = -1


def read(repo: Repository, path: str) -> list[int]:
    store = repo.readonly_session("main").store
    found: list[int] = np.asarray(zarr.open_array(store, path=path, mode="r")[...]).tolist()
    return found


def test_virtual_chunks_are_copied(
    spark: SparkSession, virtual: Repository, tmp_path: Path
) -> None:
    report = materialize(virtual, ["data"], job=Job(task_bytes=5000, run_on="spark"), spark=spark)

    assert report.chunks == 2 * 9
    assert report.bytes_written == report.chunks * CHUNK * 4
    assert len(virtual.readonly_session("main").all_virtual_chunk_locations()) == 9
    (tmp_path / "source" / "values.bin").unlink()
    assert read(virtual, "data/a") == read(virtual, "data/b") == EXPECTED.tolist()
    with pytest.raises(StorageError):
        read(virtual, "c")


def test_what_is_native_already_is_no_commit(spark: SparkSession, virtual: Repository) -> None:
    materialize(virtual, spark=spark)

    assert materialize(virtual, spark=spark).snapshot_id is None
    assert virtual.readonly_session("main").all_virtual_chunk_locations() == []


def test_virtual_arrays_get_other_chunks_of_their_own(
    spark: SparkSession, virtual: Repository, tmp_path: Path
) -> None:
    rechunk(virtual, "c", (1000,), job=Job(task_bytes=5000, run_on="spark"), spark=spark)

    (tmp_path / "source" / "values.bin").unlink()
    assert read(virtual, "c") == EXPECTED.tolist()


def test_a_source_that_is_gone_leaves_the_branch(
    spark: SparkSession, virtual: Repository, tmp_path: Path
) -> None:
    tip = virtual.lookup_branch("main")
    (tmp_path / "source" / "values.bin").unlink()

    with pytest.raises(StorageError, match=r"values\.bin"):
        materialize(virtual, job=Job(run_on="spark"), spark=spark)

    assert virtual.lookup_branch("main") == tip


def test_a_path_that_is_not_there_is_refused(spark: SparkSession, virtual: Repository) -> None:
    with pytest.raises(NodeNotFoundError):
        materialize(virtual, ["nowhere"], spark=spark)


@given(st.lists(st.integers(1, 100), min_size=1), st.integers(1, 300))
def test_parts_have_all_chunks_in_order(lengths: list[int], most: int) -> None:
    parts = split(np.array(lengths, np.uint64), most)

    assert [row for part in parts for row in range(*part)] == list(range(len(lengths)))
    for start, stop in parts:
        assert stop - start == 1 or sum(lengths[start:stop]) <= most + max(lengths)


@pytest.mark.usefixtures("spark", "virtual")
def test_a_command_reads_virtual_chunks_with_leave_only(tmp_path: Path) -> None:
    run, place = make_frazil(), tmp_path / "repo"
    command = ("rechunk", place, "c", "--chunks", "x=1000", "--to", "wide")

    refused = run(*command)
    done = run(*command, "--authorize", "*", "--json")

    assert refused.code != 0
    assert "--authorize" in refused.err
    assert done.code == 0
    assert read(Repository.open(local_filesystem_storage(str(place))), "wide") == EXPECTED.tolist()
