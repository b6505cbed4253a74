"""A copy of a repository in which every metadata file went through Frazil's decoders and encoders."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from frazil.format.files import (
    decode_manifest,
    decode_repo_info,
    decode_snapshot,
    decode_transaction_log,
    encode_manifest,
    encode_repo_info,
    encode_snapshot,
    encode_transaction_log,
)
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.manifest import ChunkTable
from frazil.format.ragged import Strings
from frazil.format.text_files import decode_config_yaml, decode_ref, encode_config_yaml, encode_ref

Relocate = Callable[[str], str]


def rewrite_repository(source: Path, target: Path, relocate: Relocate) -> None:
    """Rewrite every metadata file in its own dialect; locations become what `relocate` makes them."""
    shutil.copytree(source, target)
    sizes = {
        ManifestId.parse(path.name): _rewrite(path, lambda data: _manifest(data, relocate))
        for path in _files(target, "manifests/*")
    }
    for path in _files(target, "snapshots/*"):
        _rewrite(path, lambda data: _snapshot(data, sizes))
    for path in _files(target, "transactions/*"):
        id_ = SnapshotId.parse(path.name)
        _rewrite(path, lambda data, id_=id_: _transaction_log(data, id_))  # type: ignore[misc]
    for path in (*_files(target, "repo"), *_files(target, "overwritten/repo.*")):
        _rewrite(path, lambda data: encode_repo_info(decode_repo_info(data).value))
    for path in _files(target, "refs/*/ref.json"):
        _rewrite(path, lambda data: encode_ref(decode_ref(data)))
    for path in _files(target, "config.yaml"):
        _rewrite(path, lambda data: encode_config_yaml(decode_config_yaml(data)))


def _files(root: Path, pattern: str) -> list[Path]:
    return sorted(path for path in root.glob(pattern) if path.is_file())


def _rewrite(path: Path, recode: Callable[[bytes], bytes]) -> int:
    data = recode(path.read_bytes())
    # Two names may be links to one file: a new file takes the place of this name only.
    path.unlink()
    path.write_bytes(data)
    return len(data)


def _manifest(data: bytes, relocate: Relocate) -> bytes:
    decoded = decode_manifest(data)
    tables = {id_: _relocate(table, relocate) for id_, table in decoded.value.tables().items()}
    return encode_manifest(replace(decoded.value, arrays=tables), decoded.dialect)


def _relocate(table: ChunkTable, relocate: Relocate) -> ChunkTable:
    return replace(table, locations=Strings.of(map(relocate, table.locations)))


def _snapshot(data: bytes, sizes: Mapping[ManifestId, int]) -> bytes:
    """The official library fetches as many bytes of a manifest as the snapshot says it has."""
    decoded = decode_snapshot(data)
    files = (replace(f, size_bytes=sizes[f.id]) for f in decoded.value.manifest_files)
    return encode_snapshot(replace(decoded.value, manifest_files=tuple(files)), decoded.dialect)


def _transaction_log(data: bytes, snapshot_id: SnapshotId) -> bytes:
    decoded = decode_transaction_log(data, snapshot_id)
    return encode_transaction_log(decoded.value, decoded.dialect)
