"""Keeping a repository small and quick."""

from frazil.repository.base import RepositoryPart


class Upkeep(RepositoryPart):
    """Expiry, garbage, manifests, statistics."""
