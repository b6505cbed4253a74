"""How an HTTP client is to behave: a pure plan from settings, in the words of obstore.

A client has one deadline for a whole request, so there is one client for each kind of request: a
deadline that is right for a small answer would cut a large write short.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any

from frazil.errors import InvalidInputError
from frazil.storage.settings import EffectiveSettings
from frazil.version import __version__

DEFAULT_SILENCE_SECONDS = 60.0
_DEFAULT_RETRY_SECONDS = 180.0
# No whole-request deadline where none is asked for: silence is what tells that nothing will come.
_NO_DEADLINE_SECONDS = 24 * 3600.0
# Slower than this, a write counts as stuck.
_SLOWEST_BYTES_PER_SECOND = 128 * 1024


class Purpose(Enum):
    """What a client is for."""

    READ = "read"
    WRITE = "write"
    CONDITIONAL_WRITE = "conditional write"
    """Never tried again by the client: each answer must be seen to know what happened."""
    SINGLE_DELETE = "single delete"
    """Without the request for many at once, which not every store knows."""


_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class Headers:
    """What goes out with every request besides what must."""

    read: Mapping[str, str] = field(default_factory=dict, repr=False)
    write: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        return (*self.read.values(), *self.write.values())


def merge_headers(
    both: Mapping[str, str] | None,
    read: Mapping[str, str] | None,
    write: Mapping[str, str] | None,
) -> Headers:
    """Headers for both kinds of requests; those for one kind win.

    Raises InvalidInputError, a ValueError, for what HTTP has no place for.
    """
    for name, value in ((n, v) for each in (both, read, write) for n, v in (each or {}).items()):
        # The value may be a secret, so it is not shown.
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise InvalidInputError(f"invalid HTTP header {name!r}", kind="storage-config")
    return Headers({**(both or {}), **(read or {})}, {**(both or {}), **(write or {})})


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """One client: what obstore calls client options and retry configuration."""

    options: Mapping[str, Any]
    retries: Mapping[str, Any]
    purpose: Purpose = Purpose.READ


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Writes up to a size, which share a client."""

    max_bytes: int


SIZE_CLASSES = (SizeClass(8 << 20), SizeClass(128 << 20), SizeClass(5 << 30))


def size_class(size_bytes: int) -> SizeClass:
    """The class of a write; what is larger than one request can be is of the last."""
    return next((each for each in SIZE_CLASSES if size_bytes <= each.max_bytes), SIZE_CLASSES[-1])


def plan_client(
    settings: EffectiveSettings,
    purpose: Purpose,
    writes: SizeClass,
    headers: Headers,
    silence_seconds: float | None,
    user_agent: str = "",
) -> ClientPlan:
    """The client for a purpose. `silence_seconds` None waits for ever."""
    is_read = purpose is Purpose.READ
    options: dict[str, Any] = {"user_agent": f"frazil/{__version__} {user_agent}".rstrip()}
    if settings.connect_timeout_seconds is not None:
        options["connect_timeout"] = timedelta(seconds=settings.connect_timeout_seconds)
    if settings.read_timeout_seconds is not None:
        silence_seconds = settings.read_timeout_seconds
    deadline = settings.attempt_timeout_seconds
    if not is_read:
        # What the client calls silence begins when it starts to send, so a write has no other
        # limit than its deadline.
        allowance = writes.max_bytes / _SLOWEST_BYTES_PER_SECOND
        base = deadline if deadline is not None else silence_seconds
        deadline = None if base is None else base + allowance
    elif silence_seconds is not None:
        options["read_timeout"] = timedelta(seconds=silence_seconds)
    options["timeout"] = timedelta(seconds=_NO_DEADLINE_SECONDS if deadline is None else deadline)
    if chosen := headers.read if is_read else headers.write:
        options["default_headers"] = dict(chosen)
    return ClientPlan(options, _plan_retries(settings, purpose), purpose)


def _plan_retries(settings: EffectiveSettings, purpose: Purpose) -> dict[str, Any]:
    tries = 1 if purpose is Purpose.CONDITIONAL_WRITE else settings.max_tries
    return {
        "max_retries": tries - 1,
        "retry_timeout": timedelta(
            seconds=settings.operation_timeout_seconds or _DEFAULT_RETRY_SECONDS
        ),
        "backoff": {
            "init_backoff": timedelta(seconds=settings.initial_backoff_seconds),
            "max_backoff": timedelta(seconds=settings.max_backoff_seconds),
            "base": 2,
        },
    }
