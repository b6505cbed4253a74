"""Reading one group of a file, again and again, in a fresh process."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from benchmarks.support.measuring import Figures, answer, timed
from benchmarks.support.pipeline_files import list_archive, make_archive
from frazil.virtual import virtualizarr as foreign
from frazil.virtual.hdf5 import read_hdf5
from frazil.virtual.source_formats import HDF5, FoundGroup, Loading, SourceStores

_TIMES = 50
_LOADING = Loading(frozenset(), 1024)


def ours(folder: str, chunks: int) -> Figures:
    """By Frazil's reader."""
    path = _make_file(folder, chunks)
    size = path.stat().st_size
    return _measure(
        lambda stores: read_hdf5(stores, path.as_uri(), size, b"", "", _LOADING),
    )


def theirs(folder: str, chunks: int) -> Figures:
    """By VirtualiZarr's parser."""
    path = _make_file(folder, chunks)
    size = path.stat().st_size
    return _measure(
        lambda stores: foreign.read_group(stores, path.as_uri(), size, HDF5, "", _LOADING)
    )


def _measure(read: Callable[[SourceStores], FoundGroup]) -> Figures:
    stores = SourceStores()
    read(stores)

    def work() -> None:
        for _ in range(_TIMES):
            read(stores)

    figures = timed(work)[1]
    return {**figures, "cpu_seconds": figures["cpu_seconds"] / _TIMES}


def _make_file(folder: str, chunks: int) -> Path:
    if not chunks:
        make_archive(folder, 1, 24, 48)
        return Path(list_archive(folder)[0])
    path = Path(folder, "file.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=np.arange(chunks * 4.0), chunks=(4,), compression="gzip")
    return path


WORKLOADS: dict[str, Callable[..., Figures]] = {"ours": ours, "theirs": theirs}

if __name__ == "__main__":
    answer(WORKLOADS)
