"""The ops log and its pages."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.format.ids import FIRST_SNAPSHOT_ID as FIRST
from frazil.format.repo_info import GCRan, RepoInfo, RepoInitialized, RepoStatus, TagCreated, Update
from frazil.protocols.protocol import MAIN, UpdatePolicy, read_clock, time_after
from frazil.protocols.repo_changes import Change
from frazil.protocols.v2_protocol import backup_name, read_updates, record_update
from frazil.storage.memory import MemoryStorage
from tests.protocol_repositories import create_repository, open_repository

EMPTY = RepoInfo({MAIN: FIRST}, {}, frozenset(), {}, RepoStatus(), ())


def record_all(
    first: Sequence[Update], pages: Sequence[int]
) -> tuple[RepoInfo, dict[str, RepoInfo]]:
    """Record one update for each page size; gives the repo info and all its backups."""
    info = replace(EMPTY, latest_updates=tuple(first))
    backups = {}
    for number, page in enumerate(pages):
        name = f"backup {number}"
        backups[name] = info
        info = record_update(
            info, TagCreated(str(number)), 1000 * (number + 1), backup=name,
            num_updates_per_file=page,
        )  # fmt: skip
    return info, backups


@given(st.lists(st.integers(0, 5)))
def test_a_log_of_any_pages_reads_back_complete_and_in_order(pages: list[int]) -> None:
    info, backups = record_all([Update(RepoInitialized(), 0)], pages)

    log = list(read_updates(info, backups.get))

    tags = [TagCreated(str(number)) for number in range(len(pages))]
    assert [update.kind for update in log] == [*tags[::-1], RepoInitialized()]
    names = [f"backup {number}" for number in range(len(pages))]
    assert [update.backup_path for update in log] == [None, *names[::-1]]
    assert not pages or len(info.latest_updates) <= max(1, *pages)


@given(st.integers(1, 5), st.integers(1, 30))
def test_a_page_that_is_full_leaves_out_one_update_for_each_new_one(page: int, count: int) -> None:
    info, _ = record_all([Update(RepoInitialized(), 0)], [page] * count)

    assert len(info.latest_updates) == min(page, count + 1)
    expected = None if count < page else f"backup {count - page}"
    assert info.repo_before_updates == expected


def test_updates_that_never_had_a_backup_stay() -> None:
    made_up = [Update(TagCreated(name), 0) for name in "dcba"]

    info, backups = record_all(made_up, [2])

    assert [update.backup_path for update in info.latest_updates] == [
        None, "backup 0", None, None, None,
    ]  # fmt: skip
    assert info.repo_before_updates is None
    info, backups = record_all(made_up, [2, 2])
    log = list(read_updates(info, backups.get))
    assert [update.kind for update in log] == [TagCreated(name) for name in "10dcba"]


def test_a_lost_backup_ends_the_log() -> None:
    info, backups = record_all([Update(RepoInitialized(), 0)], [2] * 9)
    del backups["backup 5"]

    log = list(read_updates(info, backups.get))

    assert [update.backup_path for update in log] == [None, "backup 8", "backup 7", "backup 6"]


def test_a_log_that_leads_back_to_itself_ends() -> None:
    info = replace(EMPTY, latest_updates=(Update(RepoInitialized(), 0),), repo_before_updates="a")

    log = list(read_updates(info, {"a": info}.get))

    assert len(log) == 2


def test_backups_are_read_only_when_the_log_gets_there() -> None:
    info, backups = record_all([Update(RepoInitialized(), 0)], [3] * 9)
    read: list[str] = []

    def find_backup(name: str) -> RepoInfo:
        read.append(name)
        return backups[name]

    log = read_updates(info, find_backup)
    for _ in range(3):
        next(log)
    assert read == []
    next(log)

    assert read == ["backup 6"]


def test_newer_backups_are_listed_first() -> None:
    assert backup_name(0, "ID") == "repo.32503680000000.ID"
    assert backup_name(1_794_784_866_485_316_000, "ID") == "repo.30708895133515.ID"


@pytest.mark.parametrize("page", [1, 2, 5])
def test_the_log_goes_on_in_files(page: int) -> None:
    storage = MemoryStorage()
    repository = create_repository(storage, UpdatePolicy(num_updates_per_repo_info_file=page))
    for number in range(12):
        repository.create_tag(str(number), FIRST)

    log = list(open_repository(storage).ops_log())

    assert [update.kind for update in log[:-1]] == [TagCreated(str(n)) for n in range(11, -1, -1)]
    backups = {info.key.removeprefix("overwritten/") for info in storage.list("overwritten/")}
    assert {update.backup_path for update in log[1:]} == backups
    storage.delete_many([f"overwritten/{name}" for name in backups])
    assert [update.kind for update in open_repository(storage).ops_log()] == [
        update.kind for update in log[:page]
    ]


# Times


def test_the_clock_has_whole_microseconds() -> None:
    assert read_clock() % 1000 == 0


def test_a_clock_that_is_behind_makes_the_smallest_step() -> None:
    assert time_after(5_000, 9_000) == 9_000
    assert time_after(5_000, 4_000) == 6_000
    assert time_after(5_000, 5_000) == 6_000
    assert time_after(5_999, 0) == 6_000


def test_updates_follow_one_from_the_future() -> None:
    storage = MemoryStorage()
    repository = create_repository(storage)
    future = read_clock() + 10**15

    def come_from_the_future(info: RepoInfo) -> Change:
        updates = (replace(info.latest_updates[0], updated_at=future),)
        return Change(replace(info, latest_updates=updates), GCRan())

    repository.update(come_from_the_future)

    repository.create_tag("v1", FIRST)
    repository.create_tag("v2", FIRST)

    times = [update.updated_at for update in repository.ops_log()]
    assert times == [future + 3000, future + 2000, future + 1000, future]
