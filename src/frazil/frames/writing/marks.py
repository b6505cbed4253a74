"""What has been written already: batches of streams, and commits with a token.

Both are in the metadata of commits. The last batch of each query is also a group of the repository,
changed in the same commit, so that it is there when the commit has long expired.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import zarr

from frazil.errors import IcechunkError
from frazil.repository import Repository
from frazil.session import Session

STREAMS = "_frazil/streams"
TOKEN = "frazil_commit_token"
STREAM = "frazil_stream"
_BATCH, _QUERY = "batch", "query"


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a stream; a query has one of each number, which only rises."""

    query: str
    number: int


def find_last_batch(session: Session, query: str) -> int | None:
    """The last batch of a query that a session sees; None before the first."""
    node = session.state.view.find_node(f"/{_path(query)}")
    if node is None:
        return None
    group = zarr.open_group(session.store, path=_path(query), mode="r", zarr_format=3)
    number = group.attrs[_BATCH]
    if not isinstance(number, int):
        raise IcechunkError(f"/{_path(query)} has no number of a batch: somebody has changed it")
    return number


def note_batch(session: Session, batch: Batch) -> None:
    """Make a batch the last one of its query."""
    group = zarr.open_group(session.store, path=_path(batch.query), mode="a", zarr_format=3)
    group.attrs.update({_QUERY: batch.query, _BATCH: batch.number})


def describe(batch: Batch | None, token: str | None) -> dict[str, Any]:
    """What the metadata of a commit says."""
    told: dict[str, Any] = {}
    if token is not None:
        told[TOKEN] = token
    if batch is not None:
        told[STREAM] = {_QUERY: batch.query, _BATCH: batch.number}
    return told


def find_commit(repository: Repository, token: str, *, branch: str = "main") -> str | None:
    """The snapshot that was committed with a token; None if none was, or if it has expired."""
    for info in repository.ancestry(branch=branch):
        if info.metadata.get(TOKEN) == token:
            return info.id
    return None


def find_batch(repository: Repository, batch: Batch, *, branch: str = "main") -> str | None:
    """The snapshot of a batch; None if there is none, or if it has expired."""
    wanted = {_QUERY: batch.query, _BATCH: batch.number}
    for info in repository.ancestry(branch=branch):
        if info.metadata.get(STREAM) == wanted:
            return info.id
    return None


def _path(query: str) -> str:
    return f"{STREAMS}/{quote(query, safe='')}"
