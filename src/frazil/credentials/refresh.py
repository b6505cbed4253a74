"""Credentials that a function of the user's renews when they expire."""

import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Generic, Protocol, TypeVar

from frazil.errors import IcechunkError, InvalidInputError, PermissionDeniedError

# Renewed this early, so that a request that starts now ends before they expire.
_MARGIN = timedelta(seconds=5)


class Expiring(Protocol):
    """What may expire."""

    @property
    def expires_after(self) -> datetime | None: ...


_Credential = TypeVar("_Credential", bound=Expiring)


class Refresher(Generic[_Credential]):
    """Credentials as of now: the ones at hand, or after their end new ones, asked for once.

    Safe to call from many threads. Pickled, it holds the function and what the user chose to send
    along, never what the function returned here.
    """

    def __init__(self, pickled_function: bytes, initial: _Credential | None) -> None:
        self._pickled_function = pickled_function
        self._initial = initial
        self._current = initial
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._pickled_function, self._initial))

    def __repr__(self) -> str:
        return "<refreshable credentials>"

    def __call__(self) -> _Credential:
        """Raises PermissionDeniedError if the user's function fails."""
        with self._lock:
            if self._current is None or is_expired(self._current):
                self._current = self._ask()
            return self._current

    def _ask(self) -> _Credential:
        failed = ""
        try:
            get_credentials: Callable[[], _Credential] = pickle.loads(self._pickled_function)
            if not callable(get_credentials):
                raise IcechunkError(f"{type(get_credentials).__name__!r} object is not callable")
            return get_credentials()
        except IcechunkError as error:
            failed = f"{type(error).__name__}: {error}"  # of ours, so meant to be read
        except Exception as error:
            failed = type(error).__name__
        # Outside of the handler: what the function said may tell secrets, so it is not chained.
        raise PermissionDeniedError(f"the function that gets credentials raised {failed}")


def is_expired(credential: Expiring) -> bool:
    """Whether credentials are over, or as good as that."""
    end = credential.expires_after
    return end is not None and datetime.now(UTC) >= in_utc(end) - _MARGIN


def in_utc(moment: datetime) -> datetime:
    """A time with its zone; one without is taken to be UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def pickle_function(get_credentials: Callable[[], _Credential]) -> bytes:
    """The function as it travels between processes."""
    try:
        return pickle.dumps(get_credentials)
    except Exception as error:
        raise InvalidInputError(
            f"the function that gets credentials can't be pickled: {error}", kind="storage-config"
        ) from error
