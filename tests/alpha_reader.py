"""Repositories of the draft and the alphas, read by rules written down a second time.

Nothing of Frazil is used here: JSON, MessagePack, zstd and the tables of the format's description.
Tests read with it what Frazil committed: refs, history, nodes with their Zarr metadata, and the bytes
of inline and native chunks.
"""

import base64
import json
import math
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import zstandard

_MAGIC = "ICE🧊CHUNK".encode()
_HEADER_SIZE = 39
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_TO_CROCKFORD = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
)
_HISTORY = (
    "manifest_files", "attribute_files", "total_parents", "short_term_parents",
    "short_term_history", "metadata", "started_at", "properties", "nodes",
)  # fmt: skip
_SNAPSHOT_FIELDS = {
    11: ("version", "flags", *_HISTORY),
    9: _HISTORY,
    8: (
        "id", "parent_id", "flushed_at", "message", "properties", "manifest_files",
        "attribute_files", "nodes",
    ),
}  # fmt: skip
_ENTRY_FIELDS = ("id", "written_at", "message")
_NODE_FIELDS = ("id", "path", "user_attributes", "node_data")
_ZARR_FIELDS = (
    "shape", "data_type", "chunk_shape", "chunk_key_encoding", "fill_value", "codecs",
    "storage_transformers", "dimension_names",
)  # fmt: skip
_WORDS = {math.inf: "Infinity", -math.inf: "-Infinity"}


@dataclass(frozen=True)
class OldCommit:
    """A snapshot in a history."""

    id: str
    message: str
    written_at: str
    metadata: Mapping[str, Any]
    """Empty where the snapshot's file is gone."""


@dataclass(frozen=True)
class OldNode:
    """A group or an array; nulls and empty lists that mean nothing are not in the metadata."""

    metadata: dict[str, Any]
    chunks: Mapping[tuple[int, ...], bytes] = field(default_factory=dict)
    """Inline and native ones."""
    virtual: Mapping[tuple[int, ...], Any] = field(default_factory=dict)
    """References as they stand in the file."""


@dataclass(frozen=True)
class OldBranch:
    """What a branch holds."""

    history: list[OldCommit]
    """Newest first."""
    nodes: dict[str, OldNode]


class OldRepository:
    """A repository in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.is_draft = (root / "r").is_dir()

    # Refs

    def branches(self) -> dict[str, str]:
        """Tips by name."""
        return {name: _snapshot_of(files[0]) for name, files in self._branch_files().items()}

    def tags(self) -> dict[str, str]:
        """Snapshots by name, without deleted tags."""
        if self.is_draft:
            files = {file.stem: file for file in (self.root / "r").glob("*.json")}
        else:
            folders = (self.root / "refs").glob("tag[.:]*")
            files = {folder.name[4:]: folder / "ref.json" for folder in folders}
        return {
            name: _snapshot_of(file)
            for name, file in files.items()
            if not file.with_name("ref.json.deleted").exists()
        }

    def _branch_files(self) -> dict[str, list[Path]]:
        """Of each branch, newest first."""
        if self.is_draft:
            folders = {path.name: path for path in (self.root / "r").iterdir() if path.is_dir()}
        else:
            folders = {path.name[7:]: path for path in (self.root / "refs").glob("branch[.:]*")}
        files = {name: sorted(path.glob("*.json")) for name, path in folders.items()}
        return {name: found for name, found in files.items() if found}

    # Branches

    def read_branch(self, name: str) -> OldBranch:
        """History, nodes and chunks of a branch."""
        tip = self.branches()[name]
        return OldBranch(list(self._history(tip)), self._nodes(self._snapshot(tip)))

    def _history(self, tip: str) -> Iterator[OldCommit]:
        snapshot = self._snapshot(tip)
        if "short_term_history" not in snapshot:
            return self._follow_parents(tip)
        own = _struct(snapshot["metadata"], _ENTRY_FIELDS) | {"id": tip}
        text = [_struct(entry, _ENTRY_FIELDS) for entry in snapshot["short_term_history"]]
        assert snapshot["total_parents"] == snapshot["short_term_parents"] == len(text)
        entries = [own, *({**entry, "id": _id(entry["id"])} for entry in text)]
        return (self._commit(entry) for entry in entries)

    def _follow_parents(self, id: str) -> Iterator[OldCommit]:
        parent: str | None = id
        while parent is not None:
            file = self._snapshot(parent)
            assert _id(file["id"]) == parent
            yield OldCommit(parent, file["message"], file["flushed_at"], _plain(file["properties"]))
            parent = None if file["parent_id"] is None else _id(file["parent_id"])

    def _commit(self, entry: dict[str, Any]) -> OldCommit:
        id = entry["id"]
        if not self._snapshot_file(id).exists():
            # The first alphas name the first snapshot's file otherwise than the snapshot.
            id = _snapshot_of(self._branch_files()["main"][-1])
        properties = _plain(self._snapshot(id)["properties"])
        return OldCommit(id, entry["message"], entry["written_at"], properties)

    # Files

    def _snapshot_file(self, id: str) -> Path:
        return self.root / (f"s/{id}.json" if self.is_draft else f"snapshots/{id}")

    def _snapshot(self, id: str) -> dict[str, Any]:
        tree = _load(self._snapshot_file(id))
        return tree if self.is_draft else dict(zip(_SNAPSHOT_FIELDS[len(tree)], tree, strict=True))

    def _manifest(self, id: str) -> dict[tuple[Any, tuple[int, ...]], Any]:
        """Payloads by node and coordinates."""
        tree = _load(self.root / (f"m/{id}.json" if self.is_draft else f"manifests/{id}"))
        if self.is_draft:
            keys = {key: json.loads(key) for key in tree["chunks"]}
            return {(k[0], tuple(k[1])): tree["chunks"][key] for key, k in keys.items()}
        return dict(_flatten(tree[-1]))

    def _nodes(self, snapshot: dict[str, Any]) -> dict[str, OldNode]:
        nodes = snapshot["nodes"]
        return {path: self._node(_struct(node, _NODE_FIELDS)) for path, node in nodes.items()}

    def _node(self, node: dict[str, Any]) -> OldNode:
        attributes = node["user_attributes"] and {
            "attributes": _plain(node["user_attributes"]["Inline"])
        }
        common = {"zarr_format": 3, **(attributes or {})}
        if node["node_data"] == "Group":
            return OldNode({**common, "node_type": "group"})
        zarr, refs = node["node_data"]["Array"]
        fields = _struct(zarr, _ZARR_FIELDS)
        payloads = dict(self._payloads(node["id"], fields, refs))
        virtual = {where: each["Virtual"] for where, each in payloads.items() if "Virtual" in each}
        chunks = {
            where: self._chunk(each) for where, each in payloads.items() if "Virtual" not in each
        }
        return OldNode({**common, "node_type": "array", **_zarr_metadata(fields)}, chunks, virtual)

    def _payloads(
        self, node: Any, fields: dict[str, Any], refs: Any
    ) -> Iterator[tuple[tuple[int, ...], Any]]:
        """Those inside the grid: the first alphas copied chunks of other arrays into manifests."""
        grid = [
            max(-(-length // chunk), 1)
            for length, chunk in zip(fields["shape"], fields["chunk_shape"], strict=True)
        ]
        for ref in refs:
            manifest = self._manifest(_id(ref["object_id"] if self.is_draft else ref[0]))
            for (owner, where), payload in manifest.items():
                if owner == node and _is_inside(where, grid):
                    yield where, payload

    def _chunk(self, payload: dict[str, Any]) -> bytes:
        if "Inline" in payload:
            return bytes(payload["Inline"])
        id, offset, length = _struct(payload["Ref"], ("id", "offset", "length")).values()
        data = (self.root / ("c" if self.is_draft else "chunks") / _id(id)).read_bytes()
        return data[offset : offset + length]


def _is_inside(where: tuple[int, ...], grid: list[int]) -> bool:
    return len(where) == len(grid) and all(map(operator.lt, where, grid))


def _load(path: Path) -> Any:
    data = path.read_bytes()
    if data[:1] == b"{":
        return json.loads(data)
    if data.startswith(_MAGIC):
        assert data[36] == data[38] == 1
        data = data[_HEADER_SIZE:]
    if data.startswith(_ZSTD_MAGIC):
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return msgpack.unpackb(data, strict_map_key=False, use_list=False)


def _snapshot_of(file: Path) -> str:
    return _id(json.loads(file.read_bytes())["snapshot"])


def _id(value: Any) -> str:
    """An id as text; files have it as text, as a list of bytes, or as bytes with an empty struct."""
    if isinstance(value, str):
        return value
    data = bytes(value) if isinstance(value, list) else value[0]
    return base64.b32encode(data).decode().rstrip("=").translate(_TO_CROCKFORD)


def _struct(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(value, dict):
        return {name: value[name] for name in names}
    return dict(zip(names, value, strict=True))


def _flatten(chunks: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in chunks.items():
        if set(value) & {"Inline", "Ref", "Virtual"}:
            yield key, value
        else:
            yield from (((key, where), payload) for where, payload in value.items())


def _zarr_metadata(fields: dict[str, Any]) -> dict[str, Any]:
    data_type = fields["data_type"]
    codecs = [_struct(codec, ("name", "configuration")) for codec in fields["codecs"]]
    ((_, fill_value),) = fields["fill_value"].items()
    metadata: dict[str, Any] = {
        "shape": list(fields["shape"]),
        "data_type": data_type if isinstance(data_type, str) else f"r{data_type['rawbits']}",
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": list(fields["chunk_shape"])},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": _plain(fill_value),
        "codecs": [{k: _plain(v) for k, v in codec.items() if v is not None} for codec in codecs],
    }
    if fields["storage_transformers"]:
        metadata["storage_transformers"] = _plain(fields["storage_transformers"])
    if fields["dimension_names"] is not None:
        metadata["dimension_names"] = _plain(fields["dimension_names"])
    return metadata


def _plain(value: Any) -> Any:
    """JSON as Zarr writes it."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return _WORDS.get(value, "NaN")
    return value
