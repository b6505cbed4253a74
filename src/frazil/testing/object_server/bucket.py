"""Objects with versions and exact conditions: what an object store promises, in memory."""

import hashlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from uuid import uuid4


class Conditions(Enum):
    """What a store makes of the conditions of a write."""

    EXACT = "exact"
    IGNORED = "ignored"
    """As some emulators and gateways do."""
    NOT_IMPLEMENTED = "not implemented"
    """As OpenStack Swift does."""
    LITERAL = "literal"
    """Compared with the ETag without its quotes, as Ceph does."""


class Refusal(Exception):  # noqa: N818 - an answer, not a mistake
    """What the store says instead of doing it."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(status, code)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold for a write to happen."""

    is_absent: bool = False
    e_tag: str | None = None
    generation: int | None = None

    @property
    def is_given(self) -> bool:
        return self != NO_CONDITION


NO_CONDITION = Condition()


@dataclass(frozen=True, slots=True)
class Description:
    """What a client says about an object: its own metadata, and headers of HTTP."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as it lies in a bucket."""

    data: bytes
    e_tag: str
    generation: int
    modified_at: float
    description: Description


@dataclass(frozen=True, slots=True)
class _Upload:
    description: Description
    parts: dict[int, bytes]


class Bucket:
    """Objects by key; every method is one atomic step."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._objects: dict[str, StoredObject] = {}
        self._uploads: dict[str, _Upload] = {}
        self._writes = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> StoredObject:
        found = self._objects.get(key)
        if found is None:
            raise Refusal(404, "NoSuchKey")
        return found

    def keys(self) -> list[str]:
        """All keys in the order of their bytes."""
        with self._lock:
            keys = list(self._objects)
        return sorted(keys, key=str.encode)

    def count_writes(self) -> int:
        """How many objects were written so far, one that was written twice counting twice."""
        return self._writes

    def put(
        self, key: str, data: bytes, description: Description, condition: Condition = NO_CONDITION
    ) -> StoredObject:
        e_tag = _hash(data)
        with self._lock:
            self._check(self._objects.get(key), condition)
            self._writes += 1
            stored = StoredObject(data, e_tag, self._writes, time.time(), description)
            self._objects[key] = stored
            return stored

    def copy(self, source: "Bucket", key: str, target: str, if_match: str | None) -> StoredObject:
        found = source.get(key)
        if if_match is not None and not is_same_tag(if_match, found.e_tag):
            raise Refusal(412, "PreconditionFailed")
        return self.put(target, found.data, found.description)

    def delete(self, key: str) -> bool:
        """Whether there was something to delete."""
        with self._lock:
            return self._objects.pop(key, None) is not None

    def start_upload(self, description: Description) -> str:
        upload = uuid4().hex
        with self._lock:
            self._uploads[upload] = _Upload(description, {})
        return upload

    def put_part(self, upload: str, number: int, data: bytes) -> str:
        with self._lock:
            if upload not in self._uploads:
                raise Refusal(404, "NoSuchUpload")
            self._uploads[upload].parts[number] = data
        return _hash(data)

    def complete_upload(self, upload: str, key: str, condition: Condition) -> StoredObject:
        found = self._uploads.get(upload)
        if found is None:
            raise Refusal(404, "NoSuchUpload")
        data = b"".join(found.parts[number] for number in sorted(found.parts))
        stored = self.put(key, data, found.description, condition)
        self.abort_upload(upload)
        return stored

    def abort_upload(self, upload: str) -> None:
        with self._lock:
            self._uploads.pop(upload, None)

    def _check(self, found: StoredObject | None, condition: Condition) -> None:
        if not condition.is_given or self._conditions is Conditions.IGNORED:
            return
        if self._conditions is Conditions.NOT_IMPLEMENTED:
            raise Refusal(501, "NotImplemented")
        if condition.is_absent and found is not None:
            raise Refusal(412, "PreconditionFailed")
        if condition.e_tag is not None:
            if found is None:
                raise Refusal(404, "NoSuchKey")
            if self._conditions is Conditions.LITERAL and condition.e_tag.startswith('"'):
                raise Refusal(412, "PreconditionFailed")
            if not is_same_tag(condition.e_tag, found.e_tag):
                raise Refusal(412, "PreconditionFailed")
        if condition.generation is not None:
            generation = 0 if found is None else found.generation
            if generation != condition.generation:
                raise Refusal(412, "PreconditionFailed")


def is_same_tag(given: str, e_tag: str) -> bool:
    """Whether two ETags are equal; S3 takes them with and without quotes, and clients send both."""
    return given.strip('"') == e_tag.strip('"')


def _hash(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
