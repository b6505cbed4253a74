"""A storage that can't be written to."""

from frazil.errors import ReadOnlyError
from frazil.storage.wrappers.forwarding import STRAIGHT_ON, Course, ForwardingStorage, Request


class ReadOnlyStorage(ForwardingStorage):
    """Another storage, for reading."""

    @property
    def is_read_only(self) -> bool:
        return True

    def _begin(self, request: Request) -> Course:
        if request.verb.is_write:
            keys = ", ".join(map(repr, request.keys[:3]))
            raise ReadOnlyError(f"{request.verb} of {keys}: this storage is read only")
        return STRAIGHT_ON
