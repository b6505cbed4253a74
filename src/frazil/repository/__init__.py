"""Repository: sessions, branches, tags, history, status and maintenance."""

from frazil.repository.repository import Repository, create_legacy, upgrade_icechunk_repository

__all__ = ["Repository", "create_legacy", "upgrade_icechunk_repository"]
