"""Alpha manifests.

===== ==========================================================
A–E   version, flags, {(node, coordinates): payload}
F     version, flags, {node: {coordinates: payload}}
G     version, flags, id, {node: {coordinates: payload}}
H     id, {node: {coordinates: payload}}
===== ==========================================================

Files are read by their shape, whatever release their header names.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from frazil.errors import FormatError, InvalidInputError
from frazil.format.alpha.envelope import Envelope, open_envelope, seal_envelope
from frazil.format.alpha.form import AlphaForm, count_leading
from frazil.format.alpha.layouts import LAYOUTS, get_layout
from frazil.format.alpha.messagepack import pack, unpack
from frazil.format.checked import as_coordinates, as_list, as_map, located, refused
from frazil.format.dialect import Decoded, Dialect
from frazil.format.header import DEFAULT_LEVEL, FileType, Header
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import ChunkRefs, Manifest
from frazil.format.trees.chunks import RankedRefs, Row, gather_rows, read_payload, scatter_rows


def decode_manifest(data: bytes) -> Decoded[Manifest]:
    """Decode a manifest file of any layout.

    The dialect is the oldest that looks like this file. B differs from C by virtual references, and
    A from B, E from F by any reference. References are `RankedRefs`: ask them with the number of
    axes that the array has.
    """
    with located("alpha manifest"):
        return _decode_envelope(open_envelope(data, FileType.MANIFEST))


def decode_manifest_payload(payload: bytes, header: Header | None) -> Decoded[Manifest]:
    """The same for what is inside the envelope; without a header it is not of D."""
    with located("alpha manifest"):
        return _decode_envelope(Envelope(payload, header, has_bare_zstd=False))


def encode_manifest(
    manifest: Manifest, dialect: Dialect, implementation: str, level: int = DEFAULT_LEVEL
) -> bytes:
    """Encode a manifest file; `implementation` is named in the header, where the layout has one.

    G and H need the manifest's id; before them it is in the file's name only. Raises
    InvalidInputError for what the layout has no place for.
    """
    layout = get_layout(dialect)
    with refused(f"alpha manifest ({dialect.value})"):
        payload = pack(_write_manifest(manifest, AlphaForm(layout)))
        return seal_envelope(payload, FileType.MANIFEST, layout, implementation, level)


def _decode_envelope(envelope: Envelope) -> Decoded[Manifest]:
    tree = as_list("payload", unpack(envelope.payload))
    leading = count_leading(tree)
    *ids, chunks = tree[leading:] or (None,)
    if len(ids) > 1 or not (leading or ids):
        raise FormatError(f"a struct of {len(tree)} fields, not of 2, 3 or 4")
    chunks = as_map("chunks", chunks)
    first_key = next(iter(chunks), None)
    dialect = _detect_dialect(leading > 0, len(ids) > 0, first_key, chunks, envelope)
    form = AlphaForm(LAYOUTS[dialect])
    id = form.read_id(ManifestId, ids[0]) if ids else None
    read = _read_flat if _is_chunk_key(first_key) else _read_by_node
    return Decoded(Manifest(id, read(chunks, form)), dialect, envelope.header)


def _detect_dialect(
    has_version: bool,
    has_id: bool,
    first_key: object,
    chunks: Mapping[Any, Any],
    envelope: Envelope,
) -> Dialect:
    if not has_version:
        return Dialect.ALPHA_H
    if has_id:
        return Dialect.ALPHA_G
    if envelope.header is not None:
        return Dialect.ALPHA_F if _is_binary_id(first_key) else Dialect.ALPHA_E
    if envelope.has_bare_zstd:
        return Dialect.ALPHA_D
    if first_key is None or isinstance(as_list("chunk key", first_key, 2)[0], int):
        return Dialect.ALPHA_A
    has_new_virtual = any(map(_has_checksum_field, chunks.values()))
    return Dialect.ALPHA_C if has_new_virtual else Dialect.ALPHA_B


def _is_chunk_key(key: object) -> bool:
    """Whether a key has a node and coordinates; a binary id is a pair as well."""
    return isinstance(key, tuple) and not _is_binary_id(key)


def _is_binary_id(key: object) -> bool:
    return isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], bytes)


def _has_checksum_field(payload: object) -> bool:
    if not isinstance(payload, dict):
        return False
    content = payload.get("Virtual")
    return isinstance(content, tuple) and len(content) == 4


def _read_flat(chunks: Mapping[Any, Any], form: AlphaForm) -> dict[NodeId, ChunkRefs]:
    return gather_rows(_flat_rows(chunks, form), form.id_size)


def _flat_rows(chunks: Mapping[Any, Any], form: AlphaForm) -> Iterator[Row]:
    for key, payload in chunks.items():
        node, coordinates = as_list("chunk key", key, 2)
        yield (
            form.read_node_id(node),
            as_coordinates("chunk coordinates", coordinates),
            read_payload(payload, form),
        )


def _read_by_node(chunks: Mapping[Any, Any], form: AlphaForm) -> dict[NodeId, ChunkRefs]:
    # A node without references is written back as well.
    arrays: dict[NodeId, ChunkRefs] = {
        form.read_node_id(node): RankedRefs((), form.id_size) for node in chunks
    }
    return arrays | gather_rows(_rows_by_node(chunks, form), form.id_size)


def _rows_by_node(chunks: Mapping[Any, Any], form: AlphaForm) -> Iterator[Row]:
    for node, payloads in chunks.items():
        node_id = form.read_node_id(node)
        for coordinates, payload in as_map("chunks of a node", payloads).items():
            yield (
                node_id,
                as_coordinates("chunk coordinates", coordinates),
                read_payload(payload, form),
            )


def _write_manifest(manifest: Manifest, form: AlphaForm) -> object:
    layout = form.layout
    fields: tuple[object, ...] = ()
    if layout.format_version is not None:
        fields += (layout.format_version, {})
    if layout.has_manifest_id:
        fields += (_write_manifest_id(manifest, form),)
    return (*fields, _write_chunks(manifest, form))


def _write_manifest_id(manifest: Manifest, form: AlphaForm) -> object:
    if manifest.id is None:
        raise InvalidInputError("the manifest needs its id, which this layout stores in it")
    return form.write_id(manifest.id)


def _write_chunks(manifest: Manifest, form: AlphaForm) -> dict[object, object]:
    rows = ((form.write_node_id(node), rows) for node, rows in scatter_rows(manifest, form))
    if form.layout.has_chunks_by_node:
        return {node: dict(payloads) for node, payloads in rows}
    return {
        (node, coordinates): payload for node, payloads in rows for coordinates, payload in payloads
    }
