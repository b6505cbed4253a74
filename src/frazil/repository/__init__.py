"""Repository: sessions, branches, tags, history, status and maintenance."""

from frazil.repository.repository import Repository

__all__ = ["Repository"]
