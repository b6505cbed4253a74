"""What `benchmarks/storage.py` measures of the official library: commits to one local repository."""

import multiprocessing
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import icechunk

from benchmarks.support.measuring import Figures, answer


def commit_official(processes: int, commits: int) -> Figures:
    """Processes that commit to `main`, each again after a conflict until it has all its commits."""
    with tempfile.TemporaryDirectory() as folder:
        icechunk.Repository.create(icechunk.local_filesystem_storage(folder))
        start = time.perf_counter()
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, mp_context=context) as pool:
            runs = [pool.submit(_commit, folder, number, commits) for number in range(processes)]
            acknowledged = [id for run in runs for id in run.result()]
        seconds = time.perf_counter() - start
        repository = icechunk.Repository.open(icechunk.local_filesystem_storage(folder))
        kept = {snapshot.id for snapshot in repository.ancestry(branch="main")}
    lost = sum(id not in kept for id in acknowledged)
    return {"acknowledged": len(acknowledged), "lost": lost, "seconds": seconds}


def _commit(folder: str, number: int, commits: int) -> list[str]:
    warnings.simplefilter("ignore")
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(folder))
    acknowledged = []
    for count in range(commits):
        while True:
            session = repository.writable_session("main")
            try:
                acknowledged.append(session.commit(f"{number}.{count}", allow_empty=True))
                break
            except icechunk.ConflictError:
                continue
    return acknowledged


if __name__ == "__main__":
    answer({"commit_official": commit_official})
