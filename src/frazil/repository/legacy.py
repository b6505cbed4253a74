"""Repositories of generations that the official library no longer writes."""

from frazil.config import RepositoryConfig
from frazil.engine import opening
from frazil.errors import InvalidInputError
from frazil.format.dialect import Dialect
from frazil.repository.repository import Repository
from frazil.storage import Storage


def create_legacy(
    storage: Storage,
    generation: str = Dialect.ALPHA_H.value,
    config: RepositoryConfig | None = None,
) -> Repository:
    """Make a repository of the draft (`"draft"`) or of an alpha release (such as `"0.1.0-0.1.3"`).

    Their commits only ever create objects, so they are safe on storage that can create an object if
    there is none, but can't replace one only if nobody else did. Raises ValueError for a generation
    that there is not.
    """
    known = {each.value: each for each in Dialect if each not in (Dialect.V1, Dialect.V2)}
    if generation not in known:
        raise InvalidInputError(
            f"{generation!r} is no old generation; there are {', '.join(known)}"
        )
    return Repository(opening.create(storage, known[generation], config))
