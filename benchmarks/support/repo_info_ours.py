"""What `benchmarks/repo_info.py` measures of ours, and the repository that both work on."""

import random
from pathlib import Path

import numpy as np
import zarr

from benchmarks.support.measuring import Figures, answer, medians, timed
from frazil import Repository
from frazil.format.files import encode_repo_info, encode_snapshot, encode_transaction_log
from frazil.format.header import Dialect
from frazil.format.ids import FIRST_SNAPSHOT_ID, NodeId, SnapshotId
from frazil.format.metadata import NO_METADATA, Metadata, encode_json
from frazil.format.repo_info import (
    NewCommit,
    RepoInfo,
    RepoInitialized,
    RepoStatus,
    SnapshotInfo,
    Update,
)
from frazil.format.snapshot import Node, Snapshot, TransactionLog
from frazil.storage.local import Durability, LocalStorage

REPEATS = 15
START = 1_700_000_000 * 10**9
UPDATES = 1000


def make(folder: str, snapshots: int) -> Figures:
    """Write a repository with so many snapshots, of which only the newest has its file."""
    info = _make_repo_info(snapshots)
    tip = info.snapshots[info.branches["main"]]
    root_json = encode_json({"zarr_format": 3, "node_type": "group", "attributes": {}})
    root = Node(NodeId(b"rootroot"), "/", root_json)
    snapshot = Snapshot(tip.id, None, tip.flushed_at, tip.message, tip.metadata, {"/": root})
    log = TransactionLog(tip.id)
    files = {
        f"snapshots/{tip.id}": encode_snapshot(snapshot, Dialect.V2),
        f"transactions/{tip.id}": encode_transaction_log(log, Dialect.V2),
        "repo": encode_repo_info(info),
    }
    for key, data in files.items():
        path = Path(folder) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return {}


def _make_repo_info(snapshots: int) -> RepoInfo:
    """One line; every third commit says who made it."""
    chance = random.Random(7)
    ids = [FIRST_SNAPSHOT_ID, *(SnapshotId(chance.randbytes(12)) for _ in range(snapshots - 1))]
    infos = {}
    for number, id_ in enumerate(ids):
        metadata = Metadata({"number": number, "author": "someone"})
        infos[id_] = SnapshotInfo(
            id_,
            ids[number - 1] if number else None,
            START + number * 10**9,
            f"commit number {number}",
            metadata if number % 3 == 0 else NO_METADATA,
        )
    newest = [infos[id_] for id_ in reversed(ids[1:])][: UPDATES - 1]
    commits = [
        Update(NewCommit("main", each.id), each.flushed_at, f"repo.{each.id}" if n else None)
        for n, each in enumerate(newest)
    ]
    return RepoInfo(
        branches={"main": ids[-1]},
        tags={},
        deleted_tags=frozenset(),
        snapshots=infos,
        status=RepoStatus(set_at=START),
        latest_updates=(*commits, Update(RepoInitialized(), START, "repo.first")),
    )


def open_repository(folder: str) -> Figures:
    """Open and look up a branch, several times."""

    def work() -> str:
        return Repository.open(LocalStorage(folder)).lookup_branch("main")

    work()
    return medians([timed(work)[1] for _ in range(REPEATS)])


def commit(folder: str) -> Figures:
    """Commit nothing, several times, each time from a session of its own."""
    repository = Repository.open(LocalStorage(folder, durability=Durability.NONE))
    return medians([_commit(repository, str(number)) for number in range(REPEATS)])


def _commit(repository: Repository, message: str) -> Figures:
    session = repository.writable_session("main")
    return timed(lambda: session.commit(message, allow_empty=True))[1]


def add_arrays(folder: str, count: int) -> Figures:
    """Commit small arrays, fifty a group, each with a chunk."""
    repository = Repository.open(LocalStorage(folder, durability=Durability.NONE))
    session = repository.writable_session("main")
    root = zarr.open_group(session.store)
    values = np.add.outer(np.arange(30.0), np.arange(60.0))
    for number in range(count):
        root.create_array(
            f"group-{number // 50:02}/array-{number % 50:02}",
            data=values,
            dimension_names=("lat", "lon"),
            attributes={"units": "K", "long_name": f"variable number {number}"},
        )
    session.commit("arrays")
    return {}


if __name__ == "__main__":
    answer({"make": make, "arrays": add_arrays, "open": open_repository, "commit": commit})
