"""Processes that commit to one V2 repository on a disk at once."""

from pathlib import Path

import pytest

from frazil.format.repo_info import NewCommit, RepoInitialized, TagCreated
from frazil.storage.local import Durability, LocalStorage
from tests.faults.processes import run_at_once
from tests.faults.v2_committing import POLICY, commit_many
from tests.protocol_repositories import create_repository, messages

PROCESSES = 4
COMMITS = 25


@pytest.mark.parametrize("durability", Durability)
def test_every_update_of_many_processes_is_in_the_ops_log_once(
    tmp_path: Path, durability: Durability
) -> None:
    storage = LocalStorage(tmp_path / "repository", durability=durability)
    repository = create_repository(storage, POLICY)

    acknowledged = run_at_once(PROCESSES, commit_many, storage, COMMITS)

    names = sorted(name for each in acknowledged for name in each)
    log = list(repository.ops_log())
    assert len(names) == PROCESSES * COMMITS
    assert sorted(messages(repository)) == names
    assert sorted(u.kind.name for u in log if isinstance(u.kind, TagCreated)) == names
    commits = [u.kind.new_snap_id for u in log if isinstance(u.kind, NewCommit)]
    tip = repository.lookup_branch("main")
    assert commits == [info.id for info in repository.ancestry(tip)][:-1]
    assert len(log) == 2 * len(names) + 1
    assert log[-1].kind == RepoInitialized()
    times = [update.updated_at for update in log]
    assert times == sorted(set(times), reverse=True)
    assert list(storage.list_temporary_files()) == []
