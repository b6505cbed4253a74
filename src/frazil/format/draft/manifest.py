"""Draft manifests: chunk payloads by a key that holds node and coordinates.

The draft does not say how such a key is spelled in JSON. Written is the JSON text `[node,[i,j]]`;
`node/i/j` is read as well.
"""

import re
from collections.abc import Iterator

from frazil.errors import FormatError
from frazil.format.checked import as_coordinates, as_list, as_map, located, refused, show
from frazil.format.dialect import Decoded, Dialect
from frazil.format.draft.form import FORM
from frazil.format.draft.json_files import pack, unpack
from frazil.format.ids import NodeId
from frazil.format.json_values import decode_json
from frazil.format.manifest import Manifest
from frazil.format.trees.chunks import Row, gather_rows, read_payload, scatter_rows

_SLASHED_KEY = re.compile(r"[0-9]{1,10}(/[0-9]{1,10})*/?", re.ASCII)


def decode_manifest(data: bytes) -> Decoded[Manifest]:
    """Decode a manifest file; its id is in the file's name only.

    References are `RankedRefs`: ask them with the number of axes that the array has.
    """
    with located("draft manifest"):
        fields = FORM.read_struct("file", unpack(data), ("chunks",))
        arrays = gather_rows(_read_rows(fields["chunks"]), FORM.id_size)
        return Decoded(Manifest(None, arrays), Dialect.DRAFT)


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest file; InvalidInputError for what the draft has no place for."""
    with refused("draft manifest"):
        chunks = {
            _write_key(node, coordinates): payload
            for node, payloads in scatter_rows(manifest, FORM)
            for coordinates, payload in payloads
        }
        return pack({"chunks": chunks})


def _read_rows(value: object) -> Iterator[Row]:
    for key, payload in as_map("chunks", value).items():
        node, coordinates = _read_key(key)
        yield node, coordinates, read_payload(payload, FORM)


def _read_key(key: str) -> tuple[NodeId, tuple[int, ...]]:
    if _SLASHED_KEY.fullmatch(key):
        node, *coordinates = map(int, key.rstrip("/").split("/"))
    elif key.startswith("["):
        node, coordinates = as_list("chunk key", decode_json(key.encode(), "chunk key"), 2)
    else:
        raise FormatError(f"chunk key: {show(key)} is neither [node,[i,j]] nor node/i/j")
    return FORM.read_node_id(node), as_coordinates("chunk key", coordinates)


def _write_key(node: NodeId, coordinates: tuple[int, ...]) -> str:
    return f"[{FORM.write_node_id(node)},[{','.join(map(str, coordinates))}]]"
