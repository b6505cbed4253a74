"""What upkeep is asked to do; the same lines run on Frazil and on the official library.

Every workload gets a copy of its own of what `upkeep_preparing` has prepared.
"""

import importlib
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np

from benchmarks.support.measuring import Figures, answer, timed

COLUMNS = 1000
"""Chunks along the second axis of an array of virtual references."""
ROWS_IN_A_MANIFEST = 20


def _library(name: str) -> Any:
    library = importlib.import_module(name)
    assert library.Repository, "what is loaded when it is first used is loaded now"
    return library


def _open(name: str, folder: str, config: Any = None) -> Any:
    library = _library(name)
    return library.Repository.open(library.local_filesystem_storage(folder), config)


# A long history


def garbage_collect(library: str, folder: str) -> Figures:
    """Find what stays, and delete the other half."""
    repo = _open(library, folder)
    before = _count_chunks(folder)
    found, figures = timed(lambda: repo.garbage_collect(datetime.now(UTC)))
    assert found.chunks_deleted == before // 2 == _count_chunks(folder)
    return figures


def _count_chunks(folder: str) -> int:
    return sum(1 for _ in os.scandir(f"{folder}/chunks"))


def chunk_storage_stats(library: str, folder: str) -> Figures:
    """The bytes of all chunks of the branch."""
    repo = _open(library, folder)
    found, figures = timed(repo.chunk_storage_stats)
    assert found.native_bytes == _count_chunks(folder) // 2
    return figures


# Many references


def set_references(session: Any, start: int, rows: int) -> None:
    """Virtual references for all chunks of some rows."""
    count = rows * COLUMNS
    locations = [f"file:///nowhere/source-{number // 100}.nc" for number in range(count)]
    offsets = np.arange(count, dtype=np.uint64) % 100
    session.store.set_virtual_refs_arr(
        "a", (rows, COLUMNS), locations, offsets, np.ones(count, np.uint64), arr_offset=(start, 0)
    )


def _ids(repo: Any) -> Iterator[str]:
    """The newest first."""
    return (info.id for info in repo.ancestry(branch="main"))


def diff(library: str, folder: str, rows: int, form: str) -> Figures:
    """What the last commit changed: a list for each chunk, or Frazil's columns in place of it."""
    repo = _open(library, folder)
    tip, base, *_ = _ids(repo)

    def work() -> int:
        found = repo.diff(from_snapshot_id=base, to_snapshot_id=tip)
        if form == "columns" and library == "frazil":
            return len(found.chunk_coordinates["/a"])
        return len(found.updated_chunks["/a"])

    count, figures = timed(work)
    assert count == rows * COLUMNS
    return figures


def rebase(library: str, folder: str, rows: int) -> Figures:
    """A session that sets the first half anew, onto the commit that set the other half."""
    repo = _open(library, folder)
    tip, base, *_ = _ids(repo)
    repo.reset_branch("main", base)
    session = repo.writable_session("main")
    repo.reset_branch("main", tip)
    set_references(session, 0, rows)
    _, figures = timed(lambda: session.rebase(_library(library).ConflictDetector()))
    assert session.snapshot_id == tip
    return figures


def rewrite_manifests(library: str, folder: str) -> Figures:
    """All references of one manifest into many, with the commit."""
    ic = _library(library)
    config = _open(library, folder).config
    sizes = {
        ic.ManifestSplitCondition.AnyArray(): {
            ic.ManifestSplitDimCondition.Axis(0): ROWS_IN_A_MANIFEST
        }
    }
    config.manifest = ic.ManifestConfig(splitting=ic.ManifestSplittingConfig.from_dict(sizes))
    repo = _open(library, folder, config)
    return timed(lambda: repo.rewrite_manifests("split", branch="main"))[1]


WORKLOADS: dict[str, Callable[..., Figures]] = {
    "garbage_collect": garbage_collect,
    "chunk_storage_stats": chunk_storage_stats,
    "diff": diff,
    "rebase": rebase,
    "rewrite_manifests": rewrite_manifests,
}

if __name__ == "__main__":
    answer(WORKLOADS)
