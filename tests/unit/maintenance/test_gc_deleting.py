"""Deleting objects: what went, what stayed, and why."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from frazil.errors import StorageError, ThrottledError
from frazil.maintenance import gc as deleting
from frazil.maintenance.gc import Deleted, count_objects, delete_objects
from frazil.maintenance.reachability import SweepLimits
from frazil.storage.interface import DeleteReport, ObjectInfo
from frazil.storage.memory import MemoryStorage


def objects(count: int, size_bytes: int = 3) -> list[ObjectInfo]:
    now = datetime.now(UTC)
    return [ObjectInfo(f"chunks/{number}", size_bytes, now) for number in range(count)]


class Stubborn(MemoryStorage):
    """A storage that keeps some objects, and is overloaded a few times."""

    def __init__(self, kept: Iterable[str] = (), throttled: int = 0) -> None:
        super().__init__()
        self._kept = set(kept)
        self._throttled = throttled

    def delete_many(self, keys: Iterable[str]) -> DeleteReport:
        if self._throttled:
            self._throttled -= 1
            raise ThrottledError("slower, please")
        every = list(keys)
        failed = {key: "no" for key in every if key in self._kept}
        return DeleteReport(len(every) - len(failed), failed)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "_PAUSES_SECONDS", (0.0, 0.0))


def test_many_requests_add_up() -> None:
    deleted = delete_objects(MemoryStorage(), objects(4500), SweepLimits(2), "chunks")

    assert deleted == Deleted(count=4500, size_bytes=13500)
    assert deleted == count_objects(objects(4500))


def test_what_failed_is_reported_with_its_reason() -> None:
    deleted = delete_objects(Stubborn(["chunks/1"]), objects(3), SweepLimits(), "chunks")

    assert deleted == Deleted(2, 6, failed=1, errors=("chunks/1: no",))


@pytest.mark.usefixtures("_impatient")
def test_an_overloaded_storage_is_asked_again() -> None:
    deleted = delete_objects(Stubborn(throttled=2), objects(3), SweepLimits(), "chunks")

    assert deleted == Deleted(3, 9, throttled=2)


@pytest.mark.usefixtures("_impatient")
def test_one_that_stays_overloaded_has_failed() -> None:
    deleted = delete_objects(Stubborn(throttled=9), objects(3), SweepLimits(), "chunks")

    assert deleted == Deleted(failed=3, throttled=2, errors=("slower, please",))


def test_failures_between_successes_are_no_reason_to_give_up() -> None:
    kept = [info.key for info in objects(3000)[::1000]]

    deleted = delete_objects(Stubborn(kept), objects(3000), SweepLimits(1, 2), "chunks")

    assert (deleted.count, deleted.failed) == (2997, 3)


def test_requests_that_fail_one_after_the_other_are() -> None:
    kept = [info.key for info in objects(3000)]

    with pytest.raises(StorageError, match="2 requests to delete chunks") as raised:
        delete_objects(Stubborn(kept), objects(3000), SweepLimits(1, 2), "chunks")

    assert raised.value.kind == "gc-deletes-failing"
