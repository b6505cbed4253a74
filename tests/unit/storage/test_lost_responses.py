"""Settling a conditional write: every order in which answers come, get lost or contradict."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from frazil.errors import ObjectExistsError, StorageError, ThrottledError
from frazil.storage.clients import Diagnosis, Failure
from frazil.storage.interface import (
    StorageRetriesSettings,
    StorageSettings,
    Version,
    resolve_settings,
)
from frazil.storage.object_store import Found, find_write_id, pause_seconds, resolve_write

SETTINGS = resolve_settings(StorageSettings(retries=StorageRetriesSettings(3, 1, 10)))
WRITTEN, SEEN = Version("written"), Version("seen")

REFUSED = Diagnosis(Failure.CONDITION, "412", 1)
CONFLICT = Diagnosis(Failure.CONFLICT, "409", 1)
LOST = Diagnosis(Failure.UNAVAILABLE, "dropped", 1)
FORBIDDEN = Diagnosis(Failure.FORBIDDEN, "403", 1)

OURS, THEIRS = Found(SEEN, True), Found(SEEN, False)


@dataclass
class Scripted:
    """A creation whose answers are written down."""

    answers: list[Version | Diagnosis]
    there: Found | None = None
    looks: int = field(default=0)

    def put(self) -> Version | Diagnosis:
        return self.answers.pop(0)

    def look(self) -> Found | None:
        self.looks += 1
        return self.there

    def is_still_possible(self, found: Found | None) -> bool:
        return found is None

    def refuse(self, is_in_doubt: bool) -> StorageError:
        return ObjectExistsError(f"exists, in doubt: {is_in_doubt}")

    def fail(self, diagnosis: Diagnosis) -> StorageError:
        return diagnosis.to_error("write", "object")


def run(answers: Sequence[Version | Diagnosis], there: Found | None = None) -> Version:
    return resolve_write(Scripted([*answers], there), SETTINGS, sleep=lambda _: None)


@pytest.mark.parametrize(
    ("answers", "there", "expected"),
    [
        ([WRITTEN], None, WRITTEN),
        ([LOST, WRITTEN], None, WRITTEN),
        ([LOST, REFUSED], OURS, SEEN),
        ([LOST, LOST, REFUSED], OURS, SEEN),
        ([LOST, LOST, LOST], OURS, SEEN),
        ([LOST, CONFLICT, WRITTEN], None, WRITTEN),
        ([LOST, CONFLICT], OURS, SEEN),
        ([CONFLICT, WRITTEN], None, WRITTEN),
        ([CONFLICT, CONFLICT, WRITTEN], None, WRITTEN),
    ],
)
def test_a_write_that_happened_is_known_to_have_happened(
    answers: list[Version | Diagnosis], there: Found | None, expected: Version
) -> None:
    assert run(answers, there) == expected


@pytest.mark.parametrize(
    ("answers", "there", "error", "message"),
    [
        ([REFUSED], THEIRS, ObjectExistsError, "in doubt: False"),
        ([LOST, REFUSED], THEIRS, ObjectExistsError, "in doubt: True"),
        ([CONFLICT], THEIRS, ObjectExistsError, "in doubt: False"),
        ([LOST, LOST, LOST], THEIRS, ObjectExistsError, "in doubt: True"),
        ([LOST, LOST, LOST], None, ThrottledError, "after 3 tries: dropped"),
        ([CONFLICT, CONFLICT, CONFLICT], None, ThrottledError, "after 3 tries: 409"),
        ([LOST, REFUSED, LOST], None, ThrottledError, "after 3 tries: dropped"),
        ([FORBIDDEN], None, StorageError, "403"),
        ([LOST, FORBIDDEN], None, StorageError, "403"),
    ],
)
def test_a_write_that_did_not_happen_is_an_error(
    answers: list[Version | Diagnosis], there: Found | None, error: type[StorageError], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(answers, there)


def test_a_plain_refusal_is_believed_without_looking() -> None:
    write = Scripted([REFUSED])

    with pytest.raises(ObjectExistsError):
        resolve_write(write, SETTINGS, sleep=lambda _: None)

    assert write.looks == 0


@pytest.mark.parametrize("name", ["icechunkwriteid", "icechunk-write-id", "icechunk_write_id"])
def test_the_write_id_is_found_in_every_spelling(name: str) -> None:
    assert find_write_id({"Content-Type": "x", name: "id"}) == "id"
    assert find_write_id({"Content-Type": "x"}) is None


def test_pauses_grow_up_to_a_limit() -> None:
    for tries in range(1, 20):
        pause = pause_seconds(tries, SETTINGS)

        assert 0 < pause <= min(0.01, 0.001 * 2**tries)
