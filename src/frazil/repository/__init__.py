"""A repository: sessions, branches, tags, history, state and upkeep of one place in a storage."""

from frazil.repository.repository import Repository, create_legacy, upgrade_icechunk_repository

__all__ = ["Repository", "create_legacy", "upgrade_icechunk_repository"]
