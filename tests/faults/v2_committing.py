"""Commits to one V2 repository on a disk; runs in each of several processes."""

from multiprocessing.synchronize import Barrier

from frazil.protocols.protocol import UpdatePolicy
from frazil.storage.interface import Storage
from tests.protocol_repositories import commit_until_it_lands, open_repository

POLICY = UpdatePolicy(
    max_tries=1000,
    initial_backoff_seconds=0.001,
    max_backoff_seconds=0.05,
    num_updates_per_repo_info_file=20,
)


def commit_many(number: int, _: Barrier, storage: Storage, commits: int) -> list[str]:
    """Commit on top of whatever is there, and tag each commit; gives the names that are in place."""
    repository = open_repository(storage, POLICY)
    acknowledged = []
    for count in range(commits):
        name = f"{number}.{count}"
        repository.create_tag(name, commit_until_it_lands(repository, name))
        acknowledged.append(name)
    return acknowledged
