"""Requests to a distant storage wait for few others: `docs/storage.md` has the table."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np
import pytest
import zarr

from frazil import ConflictError, ManifestConfig, Repository, RepositoryConfig, Session
from frazil.storage.interface import Storage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import NO_FAULT, ForwardingStorage, Injection, Request, Verb
from tests.pages import DOCS

T = TypeVar("T")


@dataclass
class Log:
    """Beginnings and ends of requests, in one order."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    time: int = 0
    spans: list[list[int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def begin(self, request: Request) -> Callable[[T], T]:
        with self.lock:
            self.time += 1
            span = [self.time, self.time]
            self.spans.append(span)
            self.names.append(f"{request.verb} {' '.join(request.keys)}")

        def end(answer: T, /) -> T:
            with self.lock:
                self.time += 1
                span[1] = self.time
            return answer

        return end

    def count_in_a_row(self) -> int:
        """The longest series of requests each of which began after another one had ended."""
        count = last = 0
        for begun, ended in sorted(self.spans, key=lambda span: span[1]):
            if begun > last:
                count, last = count + 1, ended
        return count


class DistantStorage(ForwardingStorage):
    """A storage that answers late enough for requests to overlap that are sent together."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.log: Log | None = None

    @property
    def is_local(self) -> bool:
        return False

    def _begin(self, request: Request) -> Injection:
        if self.log is None or request.verb is Verb.FLUSH:  # which sends nothing over a network
            return NO_FAULT
        return Injection(delay_seconds=0.1, finish=self.log.begin(request))

    @contextmanager
    def counting(self) -> Iterator[list[int]]:
        """Requests in a row, and all of them, when it is left."""
        found: list[int] = []
        self.log = log = Log()
        yield found
        self.log = None
        found += [log.count_in_a_row(), len(log.spans)]


def write_arrays(session: Session, count: int) -> None:
    group = zarr.open_group(session.store, mode="a")
    for number in range(count):
        array = group.create_array(f"a{number}", shape=(4,), chunks=(2,), dtype="i4")
        array[:2] = number + 1


def make(spec_version: int = 2, arrays: int = 1) -> MemoryStorage:
    config = RepositoryConfig(inline_chunk_threshold_bytes=0, manifest=ManifestConfig())
    storage = MemoryStorage()
    repository = Repository.create(storage, config, spec_version=spec_version)
    session = repository.writable_session("main")
    write_arrays(session, arrays)
    session.commit("arrays")
    repository.save_config()
    return storage


def change(session: Session, count: int = 1) -> None:
    for number in range(count):
        zarr.open_array(session.store, path=f"a{number}", mode="r+")[2:] = 7


def read_first_chunk(distant: DistantStorage) -> list[int]:
    with distant.counting() as found:
        repository = Repository.open(distant)
        session = repository.readonly_session("main")
        array = zarr.open_array(session.store, path="a0", mode="r", zarr_format=3)
        assert np.array_equal(array[:2], [1, 1])
    return found


def open_to_write(distant: DistantStorage) -> list[int]:
    with distant.counting() as found:
        Repository.open(distant).writable_session("main")
    return found


def commit(distant: DistantStorage, arrays: int = 1) -> list[int]:
    session = Repository.open(distant).writable_session("main")
    change(session, arrays)
    with distant.counting() as found:
        session.commit("changed")
    return found


def amend(distant: DistantStorage) -> list[int]:
    session = Repository.open(distant).writable_session("main")
    change(session)
    with distant.counting() as found:
        session.amend("changed")
    return found


def flush(distant: DistantStorage) -> list[int]:
    session = Repository.open(distant).writable_session("main")
    change(session)
    with distant.counting() as found:
        session.flush("changed")
    return found


def create_tag(distant: DistantStorage) -> list[int]:
    repository = Repository.open(distant)
    tip = repository.lookup_branch("main")
    with distant.counting() as found:
        repository.create_tag("v1", tip)
    return found


def create_branch(distant: DistantStorage) -> list[int]:
    repository = Repository.open(distant)
    tip = repository.lookup_branch("main")
    with distant.counting() as found:
        repository.create_branch("other", tip)
    return found


def list_ancestry(distant: DistantStorage) -> list[int]:
    repository = Repository.open(distant)
    with distant.counting() as found:
        list(repository.ancestry(branch="main"))
    return found


def collect_garbage(distant: DistantStorage) -> list[int]:
    repository = Repository.open(distant)
    with distant.counting() as found:
        repository.garbage_collect(datetime.now(UTC))
    return found


VERBS: dict[str, Callable[[DistantStorage], list[int]]] = {
    "open, session, first chunk": read_first_chunk,
    "open, writable session": open_to_write,
    "commit": commit,
    "amend": amend,
    "flush": flush,
    "create a tag": create_tag,
    "create a branch": create_branch,
    "list ancestry": list_ancestry,
    "collect garbage": collect_garbage,
}


def read_table() -> dict[str, tuple[int, int | None]]:
    """Requests in a row of each verb in V2 and V1, as the page has them."""
    page = (DOCS / "storage.md").read_text("utf-8")
    section = page.partition("## Sequential requests\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| (\d+|–) \|", section, re.MULTILINE)
    return {name: (int(v2), None if v1 == "–" else int(v1)) for name, v2, v1 in rows}


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_wait_as_often_as_the_page_says(verb: str) -> None:
    v2, v1 = read_table()[verb]

    assert VERBS[verb](DistantStorage(make()))[0] == v2
    if v1 is not None:
        assert VERBS[verb](DistantStorage(make(1)))[0] == v1


def test_the_page_has_every_verb() -> None:
    assert read_table().keys() == VERBS.keys()


def test_a_commit_of_many_arrays_waits_no_longer() -> None:
    one, many = (commit(DistantStorage(make(2, arrays)), arrays) for arrays in (1, 12))

    assert many[0] == one[0]
    # Each array has a manifest that is read and another one that is written.
    assert many[1] - one[1] == 2 * 11


def test_manifests_are_read_one_by_one_where_the_configuration_says_so() -> None:
    distant = DistantStorage(make(2, 4))
    config = RepositoryConfig(
        manifest=ManifestConfig(max_concurrent_manifest_fetches_during_commit=1)
    )
    session = Repository.open(distant, config).writable_session("main")
    change(session, 4)

    with distant.counting() as found:
        session.commit("changed")

    assert found[0] == 4 + 2


def test_a_commit_that_somebody_was_faster_than_asks_again_and_says_so() -> None:
    storage = make(2, 2)
    session = Repository.open(storage).writable_session("main")
    change(session)
    other = Repository.open(storage).writable_session("main")
    change(other)
    other.commit("faster")

    with pytest.raises(ConflictError):
        session.commit("too late")
    assert Repository.open(storage).lookup_branch("main") == other.snapshot_id


def test_a_commit_beside_a_new_tag_lands_on_top_of_it() -> None:
    storage = make()
    repository = Repository.open(storage)
    session = repository.writable_session("main")
    change(session)
    Repository.open(storage).create_tag("meanwhile", session.snapshot_id)

    tip = session.commit("changed")

    assert Repository.open(storage).lookup_branch("main") == tip
    assert Repository.open(storage).list_tags() == {"meanwhile"}


def test_a_session_reads_what_was_committed_since_the_repository_was_opened() -> None:
    storage = make()
    distant = DistantStorage(storage)
    repository = Repository.open(distant)
    other = Repository.open(storage).writable_session("main")
    change(other)
    tip = other.commit("newer")

    assert repository.readonly_session("main").snapshot_id == tip
