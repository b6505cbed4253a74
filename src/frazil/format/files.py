"""Encode and decode whole metadata files of every generation.

Decoding depends on the file alone: on the header, if there is one, then on the payload, because V1 and
late alphas share a version number and differ in the payload. The name of the writing program is
ignored, because development builds carried that of the previous release.
"""

from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from frazil import __version__
from frazil.errors import FormatError, InvalidInputError
from frazil.format.header import (
    DEFAULT_LEVEL,
    ZSTD_MAGIC,
    Decoded,
    Dialect,
    FileType,
    Header,
    compress,
    decode_file,
    decompress,
    has_header,
    is_messagepack_payload,
)
from frazil.format.ids import SnapshotId
from frazil.format.manifest import LocationCompression, Manifest, NativeChunks
from frazil.format.ragged import Part
from frazil.format.repo_info import LogPage, RepoInfo
from frazil.format.snapshot import ManifestFileInfo, Snapshot, TransactionLog
from frazil.format.v2 import snapshot_codec as v2_snapshot
from frazil.format.v2.manifest_decoder import (
    LocationEncoding,
    decode_manifest_payload,
    find_natives,
    read_location_encoding,
)
from frazil.format.v2.repo_info_codec import (
    decode_log_page_payload,
    decode_repo_info_payload,
    record_repo_info_payload,
)
from frazil.format.v2.snapshot_codec import (
    decode_snapshot_payload,
    decode_transaction_log_payload,
    encode_snapshot_payload,
    encode_transaction_log_payload,
)
from frazil.lazy import dataclass, lazy_modules

if TYPE_CHECKING:
    from frazil.format import alpha, draft
    from frazil.format.v2 import manifest_encoder
else:
    # Few repositories are older than V1, and most processes only read.
    alpha, draft, manifest_encoder = lazy_modules(
        "frazil.format.alpha", "frazil.format.draft",
        "frazil.format.v2.manifest_encoder",
    )  # fmt: skip

IMPLEMENTATION = f"frazil-{__version__}"

_FLATBUFFERS = {1: Dialect.V1, 2: Dialect.V2}
_SPEC_VERSIONS = {dialect: version for version, dialect in _FLATBUFFERS.items()}


@dataclass(frozen=True, slots=True)
class FileEncoding:
    """Options for writing files."""

    implementation: str = IMPLEMENTATION
    compression_level: int = DEFAULT_LEVEL
    location_compression: LocationCompression | None = field(default_factory=LocationCompression)
    """Compression of virtual chunk locations in V2 manifests; None stores them uncompressed."""


DEFAULT_ENCODING = FileEncoding()


def decode_snapshot(data: bytes) -> Decoded[Snapshot]:
    """Decode a snapshot file."""
    if data[:1] == b"{":
        return draft.decode_snapshot(data)
    header, payload = _open(data, FileType.SNAPSHOT)
    if header is None or is_messagepack_payload(payload):
        return alpha.decode_snapshot_payload(payload, header)
    dialect = _dialect_of(header)
    return Decoded(decode_snapshot_payload(payload, header.spec_version), dialect, header)


def decode_used_manifests(data: bytes) -> Sequence[ManifestFileInfo]:
    """Return the manifests of a snapshot file, as `Snapshot.used_manifests` does."""
    if has_header(data):
        header, payload = decode_file(data, FileType.SNAPSHOT)
        if header.spec_version in _FLATBUFFERS and not is_messagepack_payload(payload):
            return v2_snapshot.decode_used_manifests(payload)
    return decode_snapshot(data).value.used_manifests()


def decode_manifest(data: bytes) -> Decoded[Manifest]:
    """Decode a manifest file; V1 and V2 references stay encoded until they are needed."""
    if data[:1] == b"{":
        return draft.decode_manifest(data)
    if data[:4] == ZSTD_MAGIC:
        return alpha.decode_manifest(data)
    header, payload = _open(data, FileType.MANIFEST)
    if header is None or is_messagepack_payload(payload):
        return alpha.decode_manifest_payload(payload, header)
    dialect = _dialect_of(header)
    return Decoded(decode_manifest_payload(payload), dialect, header)


def decode_native_manifests(files: Sequence[bytes]) -> tuple[NativeChunks, list[int]]:
    """Decode, in one batch, the manifest files that hold only native chunks.

    Also return the indexes of the files that `decode_manifest` must read, including damaged ones.
    """
    payloads = list(map(_find_manifest_payload, files))
    natives, is_plain = find_natives([payload or b"" for payload in payloads])
    return natives, np.flatnonzero(~is_plain).tolist()


def _find_manifest_payload(data: bytes) -> bytes | None:
    """Return the FlatBuffer of a manifest file, or None."""
    if not has_header(data):
        return None
    try:
        header, payload = decode_file(data, FileType.MANIFEST)
    except FormatError:
        return None
    is_flatbuffer = header.spec_version in _FLATBUFFERS
    return payload if is_flatbuffer and not is_messagepack_payload(payload) else None


def inspect_manifest_payload(data: bytes) -> tuple[int, LocationEncoding]:
    """Return the decompressed payload size of a manifest file, and its location encoding."""
    if data[:4] == ZSTD_MAGIC:
        return len(decompress(data, "manifest file")), LocationEncoding()
    header, payload = _open(data, FileType.MANIFEST)
    if header is None or is_messagepack_payload(payload):
        return len(payload), LocationEncoding()
    return len(payload), read_location_encoding(payload)


def decode_transaction_log(data: bytes, snapshot_id: SnapshotId) -> Decoded[TransactionLog]:
    """Decode a transaction log file; alpha files don't record the snapshot they belong to."""
    header, payload = _open(data, FileType.TRANSACTION_LOG)
    if header is None or is_messagepack_payload(payload):
        return alpha.decode_transaction_log_payload(payload, header, snapshot_id)
    dialect = _dialect_of(header)
    return Decoded(decode_transaction_log_payload(payload), dialect, header)


def decode_repo_info(data: bytes) -> Decoded[RepoInfo]:
    """Decode a repo info file."""
    header, payload = decode_file(data, FileType.REPO_INFO)
    dialect = _dialect_of(header)
    return Decoded(decode_repo_info_payload(payload), dialect, header)


def decode_log_page(data: bytes) -> LogPage:
    """Decode only the ops log of a repo info file."""
    header, payload = decode_file(data, FileType.REPO_INFO)
    _dialect_of(header)
    return decode_log_page_payload(payload)


def encode_snapshot(
    snapshot: Snapshot, dialect: Dialect, options: FileEncoding = DEFAULT_ENCODING
) -> bytes:
    """Encode a snapshot file."""
    if version := _SPEC_VERSIONS.get(dialect):
        payload = encode_snapshot_payload(snapshot, version)
        return _close(payload, FileType.SNAPSHOT, version, options)
    if dialect is Dialect.DRAFT:
        return draft.encode_snapshot(snapshot)
    return alpha.encode_snapshot(
        snapshot, dialect, options.implementation, options.compression_level
    )


def encode_manifest(
    manifest: Manifest, dialect: Dialect, options: FileEncoding = DEFAULT_ENCODING
) -> bytes:
    """Encode a manifest file; raise InvalidInputError if it is too large for readers."""
    if version := _SPEC_VERSIONS.get(dialect):
        compression = options.location_compression if dialect is Dialect.V2 else None
        payload = manifest_encoder.encode_manifest_payload(manifest, compression)
        return _close(payload, FileType.MANIFEST, version, options)
    if dialect is Dialect.DRAFT:
        return draft.encode_manifest(manifest)
    return alpha.encode_manifest(
        manifest, dialect, options.implementation, options.compression_level
    )


def encode_transaction_log(
    log: TransactionLog, dialect: Dialect, options: FileEncoding = DEFAULT_ENCODING
) -> bytes:
    """Encode a transaction log file; the draft and the first alphas have none."""
    if version := _SPEC_VERSIONS.get(dialect):
        payload = encode_transaction_log_payload(log, version)
        return _close(payload, FileType.TRANSACTION_LOG, version, options)
    if dialect in (Dialect.DRAFT, Dialect.ALPHA_A):
        raise InvalidInputError(f"transaction log: the {dialect.value} generation has none")
    return alpha.encode_transaction_log(
        log, dialect, options.implementation, options.compression_level
    )


def encode_repo_info(info: RepoInfo, options: FileEncoding = DEFAULT_ENCODING) -> bytes:
    """Encode a repo info file; only V2 has one."""
    return record_repo_info(info, options)[0]


def record_repo_info(info: RepoInfo, options: FileEncoding) -> tuple[bytes, RepoInfo]:
    """Encode a repo info file; also return the repo info that the next one is encoded from quickly."""
    payload, recorded = record_repo_info_payload(info)
    return _close(payload, FileType.REPO_INFO, 2, options), recorded


def _open(data: bytes, file_type: FileType) -> tuple[Header | None, bytes]:
    """Return the header, if there is one, and the decompressed payload."""
    if has_header(data):
        return decode_file(data, file_type)
    return None, data


def _close(payload: list[Part], file_type: FileType, version: int, options: FileEncoding) -> bytes:
    compressed = compress(payload, file_type, options.compression_level)
    return _encode_header(options.implementation, version, file_type) + compressed


@lru_cache
def _encode_header(implementation: str, version: int, file_type: FileType) -> bytes:
    return Header(implementation, version, file_type).encode()


def _dialect_of(header: Header) -> Dialect:
    dialect = _FLATBUFFERS.get(header.spec_version)
    if dialect is None:
        raise FormatError(
            f"{header.file_type.label} file: specification version {header.spec_version} is unknown",
            kind="unsupported-spec-version",
        )
    return dialect
