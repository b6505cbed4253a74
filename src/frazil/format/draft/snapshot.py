"""Draft snapshots.

The draft has no list of manifest files: a decoded snapshot lists those that its arrays point to, and
one to encode must do the same.
"""

from collections.abc import Mapping

from frazil.errors import InvalidInputError
from frazil.format.checked import located, refused
from frazil.format.dialect import Decoded, Dialect
from frazil.format.draft.form import FORM
from frazil.format.draft.json_files import pack, unpack
from frazil.format.ids import ManifestId
from frazil.format.snapshot import ManifestFileInfo, Node, Snapshot
from frazil.format.trees.history import (
    HISTORY_FIELDS,
    parent_of,
    read_history,
    read_properties,
    write_history,
    write_properties,
)
from frazil.format.trees.nodes import read_nodes, write_nodes

_FIELDS = (*HISTORY_FIELDS, "properties", "nodes")


def decode_snapshot(data: bytes) -> Decoded[Snapshot]:
    """Decode a snapshot file."""
    with located("draft snapshot"):
        fields = FORM.read_struct("file", unpack(data), _FIELDS)
        own, history = read_history(fields, FORM)
        nodes = read_nodes(fields["nodes"], FORM)
        snapshot = Snapshot(
            id=own.id,
            parent_id=parent_of(history),
            flushed_at=own.written_at,
            message=own.message,
            metadata=read_properties("properties", fields["properties"]),
            nodes=nodes,
            manifest_files=tuple(map(ManifestFileInfo, _manifests_of(nodes))),
            history=history,
        )
        return Decoded(snapshot, Dialect.DRAFT)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encode a snapshot file.

    It needs its history, and no parent but the history's. Raises InvalidInputError for what the draft
    has no place for; extents, which only speed up reading, are left out. NaN and infinite fill values
    become Zarr's words for them, which the draft's own schema does not foresee.
    """
    with refused("draft snapshot"):
        _refuse_what_has_no_place(snapshot)
        fields = write_history(snapshot, FORM)
        fields["properties"] = write_properties(snapshot.metadata)
        fields["nodes"] = write_nodes(snapshot.nodes, FORM)
        return pack(fields)


def _refuse_what_has_no_place(snapshot: Snapshot) -> None:
    if snapshot.extra is not None:
        raise InvalidInputError("there is no place for extra bytes")
    ids = [info.id for info in snapshot.manifest_files]
    if set(ids) != set(_manifests_of(snapshot.nodes)):
        raise InvalidInputError("the manifest files are not those that arrays point to")
    for info in snapshot.manifest_files:
        if info != ManifestFileInfo(info.id):
            raise InvalidInputError(f"manifest file {info.id}: there is no place for its size")


def _manifests_of(nodes: Mapping[str, Node]) -> list[ManifestId]:
    """Each manifest once, in the order of the nodes."""
    refs = (ref for node in nodes.values() if node.array for ref in node.array.manifests)
    return list(dict.fromkeys(ref.id for ref in refs))
