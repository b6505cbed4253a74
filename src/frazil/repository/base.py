"""What every part of a repository's interface works on."""

from frazil.engine.opening import Opened
from frazil.engine.state import Surroundings
from frazil.errors import InvalidInputError
from frazil.format.ids import SnapshotId
from frazil.protocols.interface import CommitProtocol


class RepositoryPart:
    """An open repository; the parts of `Repository` inherit it."""

    _repository: Opened

    @property
    def _surroundings(self) -> Surroundings:
        return self._repository.surroundings

    @property
    def _protocol(self) -> CommitProtocol:
        return self._repository.surroundings.protocol

    @property
    def protocol(self) -> CommitProtocol:
        """How its state is read and written, for jobs that work on the whole of it."""
        return self._protocol

    def _resolve(self, branch: str | None, tag: str | None, snapshot_id: str | None) -> SnapshotId:
        """The snapshot that one of three ways names; raises ValueError unless it is just one."""
        refuse_unless_one(branch, tag, snapshot_id)
        match (branch, tag, snapshot_id):
            case (str(), None, None):
                return self._protocol.lookup_branch(branch)
            case (None, str(), None):
                return self._protocol.lookup_tag(tag)
        assert snapshot_id is not None
        return self._protocol.lookup_snapshot(parse_snapshot_id(snapshot_id)).id


def refuse_unless_one(branch: str | None, tag: str | None, snapshot_id: str | None) -> None:
    """Raise ValueError unless just one way to name a snapshot is taken, InvalidInputError for no id."""
    if sum(each is not None for each in (branch, tag, snapshot_id)) != 1:
        raise InvalidInputError("give one of branch, tag and snapshot_id")
    if snapshot_id is not None:
        parse_snapshot_id(snapshot_id)


def parse_snapshot_id(text: str) -> SnapshotId:
    """An id as users write it; raises InvalidInputError."""
    try:
        return SnapshotId.parse(text)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{text!r} is no snapshot id", kind="invalid-snapshot-id"
        ) from error
