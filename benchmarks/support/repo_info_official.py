"""What `benchmarks/repo_info.py` measures of the official library."""

import icechunk

from benchmarks.support.measuring import Figures, answer, medians, timed

REPEATS = 15


def open_repository(folder: str) -> Figures:
    """Open and look up a branch, several times."""

    def work() -> str:
        storage = icechunk.local_filesystem_storage(folder)
        return str(icechunk.Repository.open(storage).lookup_branch("main"))

    work()
    return medians([timed(work)[1] for _ in range(REPEATS)])


def commit(folder: str) -> Figures:
    """Commit nothing, several times, each time from a session of its own."""
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(folder))
    return medians([_commit(repository, str(number)) for number in range(REPEATS)])


def _commit(repository: icechunk.Repository, message: str) -> Figures:
    session = repository.writable_session("main")
    return timed(lambda: session.commit(message, allow_empty=True))[1]


if __name__ == "__main__":
    answer({"open": open_repository, "commit": commit})
