"""Conditional writes that have exactly one winner, even if a response is lost."""

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Protocol, cast
from uuid import uuid4

import obstore
from obstore.store import ObjectStore

from frazil.errors import ObjectExistsError, StorageError, UnsafeStorageError, VersionMismatchError
from frazil.lazy import dataclass
from frazil.storage.clients import Clients, Diagnosis, Failure
from frazil.storage.connections import Purpose
from frazil.storage.interface import Buffer, EffectiveSettings, Storage, Version

WRITE_ID = "icechunkwriteid"
"""Name of the write id in an object's metadata, shared with the official library."""

_SPELLINGS = (WRITE_ID, "icechunk-write-id", "icechunk_write_id")


def find_write_id(attributes: "dict[str, str]") -> str | None:
    """Return the id of the write that produced an object.

    Some writers and stores spell its name differently.
    """
    return next((attributes[name] for name in _SPELLINGS if name in attributes), None)


@dataclass(frozen=True, slots=True)
class Found:
    """Current version of an object, and whether this write produced it."""

    version: Version
    is_ours: bool


class ConditionalWrite(Protocol):
    """A conditional write to resolve."""

    def put(self) -> Version | Diagnosis:
        """Try the write once."""

    def look(self) -> Found | None:
        """Return the current object, or None."""

    def is_still_possible(self, found: Found | None) -> bool:
        """Return True if the condition can still hold for the current object."""

    def refuse(self, is_in_doubt: bool) -> StorageError:
        """Return the error for a failed condition.

        If `is_in_doubt`, an earlier try may have succeeded and been replaced since.
        """

    def fail(self, diagnosis: Diagnosis) -> StorageError:
        """Return the error for any other failure."""


def resolve_write(
    write: ConditionalWrite,
    settings: EffectiveSettings,
    sleep: Callable[[float], None] = time.sleep,
) -> Version:
    """Write, resolving lost responses; raise if the write failed or its outcome can't be determined."""
    is_in_doubt = False
    last = Diagnosis(Failure.OTHER, "not tried", 0)
    deadline = time.monotonic() + (settings.operation_timeout_seconds or float("inf"))
    for tries in range(1, settings.max_tries + 1):
        outcome = write.put()
        if isinstance(outcome, Version):
            return outcome
        if outcome.failure is Failure.CONDITION and not is_in_doubt:
            raise write.refuse(is_in_doubt)
        last = Diagnosis(outcome.failure, outcome.text, tries)
        is_in_doubt |= outcome.failure.leaves_doubt
        is_last = tries == settings.max_tries or time.monotonic() > deadline
        if outcome.failure in (Failure.CONDITION, Failure.CONFLICT) or (is_last and is_in_doubt):
            # A conflict does not imply that the object exists: on S3 it may be absent.
            found = write.look()
            if found is not None and found.is_ours:
                return found.version
            if not write.is_still_possible(found):
                raise write.refuse(is_in_doubt)
        elif not outcome.failure.leaves_doubt:
            raise write.fail(outcome)
        if is_last:
            break
        sleep(pause_seconds(tries, settings))
    raise write.fail(last)


def pause_seconds(tries: int, settings: EffectiveSettings) -> float:
    """Return the backoff after a number of tries: exponential, with jitter."""
    longest = min(settings.max_backoff_seconds, settings.initial_backoff_seconds * 2**tries)
    return random.uniform(settings.initial_backoff_seconds / 2, max(longest, 0.0))


def encode_version(found: Mapping[str, Any]) -> Version:
    """Return the version in a store's response: the ETag and version that S3, GCS and Azure compare."""
    return Version(json.dumps([found.get("e_tag"), found.get("version")]))


def decode_version(version: Version) -> dict[str, str] | None:
    """Return a version as an obstore condition, or None if another storage produced it."""
    try:
        e_tag, number = json.loads(version.token)
    except (ValueError, TypeError):
        return None
    # obstore rejects None here, although its type hints allow it.
    given = {"e_tag": e_tag, "version": number}
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Upload:
    """Content of a conditional write, sent on every try, with an id that identifies the write."""

    clients: Clients
    key: str
    data: Buffer
    attributes: Mapping[str, str]
    uses_metadata: bool
    write_id: str = field(default_factory=lambda: uuid4().hex)

    def put(self, mode: Any) -> Version | Diagnosis:
        """Try once, with the given put mode."""
        attributes = dict(self.attributes)
        if self.uses_metadata:
            attributes[WRITE_ID] = self.write_id
        outcome = self.clients.attempt(
            Purpose.CONDITIONAL_WRITE,
            lambda store: obstore.put(
                store, self.key, self.data, attributes=attributes, mode=mode, use_multipart=False
            ),
            size_bytes=len(self.data),
        )
        if isinstance(outcome, Diagnosis):
            return outcome
        if outcome["e_tag"] is None and outcome["version"] is None:
            # Some stores return the version only for a read.
            found = self.look()
            return found.version if found is not None else encode_version(outcome)
        return encode_version(outcome)

    def look(self) -> Found | None:
        """Return the current object, and whether this upload produced it."""
        outcome = self.clients.attempt(Purpose.READ, lambda store: _look(store, self.key))
        if isinstance(outcome, Diagnosis):
            if outcome.failure is Failure.ABSENT:
                return None
            raise self.fail(outcome)
        version, attributes = outcome
        written_by = find_write_id(attributes)
        if written_by is not None:
            return Found(version, written_by == self.write_id)
        return self._compare()

    def _compare(self) -> Found | None:
        outcome = self.clients.attempt(Purpose.READ, lambda store: _read(store, self.key))
        if isinstance(outcome, Diagnosis):
            if outcome.failure is Failure.ABSENT:
                return None
            raise self.fail(outcome)
        version, data = outcome
        return Found(version, memoryview(data) == memoryview(self.data))

    def fail(self, diagnosis: Diagnosis) -> StorageError:
        return diagnosis.to_error("write", self.key)


@dataclass(frozen=True, slots=True)
class Create:
    """Write that requires that the object does not exist."""

    upload: Upload

    def put(self) -> Version | Diagnosis:
        return self.upload.put("create")

    def look(self) -> Found | None:
        return self.upload.look()

    def is_still_possible(self, found: Found | None) -> bool:
        return found is None

    def refuse(self, is_in_doubt: bool) -> StorageError:
        return ObjectExistsError(f"{self.upload.key!r} exists{_doubt(is_in_doubt)}")

    def fail(self, diagnosis: Diagnosis) -> StorageError:
        return self.upload.fail(diagnosis)


@dataclass(frozen=True, slots=True)
class Replace:
    """Write that requires a given version of the object.

    Stores of the Ceph family compare the quoted ETag of the condition literally with their unquoted
    one, so it never matches. If the current object still has the expected version, the write is
    repeated without quotes.
    """

    upload: Upload
    expected: Version
    quotes: "Quotes"

    def put(self) -> Version | Diagnosis:
        condition = decode_version(self.expected)
        if condition is None:
            raise self.refuse(is_in_doubt=False)
        if self.quotes.are_refused:
            return self.upload.put(_unquote(condition))
        outcome = self.upload.put(condition)
        if isinstance(outcome, Version):
            self.quotes.are_accepted = True
        elif outcome.failure is Failure.CONDITION and self._is_a_matter_of_quotes(condition):
            outcome = self.upload.put(_unquote(condition))
            self.quotes.are_refused = isinstance(outcome, Version)
        return outcome

    def _is_a_matter_of_quotes(self, condition: dict[str, str]) -> bool:
        if self.quotes.are_accepted or not condition.get("e_tag", "").startswith('"'):
            return False
        found = self.upload.look()
        return found is not None and found.version == self.expected

    def look(self) -> Found | None:
        return self.upload.look()

    def is_still_possible(self, found: Found | None) -> bool:
        return found is not None and found.version == self.expected

    def refuse(self, is_in_doubt: bool) -> StorageError:
        return VersionMismatchError(
            f"{self.upload.key!r} is no longer what was read{_doubt(is_in_doubt)}"
        )

    def fail(self, diagnosis: Diagnosis) -> StorageError:
        return self.upload.fail(diagnosis)


@dataclass(slots=True)
class Quotes:
    """ETag format that a store accepts, as observed."""

    are_accepted: bool = False
    are_refused: bool = False


def _doubt(is_in_doubt: bool) -> str:
    return "; this write may have been there in between" if is_in_doubt else ""


def _unquote(condition: dict[str, str]) -> dict[str, str]:
    return {**condition, "e_tag": condition["e_tag"].strip('"')}


def _look(store: ObjectStore, key: str) -> tuple[Version, dict[str, str]]:
    result = obstore.get(store, key, options={"head": True})
    return encode_version(cast("Mapping[str, Any]", result.meta)), result.attributes


def _read(store: ObjectStore, key: str) -> tuple[Version, Buffer]:
    result = obstore.get(store, key)
    return encode_version(cast("Mapping[str, Any]", result.meta)), memoryview(result.bytes())


DEFAULT_FOLDER = "overwritten"
"""Folder of the probe object.

Objects left by an interrupted probe are harmless here: the folder is not listed.
"""


def probe_conditional_writes(storage: Storage, folder: str = DEFAULT_FOLDER) -> None:
    """Raise UnsafeStorageError if two concurrent writers could both succeed.

    Writes one small object with four requests and deletes it.

    Parameters
    ----------
    storage
        The storage to check.
    folder
        Folder for the probe object.

    Raises
    ------
    UnsafeStorageError
        If the storage ignores write conditions or is configured not to use them.
    """
    if not (storage.can_create_safely and storage.can_replace_safely):
        raise UnsafeStorageError(
            f"{storage.place} is set not to use conditional writes, so that commits may be lost"
        )
    key = f"{folder}/probe.{uuid4().hex}"
    first = storage.create(key, b"first")
    try:
        second = storage.replace(key, b"second", first)
        try:
            storage.create(key, b"third")
        except ObjectExistsError:
            pass
        else:
            raise _unsafe(storage, "creates an object that exists")
        try:
            storage.replace(key, b"fourth", first)
        except VersionMismatchError:
            pass
        else:
            raise _unsafe(storage, "replaces a version that is gone")
        if second == first:
            raise _unsafe(storage, "has one version for different bytes")
    finally:
        storage.delete_many([key])


def _unsafe(storage: Storage, fault: str) -> UnsafeStorageError:
    return UnsafeStorageError(
        f"{storage.place} {fault}: it ignores the conditions of writes, so that commits would be lost. "
        "Commit to a store that has conditional writes"
    )
