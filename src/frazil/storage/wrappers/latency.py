"""A storage with the latency of a remote one."""

from dataclasses import dataclass

from frazil.storage.interface import Storage
from frazil.storage.wrappers.forwarding import (
    STRAIGHT_ON,
    Course,
    ForwardingStorage,
    Request,
    Verb,
)


@dataclass(slots=True)
class _Latency:
    """Delays in milliseconds, shared by the copies of a storage."""

    read_ms: float
    write_ms: float


class LatencyStorage(ForwardingStorage):
    """Delay every request to another storage, for tests and benchmarks.

    Parameters
    ----------
    inner
        The storage that the requests go to.
    write_latency_ms, read_latency_ms
        Milliseconds to wait before each request. Both can be set later and count from then on, also in
        repositories that have the storage open.
    """

    def __init__(
        self, inner: Storage, *, write_latency_ms: float = 0, read_latency_ms: float = 0
    ) -> None:
        super().__init__(inner)
        self._latency = _Latency(read_latency_ms, write_latency_ms)

    @property
    def write_latency_ms(self) -> float:
        """Milliseconds before each write."""
        return self._latency.write_ms

    @write_latency_ms.setter
    def write_latency_ms(self, ms: float) -> None:
        self._latency.write_ms = ms

    @property
    def read_latency_ms(self) -> float:
        """Milliseconds before each read."""
        return self._latency.read_ms

    @read_latency_ms.setter
    def read_latency_ms(self, ms: float) -> None:
        self._latency.read_ms = ms

    @property
    def is_local(self) -> bool:
        return False

    def _begin(self, request: Request) -> Course:
        if request.verb is Verb.FLUSH:  # no message to the storage
            return STRAIGHT_ON
        latency = self._latency
        return Course((latency.write_ms if request.verb.is_write else latency.read_ms) / 1000)
