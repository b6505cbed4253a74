"""What `benchmarks/format.py` measures of the official library: one workload a process."""

from datetime import UTC, datetime
from pathlib import Path

import icechunk
import numpy as np
import zarr

from benchmarks.support.measuring import Figures, answer, timed

FILES = 10_000


def commit(kind: str, references: int, folder: str) -> Figures:
    """Set virtual references, which is not measured, and commit them."""
    prefix = "s3://archive/"
    config = icechunk.RepositoryConfig.default()
    store = icechunk.s3_store(region="us-east-1")
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))
    storage = icechunk.local_filesystem_storage(folder)
    repository = icechunk.Repository.create(storage, config)
    session = repository.writable_session("main")
    grid = (references // 100, 10, 10)
    zarr.create_array(session.store, name="a", shape=grid, chunks=(1, 1, 1), dtype="f4")
    session.commit("array")
    session = repository.writable_session("main")
    random = np.random.default_rng(7)
    offsets = np.arange(references) % 100 * 40_000 + random.integers(0, 999, references)
    files = references if kind == "distinct" else min(FILES, references)
    names = [
        f"{prefix}model/2024/{file % 12:02}/run_{file:08}/surface_temperature.nc"
        for file in range(files)
    ]
    session.store.set_virtual_refs_arr(
        "a",
        grid,
        [names[index * files // references] for index in range(references)],
        offsets.astype(np.uint64),
        random.integers(30_000, 40_000, references).astype(np.uint64),
        checksum=datetime.fromtimestamp(1_700_000_000, UTC),
    )
    _, figures = timed(lambda: session.commit("references"))
    sizes = (path.stat().st_size for path in (Path(folder) / "manifests").iterdir())
    return {**figures, "file_bytes": max(sizes)}


def look_up(folder: str, references: int) -> Figures:
    """Find one chunk in a manifest that has not been read yet."""
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(folder))
    session = repository.readonly_session("main")
    chunk, figures = timed(lambda: session.chunk_type("/a", [references // 200, 3, 7]))
    assert chunk != icechunk.ChunkType.uninitialized
    return figures


if __name__ == "__main__":
    answer({"commit": commit, "look_up": look_up})
