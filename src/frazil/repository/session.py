"""Session: a view of one snapshot, its changes, and their commit."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from frazil.arguments import check_arguments
from frazil.async_names import asynchronous, run_later
from frazil.config.settings import RepositoryConfig
from frazil.display import Block, Item
from frazil.errors import ReadOnlyError
from frazil.format.metadata import validate_path
from frazil.lazy import lazy_modules
from frazil.ops import SessionMode
from frazil.repository.context import SessionState
from frazil.repository.zarr_keys import Coordinate

if TYPE_CHECKING:
    from frazil import snapshots
    from frazil.repository import commit, conflicts, diff, forks, moves, rebase, virtual_refs
    from frazil.repository import store as zarr_store
    from frazil.storage.store_config import ChunkType
else:
    # A session that only reads needs none of them, and plans of Spark don't need Zarr.
    conflicts, snapshots, commit, diff, forks, moves, rebase, virtual_refs, zarr_store = lazy_modules(
        "frazil.repository.conflicts", "frazil.snapshots", "frazil.repository.commit",
        "frazil.repository.diff", "frazil.repository.forks", "frazil.repository.moves",
        "frazil.repository.rebase", "frazil.repository.virtual_refs", "frazil.repository.store",
    )  # fmt: skip

__all__ = ["ForkSession", "Session", "SessionMode"]


Reindexing = Callable[[Iterable[int]], Iterable[int] | None]


@check_arguments()
class Session(Block):
    """Session that reads one snapshot and, if writable, collects changes for a commit.

    After its commit, a writable session is a read-only session of the new snapshot. Get a session
    from `Repository.readonly_session`, `writable_session` or `rearrange_session`.
    """

    def __init__(self, session: SessionState) -> None:
        """Create a session; internal, use the methods of `Repository`."""
        self.state = session
        """Internal state of the session."""
        prepare = session.assets.storage.preparation
        if prepare is not None and session.mode is not SessionMode.readonly:
            run_later(lambda: (prepare(), commit.commit))  # the second one loads the module

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields of the summary."""
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
        return self.state.instance_id == value.state.instance_id

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> object:
        if not self.state.is_read_only and not self.state.is_fork:
            raise ValueError(
                "a writable session can't be pickled: send what Session.fork() gives to the workers,"
                " and merge it when it comes back. To write an xarray dataset with dask use"
                " frazil.xarray.to_icechunk; to read elsewhere, send a read-only session"
            )
        return {"state": self.state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state["state"]

    # Properties

    @property
    def read_only(self) -> bool:
        """Return True if the session can't be changed."""
        return self.state.is_read_only

    @property
    def mode(self) -> SessionMode:
        """Return the mode of the session; `readonly` for a fork, because it can't be committed."""
        return self.state.mode

    @property
    def snapshot_id(self) -> str:
        """Return the id of the base snapshot."""
        return str(self.state.view.snapshot_id)

    @property
    def branch(self) -> str | None:
        """Return the branch that a commit updates; None if the session can't be committed."""
        return self.state.branch

    @property
    def has_uncommitted_changes(self) -> bool:
        """Return True if the session has uncommitted changes."""
        return bool(self.state.changes)

    @property
    def config(self) -> RepositoryConfig:
        """Return the configuration of the repository; changing it has no effect."""
        return self.state.context.config

    @property
    def store(self) -> "zarr_store.IcechunkStore":
        """Return the Zarr store of the session, for Zarr and xarray."""
        return zarr_store.IcechunkStore(self)

    def status(self) -> "snapshots.Diff":
        """Return the changes since the base snapshot."""
        return diff.status(self.state)

    # Changing

    def discard_changes(self) -> None:
        """Discard all uncommitted changes.

        Raises
        ------
        ReadOnlyError
            If the session is read-only.
        """
        with self.state.lock:
            if self.state.is_read_only:
                raise ReadOnlyError(
                    "Read only sessions cannot modify the repository: there are no changes to discard"
                )
            self.state.set_base(self.state.view.snapshot)

    def move(self, from_path: str, to_path: str) -> None:
        """Move a node and its descendants to another path, without copying data.

        Parameters
        ----------
        from_path
            Current path of the node.
        to_path
            New path, in an existing group.

        Raises
        ------
        NodeNotFoundError
            If there is no node at `from_path`.
        AlreadyExistsError
            If there is a node at `to_path`.
        SessionStateError
            If this is no rearrange session, or `to_path` is not allowed.
        """
        moves.move_node(self.state, from_path, to_path)

    move_async = asynchronous(move)

    def shift_array(self, array_path: str, chunk_offset: Iterable[int]) -> None:
        """Shift all chunks of an array by a number of chunks along each axis.

        Chunks that leave the grid are dropped: resize the array first to keep them. Coordinates that
        nothing moves to become empty.

        Parameters
        ----------
        array_path
            Path of an array with a regular chunk grid.
        chunk_offset
            Offset in chunks along each axis; may be negative.

        Raises
        ------
        NodeNotFoundError
            If there is no array at the path.
        """
        moves.shift_array(self.state, array_path, list(chunk_offset))

    def reindex_array(
        self, array_path: str, forward: Reindexing, backward: Reindexing | None = None
    ) -> None:
        """Move each chunk of an array to the coordinates that `forward` returns.

        Parameters
        ----------
        array_path
            Path of an array with a regular chunk grid.
        forward
            Function from the old to the new coordinates of a chunk; None leaves the chunk in place.
        backward
            Function from the new to the old coordinates. Without it, coordinates that nothing moves to
            keep their chunk. With it, they are cleared if their origin has no chunk.
        """
        moves.reindex_array(self.state, array_path, forward, backward)

    # Inspection

    def get_node_id(self, path: str) -> str:
        """Return the id of a node, which does not change when the node moves.

        Parameters
        ----------
        path
            Path of the node.

        Returns
        -------
        str
            The node id.

        Raises
        ------
        NodeNotFoundError
            If there is no node at the path.
        """
        return str(self.state.view.get_node(validate_path(path)).id)

    get_node_id_async = asynchronous(get_node_id)

    def all_virtual_chunk_locations(self) -> list[str]:
        """Return the URLs of the source files of all virtual chunks, one per chunk."""
        return virtual_refs.all_virtual_chunk_locations(self.state)

    all_virtual_chunk_locations_async = asynchronous(all_virtual_chunk_locations)

    async def chunk_coordinates(
        self, array_path: str, batch_size: int = 1000
    ) -> AsyncIterator[Coordinate]:
        """Iterate over the coordinates of all chunks of an array that exist.

        Parameters
        ----------
        array_path
            Path of the array.
        batch_size
            Number of coordinates converted at once.

        Yields
        ------
        tuple of int
            Coordinates of one chunk.
        """
        node, _ = self.state.view.get_array(validate_path(array_path))
        for coordinates in self.state.view.coordinates(node):
            for start in range(0, len(coordinates), batch_size):
                for each in coordinates[start : start + batch_size].tolist():
                    yield tuple(each)

    def chunk_type(self, array_path: str, chunk_coordinates: Sequence[int]) -> "ChunkType":
        """Return how a chunk is stored: native, inline, virtual or uninitialized.

        Parameters
        ----------
        array_path
            Path of the array.
        chunk_coordinates
            Coordinates of the chunk.

        Returns
        -------
        ChunkType
            The type of the chunk; `uninitialized` if it does not exist.
        """
        return virtual_refs.chunk_type(
            self.state, validate_path(array_path), tuple(chunk_coordinates)
        )

    chunk_type_async = asynchronous(chunk_type)

    # Committing

    def commit(
        self,
        message: str,
        metadata: dict[str, Any] | None = None,
        *,
        rebase_with: "conflicts.ConflictSolver | None" = None,
        rebase_tries: int = 1_000,
        allow_empty: bool = False,
    ) -> str:
        """Commit the changes to the branch.

        Parameters
        ----------
        message
            Commit message.
        metadata
            Commit metadata, merged over the repository's default commit metadata.
        rebase_with
            Solver to rebase with after a concurrent commit; None to raise ConflictError instead.
        rebase_tries
            Maximum number of rebases.
        allow_empty
            Whether to commit without changes.

        Returns
        -------
        str
            Id of the new snapshot.

        Raises
        ------
        ConflictError
            If the branch has moved since the session was opened. The changes are kept: `rebase` the
            session, then commit again.
        RebaseFailedError
            If `rebase_with` can't resolve a conflict.
        SessionStateError
            If the session can't be committed, or has no changes.

        Examples
        --------
        >>> session = repo.writable_session("main")
        >>> zarr.open_array(session.store, path="t2m")[0] = 273.15
        >>> snapshot_id = session.commit("set the first hour")
        """
        text = commit.describe(self.state, message, metadata)
        if rebase_with is None:
            return str(commit.commit(self.state, text, allow_empty=allow_empty))
        return str(
            rebase.commit_with_rebase(
                self.state, text, rebase_with, rebase_tries, allow_empty=allow_empty
            )
        )

    commit_async = asynchronous(commit)

    def amend(
        self, message: str, *, metadata: dict[str, Any] | None = None, allow_empty: bool = False
    ) -> str:
        """Replace the tip of the branch with a snapshot that also has these changes.

        Message and metadata of the replaced snapshot are not kept. V2 repositories only.

        Parameters
        ----------
        message
            Commit message.
        metadata
            Commit metadata, merged over the repository's default commit metadata.
        allow_empty
            Whether to amend without changes.

        Returns
        -------
        str
            Id of the new snapshot.

        Raises
        ------
        ConflictError
            If the branch has moved since the session was opened.
        SessionStateError
            If the session can't be committed or has no changes, or the tip is the first snapshot.
        """
        text = commit.describe(self.state, message, metadata)
        return str(commit.amend(self.state, text, allow_empty=allow_empty))

    amend_async = asynchronous(amend)

    def flush(self, message: str, *, metadata: dict[str, Any] | None = None) -> str:
        """Write a snapshot that no branch or tag references.

        Create a branch or tag for it, or garbage collection deletes it.

        Parameters
        ----------
        message
            Commit message.
        metadata
            Commit metadata, merged over the repository's default commit metadata.

        Returns
        -------
        str
            Id of the new snapshot.

        Raises
        ------
        IcechunkError
            If this is a fork.
        """
        text = commit.describe(self.state, message, metadata)
        return str(commit.flush(self.state, text))

    flush_async = asynchronous(flush)

    def rebase(self, solver: "conflicts.ConflictSolver") -> None:
        """Rebase the changes onto the tip of the branch.

        Parameters
        ----------
        solver
            Solver that resolves conflicts with the commits of others.

        Raises
        ------
        RebaseFailedError
            If the solver can't resolve all conflicts with a commit; it lists them.
        """
        rebase.rebase(self.state, solver)

    rebase_async = asynchronous(rebase)

    # Distributed writes

    def fork(self) -> "ForkSession":
        """Return a fork of the session, to be pickled, written to in another process and merged here.

        Returns
        -------
        ForkSession
            The fork.

        Raises
        ------
        SessionStateError
            If the session is read-only.
        """
        return ForkSession(forks.fork(self.state))

    def merge(self, *others: "ForkSession") -> None:
        """Merge the changes of forks; the last fork that set a chunk wins.

        Parameters
        ----------
        others
            Forks of this session.

        Raises
        ------
        SessionStateError
            If a fork conflicts with this session, for example if both created the same node.
        """
        for other in others:
            forks.merge(self.state, other.state)

    merge_async = asynchronous(merge)


@check_arguments()
class ForkSession(Session):
    """Session that can be pickled and written to, but neither committed nor flushed."""
