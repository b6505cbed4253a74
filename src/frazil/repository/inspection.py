"""What the files of a repository say, as plain values."""

from typing import Any

from frazil.asynchronous import asynchronous
from frazil.engine import inspecting
from frazil.errors import InvalidInputError
from frazil.format.ids import ManifestId
from frazil.repository.base import RepositoryPart, parse_snapshot_id


class Inspection(RepositoryPart):
    """Looks into single files."""

    def inspect_snapshot(self, snapshot_id: str) -> dict[str, Any]:
        """A snapshot's file."""
        return inspecting.inspect_snapshot(self._protocol, parse_snapshot_id(snapshot_id))

    inspect_snapshot_async = asynchronous(inspect_snapshot)

    def inspect_repo_info(self) -> dict[str, Any]:
        """The `repo` file of a V2 repository."""
        return inspecting.inspect_repo_info(self._protocol)

    inspect_repo_info_async = asynchronous(inspect_repo_info)

    def inspect_manifest(self, manifest_id: str) -> dict[str, Any]:
        """A manifest's file."""
        return inspecting.inspect_manifest(self._protocol, _parse_manifest_id(manifest_id))

    inspect_manifest_async = asynchronous(inspect_manifest)

    def inspect_transaction_log(self, snapshot_id: str) -> dict[str, Any]:
        """The file that tells what a commit changed."""
        return inspecting.inspect_transaction_log(self._protocol, parse_snapshot_id(snapshot_id))

    inspect_transaction_log_async = asynchronous(inspect_transaction_log)


def _parse_manifest_id(text: str) -> ManifestId:
    try:
        return ManifestId.parse(text)
    except InvalidInputError as error:
        raise InvalidInputError(f"{text!r} is no manifest id", kind=error.kind) from error
