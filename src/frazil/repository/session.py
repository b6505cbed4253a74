"""A session: one view of a repository, its edits, and their commit."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

from frazil.arguments import check_arguments
from frazil.async_names import asynchronous
from frazil.config.settings import RepositoryConfig
from frazil.conflicts import ConflictSolver
from frazil.display import Block, Item
from frazil.errors import ReadOnlyError
from frazil.format.paths import validate_path
from frazil.ops import SessionMode
from frazil.repository import commit, diff, moves, rebase, virtual_refs
from frazil.repository.session_state import SessionState
from frazil.repository.store import IcechunkStore
from frazil.repository.zarr_keys import Coordinate
from frazil.snapshots import Diff
from frazil.storage.store_config import ChunkType

Reindexing = Callable[[Iterable[int]], Iterable[int] | None]


@check_arguments()
class Session(Block):
    """Reads one version of a repository and, if it is writable, collects changes for a commit.

    A writable session ends with its commit: from then on it is a read-only session of the new version.
    """

    def __init__(self, session: SessionState) -> None:
        """Not for users, who get a session from a repository."""
        self._session = session

    @property
    def state(self) -> SessionState:
        """What the engine works on."""
        return self._session

    def shown_items(self) -> Iterator[Item]:
        """What a person wants to know first."""
        yield Item("read_only", self.read_only)
        yield Item("snapshot_id", self.snapshot_id)
        if not self.read_only:
            yield Item("branch", self.branch)
            yield Item("has_uncommitted_changes", self.has_uncommitted_changes)

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, value: object) -> bool:
        if not isinstance(value, Session):
            return False
        return self._session.instance_id == value._session.instance_id

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> object:
        if not self._session.is_read_only and not self._session.is_fork:
            raise ValueError(
                "a writable session can't be pickled: send what Session.fork() gives to the workers,"
                " and merge it when it comes back. To write an xarray dataset with dask use"
                " frazil.xarray.to_icechunk; to read elsewhere, send a read-only session"
            )
        return {"_session": self._session}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._session = state["_session"]

    # What it is

    @property
    def read_only(self) -> bool:
        """Whether nothing can be changed through it."""
        return self._session.is_read_only

    @property
    def mode(self) -> SessionMode:
        """What it was opened for; a fork says `readonly`, because it can't be committed."""
        return self._session.mode

    @property
    def snapshot_id(self) -> str:
        """The version that it is based on."""
        return str(self._session.view.snapshot_id)

    @property
    def branch(self) -> str | None:
        """The branch that a commit would move; None if it can't be committed."""
        return self._session.branch

    @property
    def has_uncommitted_changes(self) -> bool:
        """Whether anything was changed."""
        return bool(self._session.changes)

    @property
    def config(self) -> RepositoryConfig:
        """The configuration of its repository; changing it has no effect."""
        return self._session.context.config

    @property
    def store(self) -> IcechunkStore:
        """What to give to Zarr and xarray."""
        return IcechunkStore(self)

    def status(self) -> Diff:
        """What was changed since the version that it is based on."""
        return diff.status(self._session)

    # Changing

    def discard_changes(self) -> None:
        """Forget everything that was changed."""
        with self._session.lock:
            if self._session.is_read_only:
                raise ReadOnlyError(
                    "Read only sessions cannot modify the repository: there are no changes to discard"
                )
            self._session.set_base(self._session.view.snapshot)

    def move(self, from_path: str, to_path: str) -> None:
        """Give a node and all below it another path; needs a rearrange session, copies nothing."""
        moves.move_node(self._session, from_path, to_path)

    move_async = asynchronous(move)

    def shift_array(self, array_path: str, chunk_offset: Iterable[int]) -> None:
        """Move all chunks of an array by so many chunks along each axis.

        Chunks that leave the grid are dropped, so resize the array first to keep them; places that
        nothing moves to become empty. Only for arrays whose chunks are all of one shape.
        """
        moves.shift_array(self._session, array_path, list(chunk_offset))

    def reindex_array(
        self, array_path: str, forward: Reindexing, backward: Reindexing | None = None
    ) -> None:
        """Move each chunk of an array to where `forward` says; None leaves it where it is.

        A place that nothing moves to keeps its old chunk, unless `backward`, which says where the
        chunk of a place comes from, tells that it comes from nowhere. Only for arrays whose chunks are
        all of one shape.
        """
        moves.reindex_array(self._session, array_path, forward, backward)

    # Looking

    def get_node_id(self, path: str) -> str:
        """The id that a node keeps for life, whatever its path; raises NodeNotFoundError."""
        return str(self._session.view.get_node(validate_path(path)).id)

    get_node_id_async = asynchronous(get_node_id)

    def all_virtual_chunk_locations(self) -> list[str]:
        """Where all virtual chunks are, one URL for each chunk."""
        return virtual_refs.all_virtual_chunk_locations(self._session)

    all_virtual_chunk_locations_async = asynchronous(all_virtual_chunk_locations)

    async def chunk_coordinates(
        self, array_path: str, batch_size: int = 1000
    ) -> AsyncIterator[Coordinate]:
        """The coordinates of all chunks of an array that were written."""
        node, _ = self._session.view.get_array(validate_path(array_path))
        for coordinates in self._session.view.coordinates(node):
            for start in range(0, len(coordinates), batch_size):
                for each in coordinates[start : start + batch_size].tolist():
                    yield tuple(each)

    def chunk_type(self, array_path: str, chunk_coordinates: Sequence[int]) -> ChunkType:
        """How a chunk is kept."""
        return virtual_refs.chunk_type(
            self._session, validate_path(array_path), tuple(chunk_coordinates)
        )

    chunk_type_async = asynchronous(chunk_type)

    # Ending

    def commit(
        self,
        message: str,
        metadata: dict[str, Any] | None = None,
        *,
        rebase_with: ConflictSolver | None = None,
        rebase_tries: int = 1_000,
        allow_empty: bool = False,
    ) -> str:
        """Make the changes the newest version of the branch; gives its snapshot id.

        Raises ConflictError if somebody else committed to the branch since this session was opened:
        nothing is lost then, `rebase` or `rebase_with` bring the changes on top of theirs.
        """
        text = commit.describe(self._session, message, metadata)
        if rebase_with is None:
            return str(commit.commit(self._session, text, allow_empty=allow_empty))
        return str(
            rebase.commit_with_rebase(
                self._session, text, rebase_with, rebase_tries, allow_empty=allow_empty
            )
        )

    commit_async = asynchronous(commit)

    def amend(
        self, message: str, *, metadata: dict[str, Any] | None = None, allow_empty: bool = False
    ) -> str:
        """Replace the newest version of the branch by one that has these changes as well.

        Message and metadata of the replaced version are not kept.
        """
        text = commit.describe(self._session, message, metadata)
        return str(commit.amend(self._session, text, allow_empty=allow_empty))

    amend_async = asynchronous(amend)

    def flush(self, message: str, *, metadata: dict[str, Any] | None = None) -> str:
        """Write a version that no branch points to; gives its snapshot id.

        A branch or tag has to point to it before garbage is collected.
        """
        text = commit.describe(self._session, message, metadata)
        return str(commit.flush(self._session, text))

    flush_async = asynchronous(flush)

    def rebase(self, solver: ConflictSolver) -> None:
        """Bring the changes on top of what others have committed to the branch.

        Raises RebaseFailedError with all conflicts that the solver does not solve.
        """
        rebase.rebase(self._session, solver)

    rebase_async = asynchronous(rebase)

    # Many writers

    def fork(self) -> "ForkSession":
        """A session to be pickled, sent to another process, written to there, and merged here."""
        return ForkSession(commit.fork(self._session))

    def merge(self, *others: "ForkSession") -> None:
        """Take over the changes of forks; where two set the same chunk, the last one counts."""
        for other in others:
            commit.merge(self._session, other._session)

    merge_async = asynchronous(merge)


@check_arguments()
class ForkSession(Session):
    """A session that can be pickled and written to, but neither committed nor flushed."""
