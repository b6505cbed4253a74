"""The clients of a storage in this process: opened when needed, each request counted and diagnosed."""

import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from obstore.store import ObjectStore

from frazil.storage import fork_guard
from frazil.storage.client import SIZE_CLASSES, Purpose, SizeClass, plan_client, size_class
from frazil.storage.connections import Connection
from frazil.storage.limit import process_limit
from frazil.storage.settings import EffectiveSettings
from frazil.storage.store_errors import Diagnosis, diagnose

_Result = TypeVar("_Result")


class Clients:
    """What requests go through. `attempt` returns what happened; it does not raise it."""

    def __init__(
        self, connection: Connection, settings: EffectiveSettings, user_agent: str = ""
    ) -> None:
        self._user_agent = user_agent
        self._connection = connection
        self._settings = settings
        self._resolved: Connection | None = None
        self._stores: dict[tuple[Purpose, SizeClass], ObjectStore] = {}
        self._lock = threading.Lock()

    def attempt(
        self,
        purpose: Purpose,
        call: Callable[[ObjectStore], _Result],
        *,
        size_bytes: int = 0,
        places: int = 1,
    ) -> _Result | Diagnosis:
        """What a call returned, or why it failed."""
        store = self._open(purpose, size_bytes)
        with process_limit().take(places):
            try:
                return call(store)
            except Exception as error:
                return self._diagnose(error)

    async def attempt_async(
        self,
        purpose: Purpose,
        call: Callable[[ObjectStore], Awaitable[_Result]],
        *,
        size_bytes: int = 0,
        places: int = 1,
    ) -> _Result | Diagnosis:
        """`attempt` for an event loop."""
        store = self._open(purpose, size_bytes)
        async with process_limit().take(places):
            try:
                return await call(store)
            except Exception as error:
                return self._diagnose(error)

    @property
    def connection(self) -> Connection:
        """The connection as resolved, which for one that redirects takes a request."""
        if self._resolved is None:
            self._resolved = self._connection.resolve()
        return self._resolved

    def _open(self, purpose: Purpose, size_bytes: int) -> ObjectStore:
        fork_guard.enter()
        kind = (purpose, SIZE_CLASSES[0] if purpose is Purpose.READ else size_class(size_bytes))
        store = self._stores.get(kind)
        if store is None:
            with self._lock:
                store = self._stores.get(kind) or self._open_anew(*kind)
                self._stores[kind] = store
        return store

    def _open_anew(self, purpose: Purpose, writes: SizeClass) -> ObjectStore:
        connection = self.connection
        plan = plan_client(
            self._settings,
            purpose,
            writes,
            connection.headers,
            connection.silence_seconds,
            self._user_agent,
        )
        try:
            return connection.open(plan)
        except Exception as error:
            failed = self._diagnose(error)
        raise failed.to_error("open", connection.describe())

    def _diagnose(self, error: Exception) -> Diagnosis:
        return diagnose(error, self.connection.find_secrets())
