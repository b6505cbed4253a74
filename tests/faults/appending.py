"""Writers that each fill their own part of one array, one commit an element.

`append` runs in a process or thread of its own, and gives the messages of the commits that it was told
are in place.
"""

import os
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

import zarr

from frazil import ConflictDetector, ConflictError, Repository, Session
from frazil.config import RepositoryConfig, RepoUpdateRetryConfig
from frazil.storage import StorageRetriesSettings
from frazil.storage.interface import Storage

WRITERS = 8
COMMITS = 200 if "FRAZIL_DEEP" in os.environ else 20
"""Of each writer."""

CONFIG = RepositoryConfig(
    inline_chunk_threshold_bytes=0,
    repo_update_retries=RepoUpdateRetryConfig(StorageRetriesSettings(10_000, 1, 20)),
)
"""No chunk is inline, so that each has a file to miss; and tests have less time than people."""


def create(storage: Storage, spec_version: int) -> Repository:
    """A repository with an array that has a place for every commit."""
    repository = Repository.create(storage, CONFIG, spec_version=spec_version)
    with repository.transaction("main", message="an array") as store:
        zarr.create_array(
            store,
            name="numbers",
            shape=(WRITERS * COMMITS,),
            chunks=(1,),
            dtype="i4",
            fill_value=-1,
        )
    return repository


def append(number: int, _: Barrier | None, storage: Storage, commits: int = COMMITS) -> list[str]:
    """Every other writer lets the library try again, the rest does it by hand."""
    repository = Repository.open(storage, CONFIG)
    acknowledged = []
    for count in range(commits):
        message = f"{number}.{count}"
        place = number * COMMITS + count
        if number % 2:
            commit_with_rebase(repository, place, message)
        else:
            commit_by_hand(repository, place, message)
        acknowledged.append(message)
    return acknowledged


def commit_with_rebase(repository: Repository, place: int, message: str) -> None:
    session = repository.writable_session("main")
    write(session, place)
    session.commit(message, rebase_with=ConflictDetector())


def commit_by_hand(repository: Repository, place: int, message: str) -> None:
    while True:
        session = repository.writable_session("main")
        write(session, place)
        try:
            session.commit(message)
        except ConflictError:
            continue
        return


def write(session: Session, place: int) -> None:
    zarr.open_array(session.store, path="numbers")[place] = place


def append_until_killed(storage: Storage, number: int, progress: Connection) -> None:
    """Say of each commit that it is in place."""
    repository = Repository.open(storage, CONFIG)
    for count in range(COMMITS):
        message = f"{number}.{count}"
        commit_by_hand(repository, number * COMMITS + count, message)
        progress.send(message)
