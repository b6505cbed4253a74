"""How a storage is used: retries, timeouts, concurrency, conditions, storage classes.

The four `Storage…Settings` are what users write, so they can be changed in place and every field may
be None, which leaves the choice to the storage. `EffectiveSettings` is what a storage works by: frozen,
with every choice made.
"""

from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from frazil.rendering import Rendered, effective, effective_value


@dataclass(slots=True, repr=False)
class StorageConcurrencySettings(Rendered):
    """How one large object is read and written in parts at once."""

    max_concurrent_requests_for_object: int | None = field(default=None, metadata=effective(18))
    ideal_concurrent_request_size: int | None = field(
        default=None, metadata=effective(12 * 1024 * 1024)
    )


@dataclass(slots=True, repr=False)
class StorageRetriesSettings(Rendered):
    """How often a failing request is tried, and the pauses between."""

    max_tries: int | None = field(default=None, metadata=effective(10))
    """Including the first one."""
    initial_backoff_ms: int | None = field(default=None, metadata=effective(100))
    max_backoff_ms: int | None = field(default=None, metadata=effective(180_000))


@dataclass(slots=True, repr=False)
class StorageTimeoutSettings(Rendered):
    """How long to wait; None for what the storage thinks right."""

    connect_timeout_ms: int | None = None
    read_timeout_ms: int | None = None
    """The longest silence while an answer is read."""
    operation_timeout_ms: int | None = None
    """After this no further try is made."""
    operation_attempt_timeout_ms: int | None = None
    """One try, from the connection to the last byte; writes get time for their bytes on top."""


@dataclass(slots=True, repr=False)
class StorageSettings(Rendered):
    """Everything a user can set about the use of a storage."""

    # In the order in which the official constructor takes them; it shows them in another.
    concurrency: StorageConcurrencySettings | None = field(
        default=None, metadata=effective(StorageConcurrencySettings())
    )
    retries: StorageRetriesSettings | None = field(
        default=None, metadata=effective(StorageRetriesSettings())
    )
    unsafe_use_conditional_create: bool | None = field(default=None, metadata=effective(True))
    unsafe_use_conditional_update: bool | None = field(default=None, metadata=effective(True))
    unsafe_use_metadata: bool | None = field(default=None, metadata=effective(True))
    storage_class: str | None = None
    metadata_storage_class: str | None = None
    chunks_storage_class: str | None = None
    minimum_size_for_multipart_upload: int | None = field(
        default=None, metadata=effective(100 * 1024 * 1024)
    )
    timeouts: StorageTimeoutSettings | None = None


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """What holds, all defaults applied."""

    max_concurrent_requests_for_object: int
    ideal_concurrent_request_size: int
    max_tries: int
    initial_backoff_seconds: float
    max_backoff_seconds: float
    uses_conditional_create: bool
    uses_conditional_update: bool
    uses_metadata: bool
    storage_class: str | None
    metadata_storage_class: str | None
    chunks_storage_class: str | None
    minimum_size_for_multipart_upload: int
    connect_timeout_seconds: float | None
    read_timeout_seconds: float | None
    operation_timeout_seconds: float | None
    attempt_timeout_seconds: float | None


def resolve_settings(settings: StorageSettings) -> EffectiveSettings:
    """What settings mean."""
    concurrency = settings.concurrency or StorageConcurrencySettings()
    retries = settings.retries or StorageRetriesSettings()
    timeouts = settings.timeouts or StorageTimeoutSettings()
    return EffectiveSettings(
        max_concurrent_requests_for_object=effective_value(
            concurrency, "max_concurrent_requests_for_object"
        ),
        ideal_concurrent_request_size=effective_value(concurrency, "ideal_concurrent_request_size"),
        max_tries=max(1, effective_value(retries, "max_tries")),
        initial_backoff_seconds=effective_value(retries, "initial_backoff_ms") / 1000,
        max_backoff_seconds=effective_value(retries, "max_backoff_ms") / 1000,
        uses_conditional_create=effective_value(settings, "unsafe_use_conditional_create"),
        uses_conditional_update=effective_value(settings, "unsafe_use_conditional_update"),
        uses_metadata=effective_value(settings, "unsafe_use_metadata"),
        storage_class=settings.storage_class,
        metadata_storage_class=settings.metadata_storage_class or settings.storage_class,
        chunks_storage_class=settings.chunks_storage_class or settings.storage_class,
        minimum_size_for_multipart_upload=effective_value(
            settings, "minimum_size_for_multipart_upload"
        ),
        connect_timeout_seconds=_seconds(timeouts.connect_timeout_ms),
        read_timeout_seconds=_seconds(timeouts.read_timeout_ms),
        operation_timeout_seconds=_seconds(timeouts.operation_timeout_ms),
        attempt_timeout_seconds=_seconds(timeouts.operation_attempt_timeout_ms),
    )


_Settings = TypeVar("_Settings", bound=Rendered)


def merge_settings(
    below: _Settings, above: _Settings | None, *, whole: frozenset[str] = frozenset()
) -> _Settings:
    """Settings in which `above` wins wherever it says something; a copy through and through.

    Fields named in `whole` are not merged in turn, but taken from above as they are.
    """
    merged = deepcopy(below)
    if above is not None:
        _overlay(merged, above, whole)
    return merged


def _overlay(target: Any, above: Any, whole: frozenset[str]) -> None:
    for each in fields(above):
        upper, lower = getattr(above, each.name), getattr(target, each.name)
        if is_dataclass(upper) and lower is not None and each.name not in whole:
            _overlay(lower, upper, whole)
        elif upper is not None:
            setattr(target, each.name, deepcopy(upper))


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


LOCAL_DEFAULTS = StorageSettings(
    concurrency=StorageConcurrencySettings(5, 4096),
    retries=StorageRetriesSettings(1, 0, 0),
    unsafe_use_metadata=False,
)
"""A disk: our own swaps safely, so unlike the official one it does not switch that off."""

MEMORY_DEFAULTS = StorageSettings(
    concurrency=StorageConcurrencySettings(5, 1), retries=StorageRetriesSettings(1, 0, 0)
)
