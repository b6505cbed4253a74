"""What a store needs of the session that it belongs to."""

from typing import Protocol

from frazil.engine.state import SessionState


class StoreOwner(Protocol):
    """A session, seen from its store."""

    @property
    def state(self) -> SessionState:
        """Where it stands."""

    @property
    def read_only(self) -> bool:
        """Whether it can't be written to."""
