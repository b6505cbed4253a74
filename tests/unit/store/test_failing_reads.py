"""Reads of many chunks one of which fails: the process that ends then says so once.

Each runs in a process of its own, which ends while the other reads are still under way.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.core import codec_pipeline

from frazil import Repository, RepositoryConfig
from frazil.config import (
    ManifestConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
)
from frazil.storage import (
    AnyObjectStoreConfig,
    http_store,
    local_filesystem_storage,
    local_filesystem_store,
)
from frazil.testing.object_server import (
    NO_CONDITION,
    Delay,
    Description,
    ObjectServer,
    Rule,
    ServerOptions,
)
from frazil.virtual import VirtualChunkContainer

CHUNKS = 500
CHUNK_BYTES = 64
Reader = subprocess.Popen[str]
PIPELINE = "zarr.core.codec_pipeline.{}CodecPipeline"
"""The class of a codec pipeline; the oldest supported Zarr has no fused one."""
PIPELINES = [
    name for name in ("Batched", "Fused") if hasattr(codec_pipeline, f"{name}CodecPipeline")
]

SCRIPT = """
import sys
import frazil, zarr
from frazil.storage.wrappers import LatencyStorage

def open_store(wrap=lambda storage: storage):
    storage = wrap(frazil.local_filesystem_storage(sys.argv[1]))
    is_file = sys.argv[-1].startswith("file:")
    access = frazil.credentials.LocalFileSystemAccess if is_file else frazil.credentials.HttpAccess
    granted = dict.fromkeys(sys.argv[2:], access)
    repo = frazil.Repository.open(storage, authorize_virtual_chunk_access=granted)
    return repo.readonly_session("main").store

def open_far_store():
    return open_store(lambda storage: LatencyStorage(storage, read_latency_ms=10))

def open_dataset(**options):
    import xarray
    return xarray.open_dataset(open_store(), engine="frazil", drop_variables=["time"], **options)

for read in {reads}:
    try:
        eval(read)
    except (Exception, KeyboardInterrupt) as error:
        print(type(error).__name__, error)
"""
READS = {
    "zarr": """zarr.open_array(open_store(), path="values")[:]""",
    "far": """zarr.open_array(open_far_store(), path="values")[:]""",
    "xarray": """open_dataset().load()""",
    "dask": """open_dataset(chunks={"time": 160}).compute(scheduler="threads", num_workers=4)""",
}


def write_repository(
    folder: Path,
    prefix: str,
    store: AnyObjectStoreConfig,
    locations: Sequence[str],
    modified_at: datetime | None = None,
) -> Path:
    """Write a repository whose arrays `values` and `time` have a virtual chunk for each location.

    Each of its manifests has ten references.
    """
    config = RepositoryConfig.default()
    config.set_virtual_chunk_container(VirtualChunkContainer(prefix, store))
    tens = (ManifestSplitCondition.AnyArray(), ((ManifestSplitDimCondition.Any(), 10),))
    config.manifest = ManifestConfig(splitting=ManifestSplittingConfig((tens,)))
    path = folder / "repository"
    repository = Repository.create(local_filesystem_storage(str(path)), config=config)
    repository.save_config()
    session = repository.writable_session("main")
    root = zarr.group(session.store)
    count = len(locations)
    for name in ("values", "time"):
        root.create_array(
            name,
            shape=(count * CHUNK_BYTES // 4,),
            chunks=(CHUNK_BYTES // 4,),
            dtype="f4",
            compressors=None,
            filters=None,
            dimension_names=["time"],
        )
        session.store.set_virtual_refs_arr(
            name,
            (count,),
            locations,
            np.arange(count, dtype="u8") * CHUNK_BYTES,
            np.full(count, CHUNK_BYTES, "u8"),
            checksum=modified_at,
        )
    session.commit("virtual chunks")
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file with the bytes of all chunks."""
    source = tmp_path / "source.bin"
    source.write_bytes(bytes(CHUNKS * CHUNK_BYTES))
    return source


@pytest.fixture
def local(source: Path) -> Path:
    """A repository whose chunks are in a file that has not changed since."""
    return write_repository(
        source.parent,
        f"file://{source.parent}/",
        local_filesystem_store(str(source.parent)),
        [f"file://{source}"] * CHUNKS,
        datetime.fromtimestamp(source.stat().st_mtime + 1, UTC),
    )


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer(ServerOptions(access_keys=None)) as running:
        yield running


@pytest.fixture
def slow(server: ObjectServer) -> str:
    """The URL prefix of a slow server that has an object for all chunks."""
    data = bytes(CHUNKS * CHUNK_BYTES)
    server.buckets["bucket"].put("source", data, Description(), NO_CONDITION)
    server.inject([Rule(Delay(0.1), key="source")])
    return f"{server.url}/bucket/"


def start(path: Path, *authorized: str, reads: Sequence[str], pipeline: str = "Batched") -> Reader:
    """Start a process that tries some reads, one after the other, and ends."""
    script = SCRIPT.format(reads=[READS[name] for name in reads])
    return subprocess.Popen(
        [sys.executable, "-c", script, path, *authorized],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ZARR_CODEC_PIPELINE__PATH": PIPELINE.format(pipeline)},
    )


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_reads_without_authorization_say_so_once(local: Path, pipeline: str) -> None:
    reads = ["dask", "xarray", "far", "zarr"]

    out, err = start(local, reads=reads, pipeline=pipeline).communicate()

    assert err == ""
    assert len(out.splitlines()) == len(reads)
    for line in out.splitlines():
        assert line.startswith("InvalidInputError the virtual chunk container at file://")
        assert "authorize_virtual_chunk_access=" in line


@pytest.mark.parametrize("arguments", [["show", "{}", "values"], ["report", "{}", "-o", "{}.html"]])
def test_commands_without_authorization_name_the_option_in_few_lines(
    local: Path, arguments: list[str]
) -> None:
    command = [each.format(local) for each in arguments]

    found = subprocess.run(
        [sys.executable, "-m", "frazil.cli", *command], capture_output=True, text=True, check=True
    )

    (line,) = found.stderr.splitlines()
    assert f"run it again with --authorize file://{local.parent}/, or" in line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda source: source.unlink(), "ObjectNotFoundError can't read a virtual chunk of "),
        (
            lambda source: os.utime(source, (2e9, 2e9)),
            "StorageError the checksum of the object owning the virtual chunk has changed (",
        ),
    ],
    ids=["missing", "modified"],
)
def test_a_source_that_is_not_what_it_was_is_named_once(
    local: Path, source: Path, change: Callable[[Path], None], message: str
) -> None:
    change(source)

    out, err = start(local, f"file://{source.parent}/", reads=["zarr"]).communicate()

    assert err == ""
    assert out.startswith(f"{message}file://{source}")


def test_a_missing_source_is_named_once_while_slow_reads_are_under_way(
    tmp_path: Path, slow: str
) -> None:
    locations = [f"{slow}missing", *([f"{slow}source"] * (CHUNKS - 1))]
    path = write_repository(tmp_path, slow, http_store(), locations)

    out, err = start(path, slow, reads=["zarr", "far"]).communicate()

    assert err == ""
    message = f"ObjectNotFoundError can't read a virtual chunk of {slow}missing"
    assert [line.startswith(message) for line in out.splitlines()] == [True, True]


def test_an_interrupted_read_leaves_nothing_on_the_event_loop(
    tmp_path: Path, slow: str, server: ObjectServer
) -> None:
    path = write_repository(tmp_path, slow, http_store(), [f"{slow}source"] * CHUNKS)
    reader = start(path, slow, reads=["far"])

    while len(server.requests) < 10 and reader.poll() is None:
        time.sleep(0.01)
    reader.send_signal(signal.SIGINT)
    out, err = reader.communicate()

    assert err == ""
    assert out.startswith("KeyboardInterrupt")
