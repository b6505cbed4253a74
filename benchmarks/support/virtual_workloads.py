"""References to chunks in ten thousand files; the same lines run on Frazil and on the official library.

Every workload is a function of the library's name and a folder, run in a fresh process.
"""

import asyncio
import importlib
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import zarr

from benchmarks.support.measuring import Figures, answer, timed

FILES = 10_000
LENGTH = 1000
PREFIX = "s3://archive/"


def _repository(ic: Any, folder: str) -> Any:
    config = ic.RepositoryConfig.default()
    store = ic.s3_store(region="us-east-1")
    config.set_virtual_chunk_container(ic.VirtualChunkContainer(PREFIX, store))
    shutil.rmtree(f"{folder}/repo", ignore_errors=True)
    return ic.Repository.create(ic.local_filesystem_storage(f"{folder}/repo"), config)


def set_references(library: str, folder: str, references: int, form: str) -> Figures:
    """Setting and committing; `form` is the call that both have, or the one of columns."""
    ic = importlib.import_module(library)
    session = _repository(ic, folder).writable_session("main")
    per_file = references // FILES
    zarr.create_array(
        session.store,
        name="a",
        shape=(FILES, per_file),
        chunks=(1, 1),
        dtype="u1",
        compressors=None,
    )
    texts = [f"{PREFIX}model/run-{number // 100:03}/file-{number:06}.nc" for number in range(FILES)]
    offsets = np.tile(np.arange(per_file, dtype=np.uint64) * LENGTH, FILES)
    lengths = np.full(references, LENGTH, np.uint64)
    if form == "columns":
        places = np.indices((FILES, per_file), np.uint32).reshape(2, -1).T
        codes = np.repeat(np.arange(FILES, dtype=np.int32), per_file)

        def work() -> None:
            session.store.set_virtual_columns("a", places, (codes, texts), offsets, lengths)
            session.commit("references")
    else:
        locations = [text for text in texts for _ in range(per_file)]

        def work() -> None:
            grid = (FILES, per_file)
            session.store.set_virtual_refs_arr("a", grid, locations, offsets, lengths)
            session.commit("references")

    return timed(work)[1]


def find_reference(library: str, folder: str, references: int) -> Figures:
    """From opening the repository to one chunk's size."""
    ic = importlib.import_module(library)
    assert ic.Repository, "what is loaded when it is first used is loaded now"

    def work() -> Any:
        repository = ic.Repository.open(ic.local_filesystem_storage(f"{folder}/repo"))
        store = repository.readonly_session("main").store
        return asyncio.run(store.getsize(f"a/c/{FILES // 2}/{references // FILES // 2}"))

    found, figures = timed(work)
    assert found == LENGTH
    return figures


WORKLOADS: dict[str, Callable[..., Figures]] = {
    "set_references": set_references,
    "find_reference": find_reference,
}

if __name__ == "__main__":
    answer(WORKLOADS)
