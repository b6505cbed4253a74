"""Arrays between the steps of a job, in a session that is never committed.

They are seen by forks of the session only. Their chunks are deleted when the job is done with them;
what a killed task has left, and the metadata, is for garbage collection, like the rest of a failed job.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

import zarr

from frazil.errors import IcechunkError
from frazil.format.ids import ChunkId
from frazil.session import ForkSession, Session


class Scratch:
    """The arrays of one job."""

    def __init__(self, session: Session, name: str) -> None:
        self.session = session
        self._group = f"_frazil-{name}"

    def create(self, name: str, **settings: Any) -> str:
        """Make an array; gives its path."""
        path = f"{self._group}/{name}"
        zarr.create_array(self.session.store, name=path, **settings)
        return path

    def freeze(self) -> ForkSession:
        """What tasks read: all that was written so far."""
        return self.session.fork()

    def delete_chunks(self) -> None:
        """Delete the chunks that were written; whatever can't be is left for garbage collection."""
        assets = self.session.state.assets
        with suppress(IcechunkError):
            assets.storage.delete_many(map(assets.layout.chunk_key, self._chunk_ids()))

    def _chunk_ids(self) -> Iterator[ChunkId]:
        assets = self.session.state.assets
        for id, edits in self.session.state.changes.chunks.items():
            table, _ = edits.settled()
            cells = (cell.read_changes(assets, id) for cell in edits.cells)
            for each in chain([table], cells):
                for row in each.distinct_chunk_ids():
                    yield ChunkId(row.tobytes())


@contextmanager
def scratch_arrays(session: Session, name: str) -> Iterator[Scratch]:
    """A place for arrays that are gone at the end."""
    scratch = Scratch(session, name)
    try:
        yield scratch
    finally:
        scratch.delete_chunks()
