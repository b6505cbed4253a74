"""Copies of repositories: complete, incremental, partial, and never over somebody else's work."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil import Repository, upgrade_icechunk_repository
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    JobCancelledError,
    NodeNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
    StorageError,
    ThrottledError,
)
from frazil.spark import Job
from frazil.storage import MemoryStorage, Storage, local_filesystem_storage
from frazil.storage.wrappers import Request, Verb
from tests.generations import unpack_repositories
from tests.spark.copied_samples import (
    ALL_NATIVE,
    Watched,
    contents,
    create,
    fill,
    history,
    objects,
    refs,
    values,
)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def source(request: pytest.FixtureRequest) -> Repository:
    """A repository of either generation."""
    return create(MemoryStorage(), request.param)


@pytest.fixture(scope="module")
def generations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Repositories of all generations."""
    folder = tmp_path_factory.mktemp("generations")
    unpack_repositories(folder)
    return folder


@pytest.fixture
def target() -> Storage:
    """An empty place."""
    return MemoryStorage()


def later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


# Complete


def test_a_copy_has_the_same_objects_under_the_same_names(
    source: Repository, target: Storage
) -> None:
    report = frazil.copy(source, target)

    assert objects(target) == objects(source.storage)
    found = Repository.open(target)
    assert refs(found) == refs(source)
    assert history(found) == history(source)
    assert found.check(deep=True).is_healthy
    assert report.objects == len(objects(target))
    assert report.bytes_copied == sum(map(len, objects(target).values()))
    assert "new snapshots  3" in str(report)


def test_the_configuration_and_deleted_tags_go_along(source: Repository, target: Storage) -> None:
    source.create_tag("gone", source.lookup_tag("v1"))
    source.delete_tag("gone")
    source.save_config()

    frazil.copy(source, target)

    found = Repository.open(target)
    assert found.config.inline_chunk_threshold_bytes == 0
    with pytest.raises(AlreadyExistsError):
        found.create_tag("gone", found.lookup_branch("main"))


def test_garbage_stays_behind(source: Repository, target: Storage) -> None:
    wanted = objects(source.storage)
    before = source.lookup_branch("main")
    fill(source, slice(0, 3), 9)
    source.reset_branch("main", before)

    frazil.copy(source, target)

    assert objects(target) == wanted


# Again


def test_a_second_copy_takes_what_is_new(source: Repository, target: Storage) -> None:
    frazil.copy(source, target)
    unchanged = frazil.copy(source, target)
    fill(source, slice(3, 5), 7)
    source.create_tag("v2", source.lookup_branch("main"))

    report = frazil.copy(source, target)

    assert (unchanged.has_changed, unchanged.new_snapshots) == (False, 0)
    assert (report.has_changed, report.new_snapshots) == (True, 1)
    # Two chunks, a manifest, a log, a snapshot; before V2 all snapshots, because they may be rewritten.
    assert report.objects == (5 if source.spec_version == 2 else 8)
    assert report.present == 0
    assert refs(Repository.open(target)) == refs(source)
    assert objects(target) == objects(source.storage)


def test_refs_that_go_and_move_in_the_source_do_so_in_the_copy(
    source: Repository, target: Storage
) -> None:
    frazil.copy(source, target)
    source.delete_branch("dev")
    source.delete_tag("v1")
    source.reset_branch("main", history(source)[1])
    source.create_branch("other", history(source)[0])

    frazil.copy(source, target)

    assert refs(Repository.open(target)) == refs(source)
    assert Repository.open(target).check().is_healthy


def test_history_that_expires_in_the_source_goes_in_the_copy(target: Storage) -> None:
    source = create(MemoryStorage())
    frazil.copy(source, target)
    source.delete_branch("dev")
    source.delete_tag("v1")
    source.expire_snapshots(later())
    source.garbage_collect(later())
    fill(source, slice(0, 1), 4)

    frazil.copy(source, target)

    found = Repository.open(target)
    assert history(found) == history(source)
    assert len(history(found)) == 3
    assert found.check(deep=True).is_healthy
    found.garbage_collect(later())
    assert objects(target) == objects(source.storage)


def test_a_copy_of_what_has_expired_altogether_is_brought_up_to_date(target: Storage) -> None:
    source = create(MemoryStorage())
    source.delete_tag("v1")
    source.delete_branch("dev")
    frazil.copy(source, target)
    fill(source, slice(0, 1), 4)
    source.expire_snapshots(later())
    source.garbage_collect(later())

    frazil.copy(source, target)

    assert history(Repository.open(target)) == history(source)
    np.testing.assert_array_equal(values(Repository.open(target)), values(source))


# Broken off, and others meanwhile


def test_half_a_copy_is_no_repository_and_the_next_attempt_goes_on(
    source: Repository, target: Storage
) -> None:
    puts: list[str] = []

    def fail_late(request: Request) -> None:
        if request.verb is Verb.PUT:
            puts.extend(request.keys)
            if len(puts) > 12:
                raise ThrottledError("enough")

    with pytest.raises(ThrottledError):
        frazil.copy(source, Watched(target, fail_late))
    with pytest.raises(RepositoryNotFoundError):
        Repository.open(target)
    report = frazil.copy(source, target)

    assert report.present >= 12
    assert report.present + report.objects >= len(objects(source.storage))
    assert objects(target) == objects(source.storage)


def test_an_object_of_another_size_is_copied_again(source: Repository, target: Storage) -> None:
    key = next(key for key in objects(source.storage) if key.startswith("chunks/"))
    target.put(key, b"half")

    frazil.copy(source, target)

    assert objects(target) == objects(source.storage)


def test_a_commit_during_the_copy_is_not_in_it(source: Repository, target: Storage) -> None:
    wanted, seen = contents(source.readonly_session("main")), history(source)

    lock = Lock()

    def commit_once(request: Request) -> None:
        is_chunk = request.verb is Verb.GET and request.keys[0].startswith("chunks/")
        with lock:
            if is_chunk and len(history(source)) == len(seen):
                fill(source, slice(0, 20), 8)

    frazil.copy(Watched(source.storage, commit_once), target)

    assert len(history(source)) == len(seen) + 1
    found = Repository.open(target)
    assert history(found) == seen
    assert contents(found.readonly_session("main")) == wanted
    assert found.check(deep=True).is_healthy


def test_chunks_that_are_collected_at_the_target_meanwhile_are_copied_again() -> None:
    source, target = create(MemoryStorage()), MemoryStorage()
    frazil.copy(source, target)
    temporary = fill(source, slice(0, 2), 6)
    # Of an earlier attempt, and so older than the lease of this one.
    new = objects(source.storage).keys() - objects(target).keys()
    for key in new:
        target.put(key, source.storage.get(key))
    collected: list[bool] = []

    def collect_once(request: Request) -> None:
        is_backup = any(key.startswith("overwritten/") for key in request.keys)
        if is_backup and not collected:
            collected.append(True)
            Repository.open(target).garbage_collect(later())

    frazil.copy(source, Watched(target, collect_once))

    assert collected
    assert history(Repository.open(target))[0] == temporary
    assert Repository.open(target).check(deep=True).is_healthy
    assert objects(target) == objects(source.storage)


# Refused


def test_another_repository_is_never_touched(source: Repository, target: Storage) -> None:
    create(target, int(source.spec_version))
    before = objects(target)

    with pytest.raises(AlreadyExistsError, match="another repository"):
        frazil.copy(source, target)

    assert objects(target) == before


@pytest.mark.parametrize("branch", ["main", "dev", "mine"])
def test_work_on_a_copy_is_never_lost(source: Repository, target: Storage, branch: str) -> None:
    frazil.copy(source, target)
    copied = Repository.open(target, ALL_NATIVE)
    if branch == "mine":
        copied.create_branch("mine", copied.lookup_tag("v1"))
    tip = fill(copied, slice(0, 1), 3, branch)
    fill(source, slice(0, 1), 4)

    with pytest.raises(ConflictError, match=f"branch '{branch}' of the target is at {tip}"):
        frazil.copy(source, target)

    assert copied.lookup_branch(branch) == tip


def test_a_commit_to_the_copy_right_before_its_state_is_replaced_is_not_lost() -> None:
    source, target = create(MemoryStorage()), MemoryStorage()
    frazil.copy(source, target)
    fill(source, slice(0, 1), 4)
    tips: list[str] = []

    def commit_once(request: Request) -> None:
        if request.verb is Verb.REPLACE and not tips:
            tips.append(fill(Repository.open(target, ALL_NATIVE), slice(0, 1), 3))

    with pytest.raises(ConflictError, match="somebody has written"):
        frazil.copy(source, Watched(target, commit_once))

    assert history(Repository.open(target))[0] == tips[0]


def test_other_things_at_the_target_are_refused(source: Repository, target: Storage) -> None:
    target.put("zarr.json", b"{}")

    with pytest.raises(InvalidInputError, match=r"zarr\.json"):
        frazil.copy(source, target)

    assert [info.key for info in target.list()] == ["zarr.json"]


def test_generations_are_not_mixed(target: Storage) -> None:
    source = create(MemoryStorage(), 1)
    frazil.copy(source, target)
    migrated = upgrade_icechunk_repository(source, dry_run=False)

    with pytest.raises(InvalidInputError, match="generation"):
        frazil.copy(migrated, target)


def test_an_earlier_copy_is_refused_if_it_is_not_to_be_replaced(
    source: Repository, target: Storage
) -> None:
    frazil.copy(source, target)

    with pytest.raises(AlreadyExistsError):
        frazil.copy(source, target, incremental=False)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"branches": ["none"]}, RefNotFoundError),
        ({"tags": ["none"]}, RefNotFoundError),
        ({"last": 0}, InvalidInputError),
        ({"last": 2, "shallow": True}, InvalidInputError),
        ({"last": 2, "group": "ocean"}, InvalidInputError),
        ({"group": "nowhere"}, NodeNotFoundError),
        ({"job": Job(run_on="spark")}, InvalidInputError),
    ],
)
def test_a_wrong_call_writes_nothing(
    source: Repository, target: Storage, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        frazil.copy(source, target, **arguments)

    assert list(target.list()) == []


# Parts


def test_branches_and_tags_are_chosen(source: Repository, target: Storage) -> None:
    fill(source, slice(5, 6), 3, "dev")

    frazil.copy(source, target, branches=["dev"], tags=[])

    found = Repository.open(target)
    first = history(source)[-1]
    assert refs(found) == {"branch dev": source.lookup_branch("dev"), "branch main": first}
    assert history(found, "dev") == history(source, "dev")
    assert set(objects(target)) < set(objects(source.storage))
    assert found.check(deep=True).is_healthy


def test_the_last_snapshots_of_a_branch_are_kept(source: Repository, target: Storage) -> None:
    for number in range(3):
        fill(source, slice(number, number + 1), 10 + number)

    frazil.copy(source, target, branches=["main"], tags=[], last=2)

    found = Repository.open(target)
    line = history(source)
    assert history(found) == [*line[:2], line[-1]]
    assert contents(found.readonly_session("main")) == contents(source.readonly_session("main"))
    assert found.check(deep=True).is_healthy
    diff = found.diff(from_snapshot_id=line[-1], to_snapshot_id=line[0])
    assert "/ocean/t" in diff.new_arrays or source.spec_version == 1

    fill(source, slice(0, 1), 20)
    frazil.copy(source, target, branches=["main"], tags=[], last=2)
    assert history(Repository.open(target)) == [history(source)[0], line[0], line[-1]]
    frazil.copy(source, target)
    assert objects(target).items() >= objects(source.storage).items()
    assert history(Repository.open(target)) == history(source)


def test_a_shallow_copy_has_the_tips(source: Repository, target: Storage) -> None:
    fill(source, slice(0, 1), 10)

    frazil.copy(source, target, shallow=True)

    found = Repository.open(target)
    assert found.list_tags() == set()
    known = {history(source)[0], source.lookup_branch("dev"), history(source)[-1]}
    assert {id for branch in ("main", "dev") for id in history(found, branch)} == known
    np.testing.assert_array_equal(values(found), values(source))
    assert found.check(deep=True).is_healthy


def test_a_group_is_copied_as_one_snapshot(source: Repository, target: Storage) -> None:
    first = frazil.copy(source, target, group="ocean")
    again = frazil.copy(source, target, group="ocean")
    fill(source, slice(2, 3), 30)
    report = frazil.copy(source, target, group="ocean")

    found = Repository.open(target)
    assert (first.has_changed, again.has_changed, report.has_changed) == (True, False, True)
    assert report.objects == (2 if source.spec_version == 2 else 3)
    assert len(history(found)) == 2
    assert [node.path for node in found.readonly_session("main").state.view.nodes()] == [
        "/", "/ocean", "/ocean/t",
    ]  # fmt: skip
    np.testing.assert_array_equal(values(found), values(source))
    np.testing.assert_array_equal(values(found, branch="dev"), values(source, branch="dev"))
    assert found.check(deep=True).is_healthy
    diff = found.diff(from_snapshot_id=history(found)[1], to_snapshot_id=history(found)[0])
    assert len(diff.updated_chunks["/ocean/t"]) == 20
    with pytest.raises(AlreadyExistsError if source.spec_version == 2 else ConflictError):
        frazil.copy(source, target, group="land")


# What else there is


@pytest.mark.parametrize(
    "name",
    [
        "draft-json",
        "alpha-real-20241013-a1",
        "alpha-msgpack-0.1.0-0.1.3",
        "v1-1.1.21",
        "v2-2.3.0-rich",
    ],
)
def test_every_generation_is_copied(generations: Path, tmp_path: Path, name: str) -> None:
    source = Repository.open(local_filesystem_storage(str(generations / name / "repo")))
    place = local_filesystem_storage(str(tmp_path / "copy"))

    frazil.copy(source, place)

    found = Repository.open(place)
    assert found.dialect is source.dialect
    assert refs(found) == refs(source)
    assert history(found) == history(source)
    for branch in source.list_branches():
        was = contents(source.readonly_session(branch))
        assert contents(found.readonly_session(branch)) == was
    assert not frazil.copy(source, place).has_changed
    shallow = local_filesystem_storage(str(tmp_path / "shallow"))
    frazil.copy(source, shallow, branches=["main"], shallow=True)
    assert len(history(Repository.open(shallow))) == 2
    assert Repository.open(shallow).check().is_healthy


def test_a_repository_of_nothing_is_copied(target: Storage) -> None:
    source = Repository.create(MemoryStorage())

    frazil.copy(source, target)
    session = source.writable_session("main")
    zarr.create_array(session.store, name="x", shape=(2,), dtype="i4")[:] = 1
    session.commit("inline")
    frazil.copy(source, target)

    assert values(Repository.open(target), "x").tolist() == [1, 1]


def test_a_repository_is_not_copied_over_itself(source: Repository) -> None:
    before = refs(source)

    with pytest.raises(InvalidInputError, match="same place"):
        frazil.copy(source, Watched(source.storage, lambda _: None), branches=["dev"], tags=[])

    assert refs(source) == before


def test_refs_of_a_copy_that_was_broken_off_are_no_hindrance(target: Storage) -> None:
    source = create(MemoryStorage(), 1)
    source.save_config()

    def fail_at_main(request: Request) -> None:
        if request.verb is Verb.CREATE and "branch.main" in request.keys[0]:
            raise ThrottledError("enough")

    with pytest.raises(ThrottledError):
        frazil.copy(source, Watched(target, fail_at_main))
    with pytest.raises(RepositoryNotFoundError):
        Repository.open(target)
    frazil.copy(source, target)

    assert refs(Repository.open(target)) == refs(source)


def test_a_copy_of_a_copy_that_went_its_own_way_does_not_replace_the_other(
    tmp_path: Path,
) -> None:
    places = [local_filesystem_storage(str(tmp_path / name)) for name in "abc"]
    first = create(places[0])
    frazil.copy(first, places[1])
    second = Repository.open(places[1], ALL_NATIVE)
    tip = fill(first, slice(0, 1), 3)
    fill(second, slice(0, 1), 4)
    frazil.copy(first, places[2])

    with pytest.raises(ConflictError, match="does not know"):
        frazil.copy(second, places[2])

    assert Repository.open(places[2]).lookup_branch("main") == tip


def test_a_source_that_can_not_be_listed_is_copied(target: Storage) -> None:
    source = create(MemoryStorage())

    def refuse(request: Request) -> None:
        if request.verb is Verb.LIST:
            raise StorageError("a server of web pages can't list")

    place = Watched(source.storage, refuse)
    frazil.copy(place, target)
    fill(source, slice(0, 2), 4)
    frazil.copy(place, target)

    assert objects(target) == objects(source.storage)


def test_a_copy_that_is_cancelled_is_no_repository(source: Repository, target: Storage) -> None:
    job = Job()

    def cancel(request: Request) -> None:
        if request.verb is Verb.PUT:
            job.cancel()

    with pytest.raises(JobCancelledError):
        frazil.copy(source, Watched(target, cancel), job=job)

    assert not Repository.exists(target)
