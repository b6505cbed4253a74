"""Following a branch: which commits come next, after restarts, resets and expiry."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import zarr

import frazil
from frazil import Repository
from frazil.errors import ConflictError, InvalidInputError, SnapshotNotFoundError
from frazil.tables.change_feed import BEGINNING, CommitStream, open_stream
from frazil.tables.table_options import Options, parse_options
from frazil.tables.table_source import open_source
from frazil.urls import make_ref


@pytest.fixture
def repo() -> Repository:
    """With five commits, one of them the first of all."""
    made = Repository.create(frazil.in_memory_storage())
    for number in range(4):
        commit(made, f"group{number}")
    return made


def commit(repo: Repository, name: str, branch: str = "main") -> str:
    session = repo.writable_session(branch)
    zarr.create_group(session.store, path=name)
    return session.commit(name)


def follow(repo: Repository, **more: str) -> CommitStream:
    return open_stream(open_source(Options(table="changes", more=more), repo))


def line(repo: Repository, branch: str = "main") -> list[str]:
    return [info.id for info in repo.ancestry(branch=branch)][::-1]


def run(stream: CommitStream, place: str, most: int | None = None) -> tuple[list[list[str]], str]:
    """Batches until there is nothing new, and where that is."""
    batches: list[list[str]] = []
    for _ in range(100):
        end = stream.latest(place, most)
        if end == place:
            return batches, place
        batches.append([commit.message for commit in stream.between(place, end)])
        place = end
    raise AssertionError("the stream never ends")


def test_each_commit_comes_once_in_batches_of_the_limit(repo: Repository) -> None:
    stream = follow(repo)

    batches, place = run(stream, stream.initial(), most=2)
    commit(repo, "later")
    more, _ = run(stream, place, most=2)

    assert batches == [["Repository initialized", "group0"], ["group1", "group2"], ["group3"]]
    assert more == [["later"]]


def test_a_stream_begins_where_it_is_told_to(repo: Repository) -> None:
    ids = line(repo)
    repo.create_tag("v1", ids[2])

    places = [
        follow(repo, **{"from": each}).initial() for each in ("earliest", "latest", "v1", ids[1])
    ]

    assert places == [BEGINNING, ids[-1], ids[2], ids[1]]
    assert run(follow(repo), ids[2])[0] == [["group2", "group3"]]


def test_nothing_behind_the_target_is_read(repo: Repository) -> None:
    stream = follow(repo)
    target = stream.tip()
    commit(repo, "later")

    assert stream.latest(BEGINNING, None, target) == target
    assert stream.latest(target, None, target) == target


def test_a_batch_that_is_run_again_has_the_same_commits(repo: Repository) -> None:
    stream, ids = follow(repo), line(repo)
    before = stream.between(ids[1], ids[3])

    commit(repo, "later")

    assert stream.between(ids[1], ids[3]) == before
    assert [each.id for each in before] == ids[2:4]
    assert stream.between(ids[3], ids[3]) == []


def reset(repo: Repository) -> str:
    """Read to the tip, then let the branch go another way from its third commit on."""
    ids = line(repo)
    repo.reset_branch("main", ids[2])
    commit(repo, "other")
    commit(repo, "other2")
    return ids[-1]


def test_a_reset_is_an_error_that_says_what_to_choose(repo: Repository) -> None:
    place = reset(repo)

    with pytest.raises(ConflictError, match="on_reset"):
        follow(repo).latest(place)
    with pytest.raises(ConflictError, match="was reset"):
        follow(repo).between(place, line(repo)[-1])


def test_after_a_reset_it_goes_on_where_the_histories_part(repo: Repository) -> None:
    place = reset(repo)
    stream = follow(repo, on_reset="ancestor")

    batches, _ = run(stream, place, most=1)

    assert batches == [["other"], ["other2"]]


def test_after_a_reset_it_goes_on_at_the_tip(repo: Repository) -> None:
    place = reset(repo)
    stream = follow(repo, on_reset="latest")

    batches, place = run(stream, place)
    commit(repo, "later")

    assert batches == [[]]
    assert run(stream, place)[0] == [["later"]]


def test_a_branch_that_was_reset_to_an_older_commit_has_nothing_new(repo: Repository) -> None:
    ids = line(repo)
    repo.reset_branch("main", ids[2])
    stream = follow(repo, on_reset="ancestor")

    batches, place = run(stream, ids[-1])

    assert (batches, place) == ([[]], ids[2])


def expire(repo: Repository) -> str:
    """Come to the second commit, which then expires with all but the newest."""
    place = line(repo)[1]
    repo.expire_snapshots(datetime.now(UTC) + timedelta(days=1))
    return place


def test_an_expired_place_is_an_error_that_says_what_to_choose(repo: Repository) -> None:
    place = expire(repo)

    with pytest.raises(SnapshotNotFoundError, match="on_expired"):
        follow(repo).latest(place)
    with pytest.raises(SnapshotNotFoundError, match="expired"):
        follow(repo).between(BEGINNING, place)


def test_after_expiry_it_reads_all_that_is_left(repo: Repository) -> None:
    place = expire(repo)
    left = [info.message for info in repo.ancestry(branch="main")][::-1]
    stream = follow(repo, on_expired="earliest")

    batches, _ = run(stream, place, most=1)

    assert [message for batch in batches for message in batch] == left
    assert stream.between(BEGINNING, place) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_commits": "0"}, "max_commits"),
        ({"max_commits": "many"}, "max_commits"),
        ({"on_reset": "perhaps"}, "ancestor"),
        ({"on_expired": "ancestor"}, "earliest"),
        ({"to": "main"}, "no end"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    repo: Repository, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        follow(repo, **options)


def test_a_stream_follows_the_branch_that_is_named(repo: Repository) -> None:
    repo.create_branch("dev", line(repo)[1])
    commit(repo, "on dev", "dev")
    dev = Options(ref=make_ref(branch="dev"), table="changes")
    tag = parse_options({"table": "changes", "snapshot": line(repo)[1]})

    stream = open_stream(open_source(dev, repo))

    assert run(stream, line(repo)[1])[0] == [["on dev"]]
    with pytest.raises(InvalidInputError, match="branch"):
        open_stream(open_source(tag, repo))
