"""What `benchmarks/storage.py` measures of commits to one disk: ours, and beside blind writers."""

import tempfile
import time

from benchmarks.support.measuring import Figures, answer
from frazil.storage.local import Durability, LocalStorage
from tests.faults.committing import KEY, commit, commit_beside_blind_writers, lost_lines
from tests.faults.processes import run_at_once


def commit_ours(processes: int, commits: int, durability: str) -> Figures:
    """Our processes alone."""
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(folder, durability=Durability(durability))
        storage.create(KEY, b"")
        start = time.perf_counter()
        acknowledged = run_at_once(processes, commit, storage, commits)
        seconds = time.perf_counter() - start
        lost = lost_lines(storage, acknowledged)
    return {"acknowledged": sum(map(len, acknowledged)), "lost": len(lost), "seconds": seconds}


def commit_mixed(ours: int, blind: int, commits: int, think_seconds: float) -> Figures:
    """Ours and blind writers at once; which commits of either are in place at the end."""
    with tempfile.TemporaryDirectory() as folder:
        # Not durable, so that both go at the same pace: the blind ones never wait for the disk.
        storage = LocalStorage(folder, durability=Durability.NONE)
        storage.create(KEY, b"")
        acknowledged = run_at_once(
            ours + blind, commit_beside_blind_writers, storage, ours, commits, think_seconds
        )
        lost = lost_lines(storage, acknowledged)
    return {
        "ours": ours * commits,
        "lost of ours": sum(line.startswith("ours") for line in lost),
        "blind": blind * commits,
        "lost of blind": sum(line.startswith("blind") for line in lost),
    }


if __name__ == "__main__":
    answer({"commit_ours": commit_ours, "commit_mixed": commit_mixed})
