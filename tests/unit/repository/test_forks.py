"""Sessions in several hands: forks, merges, pickles, and readers that can't write."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import zarr

import frazil
from frazil import ForkSession, ReadOnlyError, Repository, SessionMode, SessionStateError
from tests.repositories import keys_of, values_of


@pytest.fixture
def session(repository: Repository) -> frazil.Session:
    """A writable session of a repository that has an array of four chunks."""
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="numbers", shape=(8,), chunks=(2,), dtype="i4", fill_value=-1
    )
    session.commit("an array")
    return repository.writable_session("main")


def send(thing: Any) -> Any:
    """As it arrives in another process."""
    return pickle.loads(pickle.dumps(thing))


def write(session: frazil.Session, start: int, value: int) -> None:
    zarr.open_array(session.store, path="numbers")[start : start + 2] = value


def values(session: frazil.Session) -> Any:
    return values_of(session, "numbers")


def test_forks_write_elsewhere_and_come_back(
    repository: Repository, session: frazil.Session
) -> None:
    write(session, 0, 10)
    forks = [send(session.fork()) for _ in range(3)]

    for number, fork in enumerate(forks):
        write(fork, 2 * number + 2, number)
    session.merge(*map(send, forks))

    assert values(session) == [10, 10, 0, 0, 1, 1, 2, 2]
    session.commit("by many")
    assert values(repository.readonly_session("main")) == [10, 10, 0, 0, 1, 1, 2, 2]


def test_forks_move_chunks_of_their_session_after_they_changed_their_mind(
    repository: Repository, session: frazil.Session
) -> None:
    write(session, 0, 10)
    fork = send(session.fork())
    write(fork, 0, 11)

    fork.discard_changes()
    fork.shift_array("/numbers", (1,))
    session.merge(send(fork))
    session.commit("moved")

    assert values(repository.readonly_session("main")) == [-1, -1, 10, 10, -1, -1, -1, -1]


def test_a_fork_sees_what_its_session_had_and_hides_what_it_does(session: frazil.Session) -> None:
    write(session, 0, 10)

    fork = session.fork()
    write(session, 2, 20)
    write(fork, 4, 30)

    assert values(fork) == [10, 10, -1, -1, 30, 30, -1, -1]
    assert values(session) == [10, 10, 20, 20, -1, -1, -1, -1]


def test_the_fork_of_a_clean_session_writes_nothing(
    repository: Repository, session: frazil.Session
) -> None:
    before = {info.key for info in repository.storage.list()}

    fork = session.fork()

    assert {info.key for info in repository.storage.list()} == before
    assert fork.snapshot_id == session.snapshot_id


def test_a_fork_can_be_written_to_but_not_committed(session: frazil.Session) -> None:
    fork = session.fork()

    assert isinstance(fork, ForkSession)
    assert (fork.mode, fork.read_only, fork.branch) == (SessionMode.readonly, False, None)
    write(fork, 0, 1)
    with pytest.raises(SessionStateError, match="fork"):
        fork.commit("no")
    with pytest.raises(frazil.IcechunkError, match="fork"):
        fork.flush("no")


def test_forks_merge_into_forks_but_sessions_do_not(session: frazil.Session) -> None:
    one, other = session.fork(), session.fork()
    write(one, 0, 1)
    write(other, 2, 2)

    one.merge(other)

    assert values(one) == [1, 1, 2, 2, -1, -1, -1, -1]
    with pytest.raises(SessionStateError, match="forks only"):
        one.merge(session)  # type: ignore[arg-type]


def test_of_two_forks_that_set_a_chunk_the_last_merged_counts(session: frazil.Session) -> None:
    one, other = session.fork(), session.fork()
    write(one, 0, 1)
    write(other, 0, 2)
    other.store.delete_sync("numbers/c/0")

    session.merge(one, other)

    assert values(session)[:2] == [-1, -1]


def update_attributes(session: frazil.Session, **attributes: Any) -> None:
    zarr.open_array(session.store, path="numbers").update_attributes(attributes)


def test_forks_that_changed_one_node_differently_are_refused(session: frazil.Session) -> None:
    one, other = session.fork(), session.fork()
    update_attributes(one, n=1)
    update_attributes(other, n=2)
    session.merge(one)

    with pytest.raises(SessionStateError, match="updated /numbers") as caught:
        session.merge(other)

    assert caught.value.kind == "merge-failed"


def test_forks_that_made_the_same_change_agree(session: frazil.Session) -> None:
    one, other = session.fork(), session.fork()
    update_attributes(one, n=1)
    update_attributes(other, n=1)

    session.merge(one, other)

    assert dict(zarr.open_array(session.store, path="numbers").attrs) == {"n": 1}


def test_forks_that_made_a_node_at_one_path_are_refused(session: frazil.Session) -> None:
    one, other = session.fork(), session.fork()
    zarr.create_group(one.store, path="group", attributes={"n": 1})
    zarr.create_group(other.store, path="group", attributes={"n": 2})
    session.merge(one)

    with pytest.raises(SessionStateError, match="created /group"):
        session.merge(other)


@pytest.mark.parametrize("deleter_is_first", [True, False])
def test_a_node_deleted_by_one_and_changed_by_another_is_refused(
    session: frazil.Session, *, deleter_is_first: bool
) -> None:
    deleter, writer = session.fork(), session.fork()
    deleter.store.delete_sync("numbers/zarr.json")
    write(writer, 0, 1)
    first, second = (deleter, writer) if deleter_is_first else (writer, deleter)
    session.merge(first)

    with pytest.raises(SessionStateError, match="deleted"):
        session.merge(second)


def test_a_refused_merge_changes_nothing(session: frazil.Session) -> None:
    one, other = session.fork(), session.fork()
    update_attributes(one, n=1)
    update_attributes(other, n=2)
    zarr.create_group(other.store, path="group")
    write(other, 0, 7)
    session.merge(one)
    before = keys_of(session)

    with pytest.raises(SessionStateError):
        session.merge(other)

    assert keys_of(session) == before
    assert values(session) == [-1] * 8


def test_writable_sessions_and_their_stores_stay_where_they_are(session: frazil.Session) -> None:
    with pytest.raises(ValueError, match="fork"):
        pickle.dumps(session)
    with pytest.raises(ValueError, match="fork"):
        pickle.dumps(session.store)


def test_readers_can_be_sent_elsewhere(repository: Repository, session: frazil.Session) -> None:
    write(session, 0, 5)
    session.commit("values")
    reader = repository.readonly_session("main")

    there, store = send(reader), send(reader.store)

    assert there != reader
    assert there.snapshot_id == reader.snapshot_id
    assert values(there) == values(reader)
    assert store != reader.store
    assert values(store.session) == values(reader)


def test_a_repository_can_be_sent_elsewhere(
    repository: Repository, session: frazil.Session
) -> None:
    write(session, 0, 5)
    session.commit("values")

    there = send(repository)

    assert there.lookup_branch("main") == repository.lookup_branch("main")
    assert values(there.readonly_session("main")) == [5, 5, -1, -1, -1, -1, -1, -1]


def test_readers_change_nothing(repository: Repository, session: frazil.Session) -> None:
    reader = repository.readonly_session("main")
    assert (reader.read_only, reader.branch, reader.mode) == (True, None, SessionMode.readonly)

    attempts: list[Callable[[], object]] = [
        lambda: write(reader, 0, 1),
        lambda: zarr.create_group(reader.store, path="group"),
        lambda: reader.store.delete_sync("numbers/zarr.json"),
        lambda: reader.store.sync_clear(),
        lambda: reader.shift_array("/numbers", [1]),
        reader.discard_changes,
        lambda: reader.merge(session.fork()),
    ]

    for attempt in attempts:
        with pytest.raises(
            (ReadOnlyError, ValueError), match=r"read-only|Read only|can't be written"
        ):
            attempt()
    with pytest.raises(SessionStateError, match="read-only"):
        reader.fork()
    with pytest.raises(SessionStateError, match="read-only"):
        reader.commit("no")


def test_a_session_is_equal_to_itself_only(repository: Repository) -> None:
    one, other = repository.readonly_session("main"), repository.readonly_session("main")

    assert one != send(one)
    assert one != other
    assert one.store == one.store
    assert one.store != other.store
