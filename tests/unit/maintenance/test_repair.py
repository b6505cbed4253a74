"""Repairs: each is followed by a check that finds nothing."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil import Repository
from frazil.format.files import decode_transaction_log
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.repo_info import RepoInfo, SnapshotInfo
from frazil.format.snapshot import TransactionLog
from frazil.maintenance.repair import repair_repository
from frazil.storage.local import LocalStorage
from tests.damages import (
    ALL_DIALECTS,
    ancestor,
    chunk_keys,
    create_sample,
    cut,
    delete,
    log_key,
    manifest_key,
    reopen,
    rewrite_log,
    rewrite_repo,
    tip,
)

WITH_LOGS = [each for each in ALL_DIALECTS if each not in (Dialect.DRAFT, Dialect.ALPHA_A)]


def _keys(repository: Repository) -> dict[str, int]:
    return {info.key: info.size_bytes for info in repository.storage.list()}


def _read_log(repository: Repository, id: SnapshotId) -> TransactionLog:
    data = bytes(repository.storage.get(log_key(repository, id)))
    return decode_transaction_log(data, id).value


# Transaction logs


@pytest.mark.parametrize("dialect", WITH_LOGS)
@pytest.mark.parametrize("generation", [0, 1, 2])
def test_a_lost_log_is_rebuilt_as_it_was(dialect: Dialect, generation: int) -> None:
    repository = create_sample(dialect)
    id = ancestor(repository, generation)
    before = _read_log(repository, id)
    delete(repository, log_key(repository, id))

    outcome = repository.repair(repository.check())

    assert [each.is_repaired for each in outcome.outcomes] == [True]
    assert _read_log(repository, id) == before
    assert reopen(repository).check().problems == ()


def test_the_log_of_the_first_snapshot_is_rebuilt() -> None:
    repository = create_sample()
    first = ancestor(repository, 3)
    delete(repository, log_key(repository, first))

    repository.repair(repository.check())

    assert reopen(repository).check().problems == ()
    assert _read_log(repository, first) == TransactionLog(first)


@pytest.mark.parametrize("dialect", [Dialect.V1, Dialect.V2, Dialect.ALPHA_H])
def test_a_damaged_log_is_replaced(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    before = _read_log(repository, tip(repository))
    cut(repository, log_key(repository, tip(repository)), 45)

    repository.repair(repository.check())

    assert _read_log(repository, tip(repository)) == before
    assert reopen(repository).check().problems == ()


def test_a_log_of_moves_and_deletions_is_rebuilt() -> None:
    repository = create_sample()
    session = repository.rearrange_session("main")
    session.move("/group", "/elsewhere")
    moved = SnapshotId.parse(session.commit("moved"))
    session = repository.writable_session("main")
    root = zarr.open_group(session.store)
    root.attrs["new"] = "attribute"
    del root["small"]
    root.create_array("other", shape=(2,), chunks=(1,), dtype="int8")[:] = np.array([1, 2])
    edited = SnapshotId.parse(session.commit("edited"))
    before = [_read_log(repository, moved), _read_log(repository, edited)]
    for id in (moved, edited):
        delete(repository, log_key(repository, id))

    repository.repair(repository.check())

    assert [_read_log(repository, moved), _read_log(repository, edited)] == before
    assert reopen(repository).check().problems == ()


def test_a_log_that_is_sound_again_is_left_alone() -> None:
    repository = create_sample()
    key = log_key(repository, tip(repository))
    data = bytes(repository.storage.get(key))
    delete(repository, key)
    report = repository.check()
    repository.storage.put(key, data)

    (outcome,) = repository.repair(report).outcomes

    assert not outcome.is_repaired
    assert bytes(repository.storage.get(key)) == data


def test_a_log_whose_manifests_are_lost_can_not_be_rebuilt() -> None:
    repository = create_sample()
    delete(repository, log_key(repository, tip(repository)))
    delete(repository, manifest_key(repository, "/small"))
    repository = reopen(repository)

    (outcome,) = repository.repair(repository.check()).outcomes

    assert not outcome.is_repaired
    assert "could not be repaired" in outcome.what


def test_wrong_ids_and_orders_of_logs_are_one_repair() -> None:
    repository = create_sample()
    before = _read_log(repository, tip(repository))
    rewrite_log(repository, tip(repository), lambda log: replace(log, id=ancestor(repository, 2)))

    outcome = repository.repair(repository.check())

    assert len(outcome.repaired) == 1
    assert _read_log(repository, tip(repository)) == before


# Snapshots without files


def _list_ghost(repository: Repository, ghost: SnapshotId) -> None:
    def add(info: RepoInfo) -> RepoInfo:
        parent = info.snapshots[info.branches["main"]]
        return info.with_snapshots(
            SnapshotInfo(ghost, parent.id, parent.flushed_at + 1000, "flushed")
        )

    rewrite_repo(repository, add)


def test_a_listed_snapshot_without_a_file_is_dropped() -> None:
    repository = create_sample()
    ghost = SnapshotId(b"never there!")
    _list_ghost(repository, ghost)

    outcome = repository.repair(repository.check())

    assert len(outcome.repaired) == 1
    assert ghost not in repository.protocol.read_repo_info().snapshots
    assert reopen(repository).check().problems == ()


def test_a_snapshot_that_got_a_ref_meanwhile_is_not_dropped() -> None:
    repository = create_sample()
    ghost = SnapshotId(b"never there!")
    _list_ghost(repository, ghost)
    report = repository.check()
    repository.create_tag("kept", str(ghost))

    (outcome,) = repository.repair(report).outcomes

    assert not outcome.is_repaired
    assert ghost in repository.protocol.read_repo_info().snapshots


# Temporary files


def test_temporary_files_are_removed(tmp_path: Path) -> None:
    repository = create_sample(storage=LocalStorage(tmp_path))
    temporary = tmp_path / "chunks/000G40R40M30E209185G#5764607523034234881"
    temporary.write_bytes(b"half")
    time = (datetime.now(UTC) - timedelta(days=1)).timestamp()
    os.utime(temporary, (time, time))

    repository.repair(repository.check())

    assert not temporary.exists()
    assert repository.check().problems == ()


# All of them


def _damage_much(repository: Repository) -> None:
    delete(repository, log_key(repository, tip(repository)))
    _list_ghost(repository, SnapshotId(b"never there!"))


def test_a_dry_run_changes_nothing() -> None:
    repository = create_sample()
    _damage_much(repository)
    before = _keys(repository)

    outcome = repository.repair(repository.check(), dry_run=True)

    assert outcome.is_dry_run
    assert len(outcome.repaired) == 2
    assert _keys(repository) == before


def test_repairs_delete_nothing_that_is_reachable() -> None:
    repository = create_sample()
    _damage_much(repository)
    before = _keys(repository)

    repository.repair(repository.check())

    after = _keys(repository)
    assert before.keys() <= after.keys()
    assert all(after[key] == size for key, size in before.items() if key != "repo")


def test_what_no_repair_is_named_for_stays() -> None:
    repository = create_sample()
    delete(repository, chunk_keys(repository)[0])
    report = repository.check()

    assert repository.repair(report).outcomes == ()
    assert repository.check() == report


def test_a_repository_that_is_read_only_is_not_repaired() -> None:
    repository = create_sample()
    delete(repository, log_key(repository, tip(repository)))
    report = repository.check()
    repository.set_status(frazil.RepoStatus(frazil.RepoAvailability.read_only))

    with pytest.raises(frazil.ReadOnlyError):
        repair_repository(repository.protocol, report)


def test_what_was_repaired_is_shown_to_people_and_to_programs() -> None:
    repository = create_sample()
    _damage_much(repository)

    outcome = repository.repair(repository.check())

    assert "written anew" in str(outcome)
    assert "transactions/" in outcome._repr_html_()
    reported = json.loads(json.dumps(outcome.to_dict()))
    assert [each["is_repaired"] for each in reported["outcomes"]] == [True, True]
