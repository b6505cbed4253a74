"""Exceptions of Frazil with their error codes, grouped by how to handle them.

::

    IcechunkError
    ├── ConflictError             rebase, or start again from the new tip
    │   ├── RebaseFailedError     resolve each conflict
    │   └── DivergedError         decide which side's commits to keep
    ├── NotFoundError             request an existing item (also a KeyError)
    │   ├── NodeNotFoundError
    │   ├── SnapshotNotFoundError
    │   ├── RefNotFoundError
    │   └── RepositoryNotFoundError
    ├── AlreadyExistsError        choose another name
    ├── ReadOnlyError             open a writable session
    ├── InvalidInputError         correct the call (also a ValueError)
    │   ├── InvalidTypeError      pass the type that the message names (also a TypeError)
    │   ├── InvalidChunksError    correct the listed chunks
    │   ├── InvalidSourcesError   correct or exclude the listed files
    │   │   └── FailedChecksError inspect the findings
    │   └── OverlappingTasksError align the regions of tasks with chunk boundaries
    ├── SessionStateError         use another kind of session, or another order of calls
    ├── StorageError              check the storage, perhaps retry
    │   ├── ObjectNotFoundError
    │   ├── ObjectExistsError
    │   ├── VersionMismatchError      read the object again and decide again
    │   ├── ObjectRangeError
    │   ├── PermissionDeniedError     check the credentials
    │   ├── ThrottledError            wait and retry
    │   ├── StorageUnreachableError   check the address and the network
    │   ├── IncompleteResponseError   retry
    │   ├── StorageTimeoutError       increase the timeout
    │   ├── NotDurableError           check the disk, then the object
    │   └── UnsafeStorageError        commit to another storage
    ├── FormatError               restore or repair the named file
    ├── SetupError                install or configure what the message names
    ├── JobError                  check the logs of the cluster
    │   ├── JobCancelledError     the job was cancelled
    │   └── LeaseLostError        run the job again
    └── InternalError             report a bug
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar

from frazil.lazy import package_name

__all__ = [
    "AlreadyExistsError",
    "ConflictError",
    "DivergedError",
    "ErrorKind",
    "FailedChecksError",
    "FormatError",
    "IcechunkError",
    "IncompleteResponseError",
    "InternalError",
    "InvalidChunksError",
    "InvalidInputError",
    "InvalidSourcesError",
    "InvalidTypeError",
    "JobCancelledError",
    "JobError",
    "LeaseLostError",
    "NodeNotFoundError",
    "NotDurableError",
    "NotFoundError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "ObjectRangeError",
    "OverlappingTasksError",
    "PermissionDeniedError",
    "ReadOnlyError",
    "RebaseFailedError",
    "RefNotFoundError",
    "RepositoryNotFoundError",
    "SessionStateError",
    "SetupError",
    "SnapshotNotFoundError",
    "StorageError",
    "StorageTimeoutError",
    "StorageUnreachableError",
    "ThrottledError",
    "UnsafeStorageError",
    "VersionMismatchError",
]


class ErrorKind(StrEnum):
    """Values of `IcechunkError.kind`."""

    # concurrent updates
    COMMIT_CONFLICT = "commit-conflict"
    BRANCH_UPDATE_CONFLICT = "branch-update-conflict"
    REBASE_FAILED = "rebase-failed"
    CONFIG_UPDATED = "config-updated"
    REPO_INFO_UPDATED = "repo-info-updated"
    UPDATE_ATTEMPTS_EXHAUSTED = "update-attempts-exhausted"
    GC_DELETES_FAILING = "gc-deletes-failing"

    # not found
    NODE_NOT_FOUND = "node-not-found"
    ANCESTOR_NODE_NOT_FOUND = "ancestor-node-not-found"
    CHUNK_NOT_FOUND = "chunk-not-found"
    KEY_NOT_FOUND = "key-not-found"
    SNAPSHOT_NOT_FOUND = "snapshot-not-found"
    NO_SNAPSHOT_AT_TIME = "no-snapshot-at-time"
    REF_NOT_FOUND = "ref-not-found"
    BRANCH_NOT_FOUND = "branch-not-found"
    TAG_NOT_FOUND = "tag-not-found"
    REPOSITORY_NOT_FOUND = "repository-not-found"
    MANIFEST_INFO_NOT_FOUND = "manifest-info-not-found"

    # already exists
    NODE_ALREADY_EXISTS = "node-already-exists"
    BRANCH_ALREADY_EXISTS = "branch-already-exists"
    TAG_ALREADY_EXISTS = "tag-already-exists"
    TAG_PREVIOUSLY_DELETED = "tag-previously-deleted"
    MOVE_WONT_OVERWRITE = "move-wont-overwrite"

    # read-only
    READ_ONLY_SESSION = "read-only-session"
    READ_ONLY_STORE = "read-only-store"
    READ_ONLY_STORAGE = "read-only-storage"
    READ_ONLY_REPOSITORY = "read-only-repository"

    # invalid arguments
    INVALID_KEY = "invalid-key"
    INVALID_CHUNK_INDEX = "invalid-chunk-index"
    ZERO_LENGTH_CHUNK = "zero-length-chunk"
    INVALID_MANIFEST_SPLIT_INDEX = "invalid-manifest-split-index"
    INVALID_REF_TYPE = "invalid-ref-type"
    INVALID_REF_NAME = "invalid-ref-name"
    INVALID_SNAPSHOT_ID = "invalid-snapshot-id"
    INVALID_PATH = "invalid-path"
    BAD_KEY_PREFIX = "bad-key-prefix"
    BAD_METADATA = "bad-metadata"
    BAD_PREFIX = "bad-prefix"
    NOT_AN_ARRAY = "not-an-array"
    NOT_A_GROUP = "not-a-group"
    INVALID_BYTE_RANGE = "invalid-byte-range"
    INVALID_COMMIT_CONFIGURATION = "invalid-commit-configuration"
    INVALID_ARRAY_METADATA = "invalid-array-metadata"
    INVALID_FEATURE_FLAG = "invalid-feature-flag"
    INVALID_VIRTUAL_REF = "invalid-virtual-ref"
    INVALID_CREDENTIALS = "invalid-credentials"
    NO_CONTAINER_FOR_VIRTUAL_CHUNK = "no-container-for-virtual-chunk"
    UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER = "unauthorized-virtual-chunk-container"
    EMPTY_PREFIX_CREATION = "empty-prefix-creation"
    PARENT_DIRECTORY_NOT_CLEAN = "parent-directory-not-clean"
    BAD_SNAPSHOT_CHAIN_FOR_DIFF = "bad-snapshot-chain-for-diff"

    # not allowed in this state
    COMMIT_NOT_ALLOWED = "commit-not-allowed"
    MERGE_NOT_ALLOWED = "merge-not-allowed"
    CANNOT_FORK_READ_ONLY_SESSION = "cannot-fork-read-only-session"
    REARRANGE_SESSION_ONLY = "rearrange-session-only"
    NON_REARRANGE_SESSION = "non-rearrange-session"
    MOVE_INTO_SELF_OR_DESCENDANT = "move-into-self-or-descendant"
    MOVE_DESTINATION_PARENT_MISSING = "move-destination-parent-missing"
    MOVE_DESTINATION_PARENT_NOT_GROUP = "move-destination-parent-not-group"
    NO_CHANGES_TO_COMMIT = "no-changes-to-commit"
    NO_AMEND_FOR_INITIAL_COMMIT = "no-amend-for-initial-commit"
    NOT_ON_BRANCH = "not-on-branch"
    NO_SNAPSHOT = "no-snapshot"
    CANNOT_DELETE_MAIN = "cannot-delete-main"
    UNCOMMITTED_CHANGES = "uncommitted-changes"
    MERGE_FAILED = "merge-failed"
    NOT_ALLOWED = "not-allowed"
    UNIMPLEMENTED = "unimplemented"
    REBASE_TX_LOG_PRUNED = "rebase-tx-log-pruned"
    FEATURE_FLAG_DISABLED = "feature-flag-disabled"
    TAG_ERROR = "tag-error"
    INVALID_REPOSITORY_MIGRATION = "invalid-repository-migration"

    # storage
    OBJECT_NOT_FOUND = "object-not-found"
    OBJECT_STORE = "object-store"
    IO = "io"
    STORAGE_CONFIG = "storage-config"
    CANNOT_PARSE_URL = "cannot-parse-url"
    BAD_REDIRECT = "bad-redirect"
    SEMAPHORE_ACQUIRE = "semaphore-acquire"
    THROTTLED = "throttled"
    STORAGE_OTHER = "storage-other"
    VIRTUAL_CHUNK_FETCH = "virtual-chunk-fetch"
    VIRTUAL_CHUNK_MODIFIED = "virtual-chunk-modified"
    INVALID_OBJECT_SIZE = "invalid-object-size"

    # file format
    SERIALIZATION = "serialization"
    DESERIALIZATION = "deserialization"
    CONFIG_DESERIALIZATION = "config-deserialization"
    INVALID_FILE_FORMAT = "invalid-file-format"
    UNSUPPORTED_SPEC_VERSION = "unsupported-spec-version"
    UNSUPPORTED_OPERATION_FOR_VERSION = "unsupported-operation-for-version"
    SNAPSHOT_TIMESTAMP = "snapshot-timestamp"
    DUPLICATE_SNAPSHOT_ID = "duplicate-snapshot-id"

    # internal errors
    CONCURRENCY = "concurrency"
    FLUSH = "flush"
    PARTIAL_VALUES_PANIC = "partial-values-panic"
    CONFLICTING_PATH_NOT_FOUND = "conflicting-path-not-found"
    INCONSISTENT_MANIFESTS = "inconsistent-manifests"
    POISON_LOCK = "poison-lock"
    PICKLE = "pickle"
    UNKNOWN = "unknown"


class IcechunkError(Exception):
    """Base class of all errors; `message` is for people, `kind` is an `ErrorKind` for programs."""

    default_kind: ClassVar[str] = "unknown"

    def __init__(self, message: str, kind: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind or self.default_kind

    def __str__(self) -> str:
        # KeyError, a base of NotFoundError, would show the repr of the message.
        return self.message

    def __repr__(self) -> str:
        message = json.dumps(self.message, ensure_ascii=False)
        return f'{package_name()}.{type(self).__name__}(message={message}, kind="{self.kind}")'

    def __reduce__(self) -> tuple[object, ...]:
        # The keyword-only arguments of subclasses live in __dict__, which is restored last.
        return (_restore, (type(self), self.message), self.__dict__)


def _restore(cls: type[IcechunkError], message: str) -> IcechunkError:
    error = cls.__new__(cls, message)
    error.args = (message,)
    return error


def _describe_conflict(expected: str | None, actual: str | None, kind: str) -> str:
    """Return the official message of a conflict, which programs match."""
    first, second = ("None" if id is None else f'Some("{id}")' for id in (expected, actual))
    if kind == "branch-update-conflict":
        return f"branch update conflict: `({first}) != ({second})`"
    return f"Failed to commit, expected parent: {first}, actual parent: {second}"


class ConflictError(IcechunkError):
    """The branch moved since this session started."""

    default_kind = "commit-conflict"

    def __init__(
        self,
        expected_parent: str | None = None,
        actual_parent: str | None = None,
        message: str | None = None,
        kind: str | None = None,
        *,
        addition: str = "",
    ) -> None:
        if message is None:
            message = _describe_conflict(expected_parent, actual_parent, kind or self.default_kind)
            message += f": {addition}" if addition else ""
        super().__init__(message, kind=kind)
        self.expected_parent = expected_parent
        self.actual_parent = actual_parent


class RebaseFailedError(ConflictError):
    """The rebase found conflicts that the solver does not resolve."""

    default_kind = "rebase-failed"

    def __init__(
        self,
        snapshot: str,
        conflicts: Iterable[object] = (),
        message: str | None = None,
        kind: str | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.conflicts = list(conflicts)
        official = f"Rebase failed on snapshot {snapshot}: {len(self.conflicts)} conflicts found"
        super().__init__(message=official if message is None else message, kind=kind)


class DivergedError(ConflictError):
    """Both sides have commits that the other lacks, so retrying can't succeed."""

    default_kind = "branch-update-conflict"


class NotFoundError(IcechunkError, KeyError):
    """The requested item does not exist."""

    default_kind = "key-not-found"


class NodeNotFoundError(NotFoundError):
    """There is no group, array or chunk at this path."""

    default_kind = "node-not-found"


class SnapshotNotFoundError(NotFoundError):
    """There is no snapshot with this id or at this time."""

    default_kind = "snapshot-not-found"


class RefNotFoundError(NotFoundError):
    """There is no branch or tag with this name."""

    default_kind = "ref-not-found"


class RepositoryNotFoundError(NotFoundError):
    """There is no repository at this location."""

    default_kind = "repository-not-found"


class AlreadyExistsError(IcechunkError):
    """The item to create already exists."""

    default_kind = "node-already-exists"


class ReadOnlyError(IcechunkError):
    """Write to a read-only session, store, storage or repository."""

    default_kind = "read-only-session"


class InvalidInputError(IcechunkError, ValueError):
    """Invalid argument, key, index or metadata value."""

    default_kind = "invalid-key"


class InvalidTypeError(InvalidInputError, TypeError):
    """Argument of a wrong type; the message says what to pass."""


class InvalidChunksError(InvalidInputError):
    """Some of the chunks to set are invalid, so none was set; `coordinates` lists the invalid ones."""

    default_kind = "invalid-chunk-index"

    def __init__(
        self, message: str, *, coordinates: Iterable[Sequence[int]], kind: str | None = None
    ) -> None:
        super().__init__(message, kind=kind)
        self.coordinates = [tuple(each) for each in coordinates]


class InvalidSourcesError(InvalidInputError):
    """Source files that can't be ingested as they are.

    `files` lists them, and `problems` what is wrong, each with its files.
    """

    def __init__(
        self,
        message: str,
        *,
        files: Iterable[str],
        kind: str | None = None,
        problems: Iterable[Any] = (),
    ) -> None:
        super().__init__(message, kind=kind)
        self.files = tuple(dict.fromkeys(files))
        self.problems = tuple(problems)

    def explain(self, *names: str) -> str:
        """Return what is wrong with a file, which may have several names."""
        own = [each for each in self.problems if not set(names).isdisjoint(each.files)]
        texts = dict.fromkeys(f"{each.subject}: {each.text}" for each in own)
        return "; ".join(texts) or self.message


class FailedChecksError(InvalidSourcesError):
    """Quality checks rejected the data to publish; `findings` lists the results."""

    default_kind = "not-allowed"

    def __init__(
        self,
        message: str,
        *,
        findings: Iterable[object],
        files: Iterable[str] = (),
        kind: str | None = None,
    ) -> None:
        super().__init__(message, files=files, kind=kind)
        self.findings = list(findings)


class OverlappingTasksError(InvalidInputError):
    """Several tasks of a job wrote the same chunks, so no results were merged."""

    default_kind = "not-allowed"

    def __init__(
        self,
        message: str,
        *,
        chunks: Mapping[str, Sequence[tuple[int, ...]]],
        kind: str | None = None,
    ) -> None:
        super().__init__(message, kind=kind)
        self.chunks = {path: list(found) for path, found in chunks.items()}
        """Coordinates of the chunks, by path of the array."""


class SessionStateError(IcechunkError):
    """The state of the session or repository does not allow this operation."""

    default_kind = "not-allowed"


class StorageError(IcechunkError):
    """The storage failed or is misconfigured; often transient."""

    default_kind = "storage-other"


class ObjectNotFoundError(StorageError):
    """There is no object with this key."""

    default_kind = "object-not-found"


class ObjectExistsError(StorageError):
    """The object to create already exists."""

    default_kind = "object-store"


class VersionMismatchError(StorageError):
    """The object to replace is no longer the version that was read."""

    default_kind = "object-store"


class ObjectRangeError(StorageError):
    """The object does not contain the requested range."""

    default_kind = "invalid-object-size"


class PermissionDeniedError(StorageError):
    """Credentials are missing, or the storage rejects them."""

    default_kind = "object-store"


class ThrottledError(StorageError):
    """The storage responds, but is still overloaded or failing after all retries."""

    default_kind = "throttled"


class StorageUnreachableError(StorageError):
    """No connection to the storage: refused, unknown host, or closed before any response."""

    default_kind = "object-store"


class IncompleteResponseError(StorageError):
    """The storage closed the connection in the middle of a response."""

    default_kind = "io"


class StorageTimeoutError(StorageError):
    """The storage did not respond in time."""

    default_kind = "object-store"


class NotDurableError(StorageError):
    """The object was written, but the disk did not confirm it: a power loss may undo the write."""

    default_kind = "io"


class UnsafeStorageError(StorageError):
    """The storage does not support what a safe commit requires."""

    default_kind = "storage-config"


class FormatError(IcechunkError):
    """A file can't be decoded, or a value can't be encoded in its file."""

    default_kind = "deserialization"


class SetupError(IcechunkError):
    """A required package or configuration is missing."""

    default_kind = "unknown"


class JobError(IcechunkError):
    """A job on a cluster failed; nothing was committed."""

    default_kind = "unknown"


class JobCancelledError(JobError):
    """A job was cancelled before it committed anything."""

    default_kind = "unknown"


class LeaseLostError(JobError):
    """A job could not renew its lease in time; its objects may have been garbage collected."""

    default_kind = "unknown"


class InternalError(IcechunkError):
    """Internal inconsistency, caused by a bug."""

    default_kind = "unknown"


_EXTRAS = {
    "dask": "dask",
    "eccodes": "grib",
    "gribberish": "grib",
    "h5netcdf": "virtual",
    "h5py": "virtual",
    "openlineage": "observe",
    "opentelemetry": "observe",
    "pandas": "spark",
    "pyarrow": "spark",
    "pydantic": "datasets",
    "pyproj": "geo",
    "pyspark": "spark",
    "pystac": "observe",
    "shapely": "geo",
    "sqlglot": "spark",
    "starlette": "web",
    "uvicorn": "web",
    "virtualizarr": "virtual",
    "xarray": "xarray",
}


def name_install(package: str) -> str:
    """Return the command that installs a missing package: with the extra of Frazil that has it."""
    extra = _EXTRAS.get(package.partition(".")[0])
    return f"pip install 'frazil[{extra}]'" if extra else f"pip install {package.partition('.')[0]}"


def explain_missing(error: ModuleNotFoundError, what: str) -> str:
    """Explain which package something needs, and how to install it."""
    missing = (error.name or "").partition(".")[0]
    return f"{what} needs {missing}, which is not installed: {name_install(missing)}"


# Tracebacks show the classes shared with the official library under their public names.
for _public in (
    IcechunkError,
    ConflictError,
    RebaseFailedError,
    NotFoundError,
    NodeNotFoundError,
    SnapshotNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
    AlreadyExistsError,
    ReadOnlyError,
    InvalidInputError,
    SessionStateError,
    StorageError,
    FormatError,
    InternalError,
):
    _public.__module__ = "frazil"
del _public
