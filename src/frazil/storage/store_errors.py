"""What a store's failure means: obstore's errors, translated once.

No translated error is chained to the one it comes from, whose text may hold a signed address.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from obstore.exceptions import (
    AlreadyExistsError,
    NotSupportedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.exceptions import PermissionDeniedError as ForbiddenError

from frazil.errors import (
    IncompleteResponseError,
    ObjectNotFoundError,
    ObjectRangeError,
    PermissionDeniedError,
    StorageError,
    StorageTimeoutError,
    StorageUnreachableError,
    ThrottledError,
    UnsafeStorageError,
)
from frazil.urls import is_secret

_RANGE_SIGNS = ("Wanted range starting at", "CONTENT_RANGE", "Requested range was invalid")


class Failure(Enum):
    """Why a request failed, as far as the next step depends on it."""

    ABSENT = "absent"
    CONDITION = "condition"
    """The store says that what was required does not hold."""
    CONFLICT = "conflict"
    """Something else was happening to the object; nothing is known."""
    FORBIDDEN = "forbidden"
    RANGE = "range"
    UNSUPPORTED = "unsupported"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    """The store answers that it can't, now."""
    UNREACHABLE = "unreachable"
    """No answer at all."""
    INCOMPLETE = "incomplete"
    """An answer that ends too early."""
    OTHER = "other"

    @property
    def leaves_doubt(self) -> bool:
        """Whether a write that failed so may have happened."""
        return self in _DOUBTFUL


_DOUBTFUL = frozenset(
    (Failure.TIMEOUT, Failure.UNAVAILABLE, Failure.UNREACHABLE, Failure.INCOMPLETE)
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A failure with what to tell about it, which holds no secret."""

    failure: Failure
    text: str
    tries: int

    def to_error(self, action: str, key: str) -> StorageError:
        """The error to raise for something that was tried with a key."""
        tries = f" after {self.tries} tries" if self.tries > 1 else ""
        lead = _LEADS.get(self.failure, "")
        message = f"can't {action} {key!r}{tries}: {lead}{self.text}"
        if self.failure is Failure.ABSENT and not self._is_of_the_bucket():
            return ObjectNotFoundError(f"object not found: there is no {key!r}")
        return _ERRORS.get(self.failure, StorageError)(message)

    def _is_of_the_bucket(self) -> bool:
        return any(code in self.text for code in ("NoSuchBucket", "ContainerNotFound"))


_ERRORS: dict[Failure, type[StorageError]] = {
    Failure.FORBIDDEN: PermissionDeniedError,
    Failure.RANGE: ObjectRangeError,
    Failure.TIMEOUT: StorageTimeoutError,
    Failure.UNAVAILABLE: ThrottledError,
    Failure.UNREACHABLE: StorageUnreachableError,
    Failure.INCOMPLETE: IncompleteResponseError,
    Failure.CONFLICT: ThrottledError,
    Failure.UNSUPPORTED: UnsafeStorageError,
}

_LEADS = {
    Failure.FORBIDDEN: "the storage refuses these credentials, or wants some: ",
    Failure.UNREACHABLE: "the storage can't be reached",
    Failure.INCOMPLETE: "the response ended too early: ",
}

# What the client's own error says of the cause, which its text leaves out.
_CAUSES = (
    ("ConnectionRefused", "connection refused"),
    ("Connection refused", "connection refused"),
    ("dns error", "unknown host name"),
    ("ConnectionReset", "connection reset"),
    ("IncompleteMessage", "connection closed before a response"),
    ("NetworkUnreachable", "network unreachable"),
    ("InvalidCertificate", "invalid certificate"),
)

_BY_STATUS = {
    404: Failure.ABSENT,
    409: Failure.CONFLICT,
    412: Failure.CONDITION,
    401: Failure.FORBIDDEN,
    403: Failure.FORBIDDEN,
    408: Failure.TIMEOUT,
    416: Failure.RANGE,
    429: Failure.UNAVAILABLE,
    501: Failure.UNSUPPORTED,
}

_BY_TYPE = (
    (FileNotFoundError, Failure.ABSENT),
    (PreconditionError, Failure.CONDITION),
    (AlreadyExistsError, Failure.CONDITION),
    (ForbiddenError, Failure.FORBIDDEN),
    (UnauthenticatedError, Failure.FORBIDDEN),
    (NotSupportedError, Failure.OTHER),
    (NotImplementedError, Failure.OTHER),
)


def diagnose(error: Exception, secrets: Iterable[str] = ()) -> Diagnosis:
    """What an error of obstore's means. Its text is all there is to tell many of them apart."""
    whole = str(error)
    text = redact(whole.partition("\n\nDebug source:")[0].strip(), secrets)
    retries = re.search(r"after (\d+) retries", text)
    tries = 1 + (int(retries[1]) if retries else 0)
    failure = _classify(error, whole)
    if failure is Failure.UNREACHABLE:
        cause = next((said for sign, said in _CAUSES if sign in whole), None)
        text = f", {cause}: {text}" if cause else f": {text}"
    return Diagnosis(failure, text, tries)


def _classify(error: Exception, whole: str) -> Failure:
    found = re.search(r"status code: (\d{3})", whole)
    if found is not None:
        status = int(found[1])
        if status in _BY_STATUS and not _is_missing_for_update(error, status):
            # Azure says 409 where others say 412: its code tells that the object is there.
            if status == 409 and "BlobAlreadyExists" in whole:
                return Failure.CONDITION
            return _BY_STATUS[status]
        if status >= 500:
            return Failure.UNAVAILABLE
    for kind, failure in _BY_TYPE:
        if isinstance(error, kind):
            return failure
    if any(sign in whole for sign in _RANGE_SIGNS):
        # obstore's own findings: a server answers with nothing instead of 416, or a disk has less.
        return Failure.RANGE
    if "TimedOut" in whole or "timed out" in whole:
        return Failure.TIMEOUT
    if any(sign in whole for sign in ("IncompleteBody", "body error", "UnexpectedEof")):
        return Failure.INCOMPLETE
    if "HTTP error" in whole or "error sending request" in whole:
        return Failure.UNREACHABLE
    return Failure.OTHER


def _is_missing_for_update(error: Exception, status: int) -> bool:
    # S3 answers a replacement of nothing with 404, which obstore knows to be a failed condition.
    return status == 404 and isinstance(error, PreconditionError)


_QUERY = re.compile(r"([?&])([\w-]+)=[^&\s\"']+")
_SECRET_PATTERNS = (
    (re.compile(r"(?i)(bearer\s+)[^\s\"',]+"), r"\1****"),
    (re.compile(r"(://)[^/@\s:]+:[^/@\s]+@"), r"\1****@"),
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without secrets: those that are known, and what looks like one."""
    for secret in secrets:
        if len(secret) > 3:
            text = text.replace(secret, "****")
    for pattern, replacement in _SECRET_PATTERNS:
        text = pattern.sub(replacement, text)
    return _QUERY.sub(_cover_parameter, text)


def _cover_parameter(found: "re.Match[str]") -> str:
    # What belongs to a signature is covered as a whole.
    is_signed = found[2].lower().startswith(("x-amz-", "x-goog-"))
    return f"{found[1]}{found[2]}=****" if is_signed or is_secret(found[2]) else found[0]
