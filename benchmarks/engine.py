"""Repositories, sessions and the Zarr store, beside the official library and Zarr's own local store.

    python -m benchmarks.engine [--rounds 5]

- *open* is a small repository, opened two hundred times.
- *first read* is from nothing to the bytes of one chunk of an array of a million references.
- *exists* and *getsize* are two thousand calls for chunks of that array.
- *commit* is the commit alone; the chunks were set before.
- Frazil's commits bring everything to the disk before the branch moves; the official ones leave that to
  the operating system, as Frazil's do where it says *unsynced* (`Durability.NONE`).
- *write* and *read* are whole arrays through Zarr, with the commit; files are in the page cache.
- Peak memory is by how much the work raised the process's memory.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.support.measuring import (
    Figures,
    find_official_python,
    medians,
    print_table,
    run_child,
)

WORKLOADS = "benchmarks.support.engine_workloads"
OURS, UNSYNCED, OFFICIAL, PLAIN = "frazil", "frazil unsynced", "icechunk", "zarr"
SHAPES = ((4000, 1024, 1), (256, 512 * 1024, 1), (4096, 16 * 1024, 64))
"""Number of chunks, bytes of a chunk, and chunks of a shard."""


@dataclass(frozen=True)
class Line:
    """One workload over rounds."""

    title: str
    rounds: dict[str, list[Figures]] = field(default_factory=dict)

    def add(self, library: str, figures: Figures) -> None:
        """Keep the figures of a round."""
        self.rounds.setdefault(library, []).append(figures)

    def cells(self) -> list[str]:
        """A row of the table: seconds, ratios, memory."""
        found = {library: medians(rounds) for library, rounds in self.rounds.items()}
        ours, official = found[OURS], found[OFFICIAL]
        unsynced, plain = found.get(UNSYNCED), found.get(PLAIN)
        return [
            self.title,
            f"{ours['seconds']:.3f}",
            f"{official['seconds']:.3f}",
            f"{official['seconds'] / ours['seconds']:.1f} ×",
            "–" if unsynced is None else f"{unsynced['seconds']:.3f}",
            "–" if unsynced is None else f"{official['seconds'] / unsynced['seconds']:.1f} ×",
            "–" if plain is None else f"{plain['seconds']:.3f}",
            "–" if plain is None else f"{ours['seconds'] / plain['seconds']:.2f} ×",
            f"{ours['peak_bytes'] / 1e6:.0f}",
            f"{official['peak_bytes'] / 1e6:.0f}",
        ]


COLUMNS = (
    "what", "Frazil s", "official s", "faster by", "unsynced s", "faster by", "LocalStore s",
    "of LocalStore", "peak MB", "official MB",
)  # fmt: skip


def measure_large(rounds: int, pythons: dict[str, str]) -> Iterator[Line]:
    """An array of a million references, unsplit and split."""
    for split, names in (
        (None, ("open", "read_first_chunk", "exists", "getsize", "commit_one_chunk")),
        (10, ("read_first_chunk", "commit_one_chunk")),
    ):
        suffix = "" if split is None else ", 100 manifests"
        lines = {name: Line(name.replace("_", " ") + suffix) for name in names}
        for _ in range(rounds):
            for library, python in pythons.items():
                with tempfile.TemporaryDirectory() as folder:
                    where = {"library": library, "folder": folder}
                    run_child(python, WORKLOADS, workload="prepare_large", split=split, **where)
                    for name, line in lines.items():
                        if library != UNSYNCED or name.startswith("commit"):
                            line.add(library, run_child(python, WORKLOADS, workload=name, **where))
        yield from lines.values()


def measure_chunks(rounds: int, pythons: dict[str, str]) -> Iterator[Line]:
    """Whole arrays through both of Zarr's pipelines."""
    for chunks, size, shard in SHAPES:
        for pipeline in ("batched", "fused"):
            sharded = f" in {chunks // shard} shards" if shard > 1 else ""
            title = f"{chunks} × {size // 1024} KiB{sharded}, {pipeline}"
            write, read = Line(f"write {title}"), Line(f"read {title}")
            for _ in range(rounds):
                for library, python in {**pythons, PLAIN: sys.executable}.items():
                    with tempfile.TemporaryDirectory() as folder:
                        what = {
                            "library": library, "folder": folder, "chunks": chunks, "size": size,
                            "shard": shard, "pipeline": pipeline,
                        }  # fmt: skip
                        write.add(
                            library, run_child(python, WORKLOADS, workload="write_chunks", **what)
                        )
                        if library != UNSYNCED:
                            read.add(
                                library,
                                run_child(python, WORKLOADS, workload="read_chunks", **what),
                            )
            yield from (write, read)


def measure_small_chunks(rounds: int, pythons: dict[str, str]) -> Line:
    """Many new chunks that are kept in the manifest."""
    line = Line("commit 10 k small chunks")
    for _ in range(rounds):
        for library, python in pythons.items():
            with tempfile.TemporaryDirectory() as folder:
                where = {"library": library, "folder": folder}
                line.add(
                    library, run_child(python, WORKLOADS, workload="commit_small_chunks", **where)
                )
    return line


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    pythons = {OURS: sys.executable, UNSYNCED: sys.executable, OFFICIAL: find_official_python()}
    lines = [
        *measure_large(rounds, pythons),
        measure_small_chunks(rounds, pythons),
        *measure_chunks(rounds, pythons),
    ]
    print_table("Engine", COLUMNS, [line.cells() for line in lines])


if __name__ == "__main__":
    main()
