"""Alpha snapshots.

===== ================================================================================
A–D   version, flags, manifest_files, attribute_files, total_parents, short_term_parents,
      short_term_history, metadata, started_at, properties, nodes
E–G   the same without the first two
H     id, parent_id, flushed_at, message, metadata, manifest_files, attribute_files, nodes
===== ================================================================================

Development builds mixed them: H with the manifest files of G, which carry a version. So structs are
read by their shape: a version and flags may lead any of them, and numbers tell themselves apart.

Before 0.1.0a5 the id inside a first snapshot is not the one that its file is named after.
"""

from collections.abc import Mapping, Sequence

from frazil.errors import FormatError, InvalidInputError
from frazil.format.alpha.envelope import open_envelope, seal_envelope
from frazil.format.alpha.form import AlphaForm, count_leading
from frazil.format.alpha.layouts import LAYOUTS, Layout, get_layout
from frazil.format.alpha.messagepack import pack_with_singles, unpack
from frazil.format.checked import (
    UINT64_MAX,
    as_int,
    as_list,
    as_map,
    as_text,
    located,
    refused,
)
from frazil.format.dialect import Decoded, Dialect
from frazil.format.header import DEFAULT_LEVEL, FileType, Header
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.snapshot import ManifestFileInfo, Snapshot
from frazil.format.trees.history import (
    HISTORY_FIELDS,
    parent_of,
    read_history,
    read_properties,
    read_time,
    write_history,
    write_properties,
    write_time,
)
from frazil.format.trees.nodes import read_nodes, write_nodes

_WITH_HISTORY = ("manifest_files", "attribute_files", *HISTORY_FIELDS, "properties", "nodes")
_WITH_VERSION = ("version", "flags", *_WITH_HISTORY)
_WITH_PARENT = (
    "id",
    "parent_id",
    "flushed_at",
    "message",
    "metadata",
    "manifest_files",
    "attribute_files",
    "nodes",
)
_FIELDS_BY_COUNT = {len(names): names for names in (_WITH_HISTORY, _WITH_PARENT)}
_SIZES = ("size_bytes", "num_chunk_refs")
_LAST_VERSION = 1
"""Of the format; no manifest file is so few bytes long."""


def decode_snapshot(data: bytes) -> Decoded[Snapshot]:
    """Decode a snapshot file of any layout.

    The dialect is the oldest that looks like this file, so the newest one among a repository's files
    is the repository's. Snapshots can't tell B from C; without nodes and manifest files they can't
    tell A to D, or F and G, apart.
    """
    with located("alpha snapshot"):
        envelope = open_envelope(data, FileType.SNAPSHOT)
    return decode_snapshot_payload(envelope.payload, envelope.header)


def decode_snapshot_payload(payload: bytes, header: Header | None) -> Decoded[Snapshot]:
    """The same for what is inside the envelope."""
    with located("alpha snapshot"):
        tree = as_list("payload", unpack(payload))
        leading = count_leading(tree)
        names = _FIELDS_BY_COUNT.get(len(tree) - leading)
        if names is None:
            raise FormatError(f"a struct of {len(tree)} fields, not of 8, 9 or 11")
        fields = dict(zip(names, tree[leading:], strict=True))
        layout = _detect_layout(fields, has_version=leading > 0)
        return Decoded(_read_snapshot(fields, layout), layout.dialect, header)


def encode_snapshot(
    snapshot: Snapshot, dialect: Dialect, implementation: str, level: int = DEFAULT_LEVEL
) -> bytes:
    """Encode a snapshot file; `implementation` is named in the header, where the layout has one.

    A to G need the history and no parent but the history's, H has a parent only. Raises
    InvalidInputError for what the layout has no place for; extents before G, which only speed up
    reading, are left out.
    """
    layout = get_layout(dialect)
    with refused(f"alpha snapshot ({dialect.value})"):
        payload = pack_with_singles(_write_snapshot(snapshot, AlphaForm(layout)))
        return seal_envelope(payload, FileType.SNAPSHOT, layout, implementation, level)


def _detect_layout(fields: Mapping[str, object], *, has_version: bool) -> Layout:
    infos = as_list("manifest_files", fields["manifest_files"])
    info_length = len(as_list("manifest_files", infos[0])) if infos else None
    if "parent_id" in fields:
        return LAYOUTS[Dialect.ALPHA_H]
    if not has_version:
        own_id, *_ = as_list("metadata", fields["metadata"], 3)
        if isinstance(own_id, str):
            return LAYOUTS[Dialect.ALPHA_E]
        return LAYOUTS[Dialect.ALPHA_G if info_length == 4 else Dialect.ALPHA_F]
    if info_length == 3:
        return LAYOUTS[Dialect.ALPHA_D]
    return LAYOUTS[Dialect.ALPHA_B if _has_text_node_ids(fields) else Dialect.ALPHA_A]


def _has_text_node_ids(fields: Mapping[str, object]) -> bool:
    nodes = as_map("nodes", fields["nodes"]).values()
    return any(
        isinstance(node, tuple) and bool(node) and isinstance(node[0], str) for node in nodes
    )


def _read_snapshot(fields: Mapping[str, object], layout: Layout) -> Snapshot:
    form = AlphaForm(layout)
    infos = as_list("manifest_files", fields["manifest_files"])
    manifest_files = tuple(_read_manifest_file(info, form) for info in infos)
    as_list("attribute_files", fields["attribute_files"])
    nodes = read_nodes(fields["nodes"], form)
    if layout.has_history:
        own, history = read_history(fields, form)
        return Snapshot(
            id=own.id,
            parent_id=parent_of(history),
            flushed_at=own.written_at,
            message=own.message,
            metadata=read_properties("properties", fields["properties"]),
            nodes=nodes,
            manifest_files=manifest_files,
            history=history,
        )
    parent = fields["parent_id"]
    return Snapshot(
        id=form.read_id(SnapshotId, fields["id"]),
        parent_id=None if parent is None else form.read_id(SnapshotId, parent),
        flushed_at=read_time("flushed_at", fields["flushed_at"]),
        message=as_text("message", fields["message"]),
        metadata=read_properties("metadata", fields["metadata"]),
        nodes=nodes,
        manifest_files=manifest_files,
    )


def _write_snapshot(snapshot: Snapshot, form: AlphaForm) -> object:
    if snapshot.extra is not None:
        raise InvalidInputError("there is no place for extra bytes")
    layout = form.layout
    fields: dict[str, object] = {
        "version": layout.format_version,
        "flags": {},
        "manifest_files": tuple(_write_manifest_file(i, form) for i in snapshot.manifest_files),
        "attribute_files": (),
        "properties": write_properties(snapshot.metadata),
        "nodes": write_nodes(snapshot.nodes, form),
    }
    if layout.has_history:
        fields |= write_history(snapshot, form)
        names: tuple[str, ...] = _WITH_HISTORY if layout.has_header else _WITH_VERSION
    else:
        fields |= _write_parent(snapshot, form)
        fields["metadata"] = fields["properties"]
        names = _WITH_PARENT
    return tuple(fields[name] for name in names)


def _write_parent(snapshot: Snapshot, form: AlphaForm) -> dict[str, object]:
    if snapshot.history is not None:
        raise InvalidInputError("there is no place for a history, only for a parent")
    parent = snapshot.parent_id
    return {
        "id": form.write_id(snapshot.id),
        "parent_id": None if parent is None else form.write_id(parent),
        "flushed_at": write_time(snapshot.flushed_at),
        "message": as_text("message", snapshot.message),
    }


def _read_manifest_file(value: object, form: AlphaForm) -> ManifestFileInfo:
    id, *given = as_list("manifest_files", value) or ("",)
    numbers = [as_int("manifest_files", each, 0, UINT64_MAX) for each in given]
    if _has_version(numbers, form.layout):
        del numbers[0]
    if len(numbers) > len(_SIZES):
        raise FormatError(f"manifest_files: a struct of {len(given) + 1} fields, not of 2 to 4")
    sizes = dict(zip(_SIZES, numbers, strict=False))
    return ManifestFileInfo(
        id=form.read_id(ManifestId, id),
        size_bytes=sizes.get("size_bytes"),
        num_chunk_refs=sizes.get("num_chunk_refs"),
    )


def _has_version(numbers: Sequence[int], layout: Layout) -> bool:
    if len(numbers) == len(_SIZES):
        return layout.format_version is not None and numbers[0] <= _LAST_VERSION
    return len(numbers) > len(_SIZES) or (len(numbers) == 1 and numbers[0] <= _LAST_VERSION)


def _write_manifest_file(info: ManifestFileInfo, form: AlphaForm) -> object:
    if info.extra is not None:
        raise InvalidInputError(f"manifest file {info.id}: there is no place for extra bytes")
    fields: dict[str, object] = {"id": form.write_id(info.id)}
    if form.layout.format_version is not None:
        fields["version"] = form.layout.format_version
    for name, size in (("size_bytes", info.size_bytes), ("num_chunk_refs", info.num_chunk_refs)):
        if name in form.layout.manifest_file_sizes:
            fields[name] = as_int(f"manifest file {info.id}: {name}", size, 0, UINT64_MAX)
        elif size is not None:
            raise InvalidInputError(f"manifest file {info.id}: there is no place for {name}")
    return form.write_struct(fields)
