"""From V1 to V2: what the new object says, and what becomes of the old files."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from frazil import (
    ConflictError,
    Repository,
    RepositoryConfig,
    SessionStateError,
    upgrade_icechunk_repository,
)
from frazil.format.repo_info import Update
from frazil.maintenance.migrate import OldRepository, plan_migration
from tests.repositories import create, values_of
from tests.unit.maintenance.histories import SECOND, id_of, line, names_of, snapshot
from tests.unit.maintenance.repositories import ALL_NATIVE, keys, messages, write, write_chunk

LINE = line("root a b")
SIDE = snapshot("s", "a", 5)
NOW = 100 * SECOND
MILLISECOND = SECOND // 1000


def old_repository(
    branches: dict[str, str] | None = None,
    tags: dict[str, str] | None = None,
    deleted_tags: dict[str, str] | None = None,
) -> OldRepository:
    def refs(names: dict[str, str] | None) -> dict[str, object]:
        return {name: id_of(tip) for name, tip in (names or {}).items()}

    return OldRepository(
        branches=refs(branches or {"main": "b"}),  # type: ignore[arg-type]
        tags=refs(tags),  # type: ignore[arg-type]
        deleted_tags=refs(deleted_tags),  # type: ignore[arg-type]
        snapshots={each.id: each for each in (*LINE, SIDE)},
        config=None,
    )


def describe(updates: Sequence[Update]) -> list[tuple[str, str, float]]:
    """Updates, oldest first: what, of what, and when in milliseconds."""
    return [
        (
            type(update.kind).__name__,
            getattr(update.kind, "name", getattr(update.kind, "branch", "")),
            update.updated_at / MILLISECOND,
        )
        for update in reversed(updates)
    ]


def test_history_is_made_up_from_snapshots() -> None:
    info = plan_migration(old_repository(), NOW)

    assert describe(info.latest_updates) == [
        ("RepoInitialized", "", 0),
        ("NewCommit", "main", 1000),
        ("NewCommit", "main", 2000),
        ("RepoMigrated", "", 100_000),
    ]
    assert names_of(frozenset(info.snapshots)) == "a b root s"
    assert info.status.set_at == 0


def test_refs_appear_after_the_snapshots_that_they_point_to() -> None:
    old = old_repository({"main": "b", "side": "s"}, {"t": "a"}, {"gone": "b"})

    assert describe(plan_migration(old, NOW).latest_updates)[1:-1] == [
        ("NewCommit", "main", 1000),
        ("TagCreated", "t", 1001),
        ("NewCommit", "main", 2000),
        ("TagCreated", "gone", 2001),
        ("TagDeleted", "gone", 2002),
        ("NewCommit", "side", 5000),
        ("BranchCreated", "side", 5001),
    ]


def test_no_two_updates_have_one_time() -> None:
    tags = dict.fromkeys("zyx", "a")

    times = [
        time for *_, time in describe(plan_migration(old_repository(tags=tags), NOW).latest_updates)
    ]

    assert times == sorted(set(times))
    assert times[2:5] == [1001, 1001.001, 1001.002]


def test_of_a_deleted_tag_that_led_nowhere_else_no_time_is_known() -> None:
    info = plan_migration(old_repository(deleted_tags={"gone": "lost"}), NOW)

    assert ("TagDeleted", "gone", 2) in describe(info.latest_updates)
    assert info.deleted_tags == {"gone"}


def test_a_migration_comes_last_whatever_the_clocks_said() -> None:
    info = plan_migration(old_repository(), 0)

    assert describe(info.latest_updates)[-1] == ("RepoMigrated", "", 2000.001)


@pytest.fixture
def v1_repository() -> Repository:
    """A V1 repository with refs, a deleted tag, and a snapshot that nothing leads to."""
    repository = create(config=ALL_NATIVE, spec_version=1)
    first = write(repository, 1)
    second = write_chunk(repository, 0, 2)
    repository.create_branch("side", first)
    repository.create_tag("tag", first)
    repository.create_tag("gone", second)
    repository.delete_tag("gone")
    repository.writable_session("side").flush("flushed")
    return repository


def test_the_new_object_is_all_that_is_written(v1_repository: Repository) -> None:
    before = keys(v1_repository)

    migrated = upgrade_icechunk_repository(v1_repository, dry_run=False)

    gone = before - keys(migrated)
    assert keys(migrated) - before == {"repo"}
    assert {key for key in before if key.startswith("refs/")} | {"config.yaml"} == gone


def test_old_files_can_stay(v1_repository: Repository) -> None:
    before = keys(v1_repository)

    migrated = upgrade_icechunk_repository(
        v1_repository, dry_run=False, delete_unused_v1_files=False
    )

    assert keys(migrated) == before | {"repo"}
    assert Repository.open(migrated.storage).spec_version == 2


def test_refs_snapshots_and_configuration_come_along(v1_repository: Repository) -> None:
    tips = {name: v1_repository.lookup_branch(name) for name in ("main", "side")}

    migrated = upgrade_icechunk_repository(v1_repository, dry_run=False)

    assert {name: migrated.lookup_branch(name) for name in migrated.list_branches()} == tips
    assert migrated.list_tags() == {"tag"}
    assert migrated.config.inline_chunk_threshold_bytes == 0
    assert len(migrated.inspect_repo_info()["snapshots"]) == 3
    assert values_of(migrated.readonly_session("main"), "numbers") == [2, 2, *[1] * 6]


def test_only_what_was_saved_is_configuration(v1_repository: Repository) -> None:
    other = v1_repository.reopen(RepositoryConfig(inline_chunk_threshold_bytes=77))

    migrated = upgrade_icechunk_repository(other, dry_run=False)

    assert migrated.config.inline_chunk_threshold_bytes == 0


def test_the_repository_goes_on(v1_repository: Repository) -> None:
    migrated = upgrade_icechunk_repository(v1_repository, dry_run=False)

    write_chunk(migrated, 1, 3)
    released = migrated.expire_snapshots(datetime.now(UTC) + timedelta(seconds=2))
    summary = migrated.garbage_collect(datetime.now(UTC) + timedelta(seconds=2))

    assert len(released) == 1
    assert summary.snapshots_deleted == 2
    assert messages(migrated, branch="main") == ["chunk 1 is 3", "Repository initialized"]


def test_the_old_object_can_no_longer_be_used(v1_repository: Repository) -> None:
    upgrade_icechunk_repository(v1_repository, dry_run=False)

    with pytest.raises(RuntimeError, match="upgrade_icechunk_repository"):
        v1_repository.list_branches()
    with pytest.raises(RuntimeError, match="upgrade_icechunk_repository"):
        _ = v1_repository.config


def test_a_dry_run_changes_nothing(v1_repository: Repository) -> None:
    before = keys(v1_repository)

    same = upgrade_icechunk_repository(v1_repository, dry_run=True)

    assert same.spec_version == v1_repository.spec_version == 1
    assert keys(v1_repository) == before


def test_a_v2_repository_can_not_be_migrated() -> None:
    for is_dry_run in (True, False):
        with pytest.raises(SessionStateError) as raised:
            upgrade_icechunk_repository(create(), dry_run=is_dry_run)
        assert raised.value.kind == "invalid-repository-migration"


def test_of_two_who_migrate_one_is_late(v1_repository: Repository) -> None:
    other = Repository.open(v1_repository.storage)
    upgrade_icechunk_repository(v1_repository, dry_run=False, delete_unused_v1_files=False)

    with pytest.raises(ConflictError):
        upgrade_icechunk_repository(other, dry_run=False)


def test_nothing_at_once_is_refused(v1_repository: Repository) -> None:
    with pytest.raises(ValueError, match="prefetch_concurrency"):
        upgrade_icechunk_repository(v1_repository, dry_run=True, prefetch_concurrency=0)
