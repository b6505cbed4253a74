"""Bringing back a `repo` object from its backups."""

import pytest

from frazil import Repository
from frazil.errors import FormatError, SessionStateError
from frazil.format.files import decode_repo_info
from frazil.maintenance.check import check_storage
from frazil.maintenance.repair import restore_repo
from frazil.protocols.v2_protocol import newest_time
from tests.damages import (
    create,
    create_sample,
    cut,
    delete,
    reopen,
    what_matters,
)


def test_a_damaged_repo_is_restored_from_its_newest_backup() -> None:
    repository = create_sample()
    before = repository.protocol.read_repo_info()
    repository.set_metadata({"the last": "update"})
    damaged = bytes(repository.storage.get("repo"))[:70]
    repository.storage.put("repo", damaged)

    restored = restore_repo(repository.storage)

    assert Repository.open(repository.storage).protocol.read_repo_info() == before
    assert what_matters(reopen(repository).check()) == []
    assert restored.damaged is not None
    assert bytes(repository.storage.get(restored.damaged)) == damaged


def test_a_lost_repo_is_restored() -> None:
    repository = create_sample()
    delete(repository, "repo")

    restore_repo(repository.storage)

    assert what_matters(reopen(repository).check()) == []


def test_backups_that_can_not_be_read_are_passed_over() -> None:
    repository = create_sample()
    keys = [info.key for info in repository.storage.list("overwritten/")]
    infos = {key: decode_repo_info(bytes(repository.storage.get(key))).value for key in keys}
    times = {newest_time(info): key for key, info in infos.items()}  # names have milliseconds
    *_, second, newest = [times[time] for time in sorted(times)]
    cut(repository, newest)
    cut(repository, "repo")

    assert restore_repo(repository.storage).backup == second
    assert reopen(repository).check().is_healthy


def test_a_repo_that_can_be_read_is_not_restored() -> None:
    with pytest.raises(SessionStateError, match="can be read"):
        restore_repo(create_sample().storage)


def test_without_backups_there_is_nothing_to_restore_from() -> None:
    repository = create()
    cut(repository, "repo")

    with pytest.raises(FormatError, match="none of the backups"):
        restore_repo(repository.storage)


def test_an_open_repository_restores_its_repo_by_a_report() -> None:
    repository = create_sample()
    cut(repository, "repo")
    report = check_storage(repository.storage)

    outcome = repository.repair(report)

    assert len(outcome.repaired) == 1
    assert reopen(repository).check().is_healthy
