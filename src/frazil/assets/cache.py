"""A cache bounded by weight that reads each missing value once, however many threads want it."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


_logger = logging.getLogger("frazil.assets")


@dataclass(frozen=True, slots=True)
class SizeWarning:
    """Logged once, for a value that takes more than a part of the whole cache."""

    part: float
    text: str
    """With the places `weight` and `capacity`."""


class WeightedCache(Generic[K, V]):
    """The values used last, as many as their weights allow."""

    def __init__(
        self, capacity: int, weigh: Callable[[V], int], warning: SizeWarning | None = None
    ) -> None:
        self._capacity = capacity
        self._warning = warning
        self._weigh = weigh
        self._lock = threading.Lock()
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._loading: dict[K, threading.Lock] = {}
        self._weight = 0

    @property
    def weight(self) -> int:
        """Of all the values held."""
        return self._weight

    def find(self, key: K) -> V | None:
        """A value, if it is held."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def get(self, key: K, load: Callable[[], V]) -> V:
        """A value, loaded if it is not held; a load that fails is tried again by the next caller."""
        found = self.find(key)
        if found is not None:
            return found
        with self._lock:
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            found = self.find(key)
            if found is not None:
                return found
            try:
                value = load()
                self.put(key, value)
            finally:
                with self._lock:
                    self._loading.pop(key, None)
            return value

    def put(self, key: K, value: V) -> None:
        """Hold a value; one that outweighs the whole cache is not held."""
        weight = self._weigh(value)
        self.warn_if_large(value)
        with self._lock:
            _, former = self._values.pop(key, (None, 0))
            self._weight -= former
            if weight > self._capacity:
                return
            self._values[key] = (value, weight)
            self._weight += weight
            while self._weight > self._capacity:
                _, (_, dropped) = self._values.popitem(last=False)
                self._weight -= dropped

    def warn_if_large(self, value: V) -> None:
        """Log the warning once, for a value that the cache is small for."""
        warning = self._warning
        if warning is None:
            return
        weight = self._weigh(value) - 1  # one is for the value itself, however empty
        if weight > self._capacity * warning.part:
            self._warning = None
            _logger.warning(warning.text.format(weight=weight, capacity=self._capacity))

    def drop(self, key: K) -> None:
        """Forget a value."""
        with self._lock:
            _, weight = self._values.pop(key, (None, 0))
            self._weight -= weight
