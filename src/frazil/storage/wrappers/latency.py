"""A storage that is far away."""

from frazil.storage.interface import Storage
from frazil.storage.wrappers.forwarding import (
    STRAIGHT_ON,
    Course,
    ForwardingStorage,
    Request,
    Verb,
)


class LatencyStorage(ForwardingStorage):
    """Another storage, each request to which takes a while to arrive."""

    def __init__(
        self, inner: Storage, *, read_seconds: float = 0.0, write_seconds: float = 0.0
    ) -> None:
        super().__init__(inner)
        self._read_seconds = read_seconds
        self._write_seconds = write_seconds

    @property
    def is_local(self) -> bool:
        return False

    def _begin(self, request: Request) -> Course:
        if request.verb is Verb.FLUSH:  # no message to the storage
            return STRAIGHT_ON
        return Course(self._write_seconds if request.verb.is_write else self._read_seconds)
