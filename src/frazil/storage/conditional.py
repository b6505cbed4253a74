"""What `create` and `replace` ask of a store, one try at a time."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

import obstore
from obstore.store import ObjectStore

from frazil.errors import ObjectExistsError, StorageError, VersionMismatchError
from frazil.storage.client import Purpose
from frazil.storage.clients import Clients
from frazil.storage.interface import Buffer, Version
from frazil.storage.lost_answers import WRITE_ID, Found, find_write_id
from frazil.storage.store_errors import Diagnosis, Failure


def encode_version(found: Mapping[str, Any]) -> Version:
    """The version that a store's answer tells: what Amazon, Google and Azure compare."""
    return Version(json.dumps([found.get("e_tag"), found.get("version")]))


def decode_version(version: Version) -> dict[str, str] | None:
    """A version as a condition of obstore's, or None if it is not one of ours."""
    try:
        e_tag, number = json.loads(version.token)
    except (ValueError, TypeError):
        return None
    # obstore takes no None here, although it says so.
    given = {"e_tag": e_tag, "version": number}
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Upload:
    """An object on its way: what every try sends, with an id that tells it from all others."""

    clients: Clients
    key: str
    data: Buffer
    attributes: Mapping[str, str]
    uses_metadata: bool
    write_id: str = field(default_factory=lambda: uuid4().hex)

    def put(self, mode: Any) -> Version | Diagnosis:
        """Try once, under a condition."""
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
            # Some stores tell a version only to those who ask for it.
            found = self.look()
            return found.version if found is not None else encode_version(outcome)
        return encode_version(outcome)

    def look(self) -> Found | None:
        """What is there, and whether it is this upload."""
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
    """A write that must find nothing."""

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
    """A write that must find a version.

    Stores of Ceph's family compare the ETag with the quotes that belong to it, and so never find one
    equal: if what is there is what was read, it is asked for without them.
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
    """What was learned about a store's idea of ETags."""

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
