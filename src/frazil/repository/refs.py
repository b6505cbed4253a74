"""Branches and tags."""

from frazil.asynchronous import asynchronous
from frazil.repository.base import RepositoryPart, parse_snapshot_id


class Refs(RepositoryPart):
    """Names for snapshots: branches move, tags stay."""

    def create_branch(self, branch: str, snapshot_id: str) -> None:
        """Make a branch; raises AlreadyExistsError, SnapshotNotFoundError."""
        self._protocol.create_branch(branch, parse_snapshot_id(snapshot_id))

    create_branch_async = asynchronous(create_branch)

    def list_branches(self) -> set[str]:
        """The names of all branches."""
        return set(self._protocol.list_branches())

    list_branches_async = asynchronous(list_branches)

    def lookup_branch(self, branch: str) -> str:
        """The snapshot that a branch points to; raises RefNotFoundError."""
        return str(self._protocol.lookup_branch(branch))

    lookup_branch_async = asynchronous(lookup_branch)

    def reset_branch(
        self, branch: str, snapshot_id: str, *, from_snapshot_id: str | None = None
    ) -> None:
        """Point a branch elsewhere; with `from_snapshot_id` only if it points there still.

        Versions that no branch or tag leads to any more are lost when garbage is collected.
        """
        expected = None if from_snapshot_id is None else parse_snapshot_id(from_snapshot_id)
        self._protocol.reset_branch(branch, parse_snapshot_id(snapshot_id), expected)

    reset_branch_async = asynchronous(reset_branch)

    def delete_branch(self, branch: str) -> None:
        """Delete a branch other than `main`; raises RefNotFoundError."""
        self._protocol.delete_branch(branch)

    delete_branch_async = asynchronous(delete_branch)

    def create_tag(self, tag: str, snapshot_id: str) -> None:
        """Make a tag; raises AlreadyExistsError, also for a name that was deleted once."""
        self._protocol.create_tag(tag, parse_snapshot_id(snapshot_id))

    create_tag_async = asynchronous(create_tag)

    def list_tags(self) -> set[str]:
        """The names of all tags."""
        return set(self._protocol.list_tags())

    list_tags_async = asynchronous(list_tags)

    def lookup_tag(self, tag: str) -> str:
        """The snapshot that a tag points to; raises RefNotFoundError."""
        return str(self._protocol.lookup_tag(tag))

    lookup_tag_async = asynchronous(lookup_tag)

    def delete_tag(self, tag: str) -> None:
        """Delete a tag; its name can't be used again. Raises RefNotFoundError."""
        self._protocol.delete_tag(tag)

    delete_tag_async = asynchronous(delete_tag)
