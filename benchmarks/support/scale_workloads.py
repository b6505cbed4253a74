"""An ingest of many small files with many chunks each, in a fresh process."""

import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

import frazil
import frazil.spark
from benchmarks.support.measuring import Figures, answer
from benchmarks.support.spark_starting import measure_memory, start

STEPS, CHUNKS_A_STEP = 5, 100
REFERENCES_A_FILE = STEPS * CHUNKS_A_STEP


def make_files(folder: str, count: int) -> Figures:
    """Files that follow each other in time: copies of one with other times in it."""
    begin = time.perf_counter()
    template = Path(folder, "template")
    offset = _write_template(template)
    data = bytearray(template.read_bytes())
    archive = Path(folder, "archive")
    archive.mkdir(exist_ok=True)
    for number in range(count):
        times = np.arange(number * STEPS, (number + 1) * STEPS, dtype="<i8").tobytes()
        data[offset : offset + len(times)] = times
        (archive / f"file-{number:06}.nc").write_bytes(data)
    return {"seconds": time.perf_counter() - begin}


def _write_template(path: Path) -> int:
    """A file as the library of NetCDF lays it out; gives the place of its times."""
    side = round(CHUNKS_A_STEP**0.5)
    scales = {"time": np.arange(STEPS), "y": np.arange(side) * 1.0, "x": np.arange(side) * 1.0}
    with h5py.File(path, "w") as file:
        for name, values in scales.items():
            file[name] = values
            file[name].make_scale(name)
        file["time"].attrs["units"] = "days since 2000-01-01"
        made = file.create_dataset("t", (STEPS, side, side), "f4", chunks=(1, 1, 1))
        made[...] = np.arange(made.size).reshape(made.shape)
        made.attrs["units"] = "K"
        for axis, name in enumerate(scales):
            made.dims[axis].attach_scale(file[name])
        return int(file["time"].id.get_offset())


def ingest(folder: str, count: int) -> Figures:
    """One job over the first so many files."""
    spark, startup_seconds = start()
    archive = sorted(Path(folder, "archive").iterdir())[:count]
    repository = frazil.Repository.create(
        frazil.local_filesystem_storage(f"{folder}/repository-{count}-{time.time_ns()}")
    )
    begin = time.perf_counter()
    report = frazil.spark.ingest(
        spark, [str(each) for each in archive], repository, append_dim="time"
    )
    seconds = time.perf_counter() - begin
    memory = measure_memory()
    _verify(repository, report.snapshot_id, count)
    spark.stop()
    return {"seconds": seconds, "startup_seconds": startup_seconds, **memory}


def _verify(repository: frazil.Repository, snapshot_id: str | None, count: int) -> None:
    assert snapshot_id is not None
    (commit, *_) = repository.ancestry(branch="main")
    assert commit.metadata["frazil_job"]["references"] == count * REFERENCES_A_FILE


WORKLOADS: dict[str, Callable[..., Figures]] = {"make_files": make_files, "ingest": ingest}

if __name__ == "__main__":
    answer(WORKLOADS)
