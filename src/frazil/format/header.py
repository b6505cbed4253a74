"""Header of binary metadata files, and the dialects of the format."""

from collections.abc import Iterator, Sequence
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Generic, Self, TypeVar

import zstandard

from frazil.errors import FormatError, InvalidInputError
from frazil.format.ragged import Blocks, Part, join
from frazil.lazy import dataclass

MAGIC = "ICE🧊CHUNK".encode()
HEADER_SIZE = 39
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
DEFAULT_LEVEL = 3

_NAME = slice(12, 36)

# FlatBuffers can't be larger, and valid metadata never compresses a thousandfold.
_LARGEST_PAYLOAD = 2**31 - 1
_LARGEST_RATIO = 1024
_ALWAYS_ALLOWED = 16 * 2**20


class FileType(IntEnum):
    """Type of a file, as recorded in its header."""

    SNAPSHOT = 1
    MANIFEST = 2
    ATTRIBUTES = 3
    TRANSACTION_LOG = 4
    CHUNK = 5
    REPO_INFO = 6

    @property
    def label(self) -> str:
        """Return the name used in errors and by `inspect`, such as `transaction-log`."""
        return self.name.lower().replace("_", "-")


_NAMES = {each: f"{each.label} file" for each in FileType}

_LARGE = 8 << 20
_THREADS = 4
"""Number of threads that compress a large payload."""
_KNOWN_HEADERS = 64
"""Size of the cache of decoded headers; few repositories have more distinct headers."""

_TABULAR = (FileType.MANIFEST, FileType.TRANSACTION_LOG, FileType.REPO_INFO)


class Compression(IntEnum):
    """Compression of a payload."""

    NONE = 0
    ZSTD = 1


@dataclass(frozen=True, slots=True)
class Header:
    """Fields of the 39-byte file header."""

    implementation: str
    spec_version: int
    file_type: FileType
    compression: Compression = Compression.ZSTD

    def __post_init__(self) -> None:
        if len(self.implementation.encode()) > 24:
            raise InvalidInputError(f"implementation name {self.implementation!r} is over 24 bytes")

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the header at the start of a file."""
        if len(data) < HEADER_SIZE:
            raise FormatError(f"header: {len(data)} bytes, {HEADER_SIZE} are needed")
        if data[:12] != MAGIC:
            raise FormatError("header: the file does not start with Icechunk's magic bytes")
        spec_version, file_type, compression = data[36:39]
        try:
            return cls(
                implementation=data[_NAME].decode().rstrip(" \0"),
                spec_version=spec_version,
                file_type=FileType(file_type),
                compression=Compression(compression),
            )
        except ValueError as error:
            raise FormatError(f"header: {error}", kind="invalid-file-format") from error

    def encode(self) -> bytes:
        """Encode the header into its 39 bytes."""
        name = self.implementation.encode().ljust(24)
        return MAGIC + name + bytes((self.spec_version, self.file_type, self.compression))


def has_header(data: bytes) -> bool:
    """Return whether a file starts with the magic bytes."""
    return data[:12] == MAGIC


def is_messagepack_payload(payload: bytes) -> bool:
    """Return whether a payload can be a MessagePack struct, as alphas wrote it; a FlatBuffer can't."""
    return bool(payload) and 0x92 <= payload[0] <= 0x9B and payload[4:8] != b"Ichk"


def find_header(data: bytes) -> Header | None:
    """Return the header of a file, or None if it has none; raise FormatError if damaged."""
    return _decode_header(bytes(data[:HEADER_SIZE])) if has_header(data) else None


def find_file_type(data: bytes) -> FileType | None:
    """Return the file type in the header, or None without a header; raise FormatError if damaged."""
    header = find_header(data)
    return None if header is None else header.file_type


def decode_file(data: bytes, expected: FileType) -> tuple[Header, bytes]:
    """Split a file into its header and its decompressed payload, which must be of the expected type."""
    header = _decode_header(data[:HEADER_SIZE])
    if header.file_type is not expected:
        raise FormatError(
            f"{expected.label} file: the header says that it is a {header.file_type.label}"
        )
    if header.compression is Compression.NONE:
        return header, bytes(data[HEADER_SIZE:])
    return header, decompress(memoryview(data)[HEADER_SIZE:], _NAMES[expected])


@lru_cache(_KNOWN_HEADERS)
def _decode_header(data: bytes) -> Header:
    return Header.decode(data)


def encode_file(header: Header, payload: Sequence[Part], level: int = DEFAULT_LEVEL) -> bytes:
    """Encode a file: the header and the compressed payload."""
    return header.encode() + compress(payload, header.file_type, level)


def compress(payload: Sequence[Part], file_type: FileType, level: int) -> bytes:
    """Compress a payload as one zstd frame: at once or, if it is large, part by part."""
    size = sum(map(len, payload))
    if size <= _FEW_BYTES and level <= DEFAULT_LEVEL:
        # A frame with its size in one byte, and one block, the last, of these bytes as they are.
        return ZSTD_MAGIC + b"\x20%c" % size + (size << 3 | 1).to_bytes(3, "little") + join(payload)
    if size <= _SMALL:
        return _compress_at_once(join(payload), file_type, level)
    parameters = _parameters(file_type, level, size)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj(size=size)
    compressed = [stream.compress(block) for block in _blocks_of(payload) if block.nbytes]
    return b"".join([*compressed, stream.flush()])


_FEW_BYTES = 160
"""Size up to which compression saves some tens of bytes, and takes longer than all else."""
_TINY = 1 << 17
"""Size up to which a higher level saves a hundredth, and takes twice as long."""
_SMALL = 1 << 20
"""Size up to which a payload is compressed at once."""

_idle: dict[tuple[bool, int, bool], list[zstandard.ZstdCompressor]] = {}
"""Compressors that no thread uses, by kind of file, level and size: few, for each takes memory anew."""


def _compress_at_once(data: bytes, file_type: FileType, level: int) -> bytes:
    is_tiny = len(data) <= _TINY and level <= DEFAULT_LEVEL
    key = (is_tiny or file_type in _TABULAR, level, is_tiny)
    idle = _idle.setdefault(key, [])
    try:
        compressor = idle.pop()
    except IndexError:
        parameters = _parameters(file_type, level, _TINY if is_tiny else _SMALL)
        compressor = zstandard.ZstdCompressor(compression_params=parameters)
    compressed = compressor.compress(data)
    idle.append(compressor)
    return compressed


def _blocks_of(payload: Sequence[Part]) -> Iterator[memoryview]:
    for part in payload:
        for block in part if isinstance(part, Blocks) else (part,):
            yield memoryview(block)


def _parameters(file_type: FileType, level: int, size: int) -> zstandard.ZstdCompressionParameters:
    # For rows of one stride the simplest matcher is better: manifests become a seventh
    # smaller and are compressed in half the time. Small payloads lose a hundredth by it.
    options = {"threads": _THREADS} if size >= _LARGE else {}
    if level <= DEFAULT_LEVEL and (size <= _TINY or file_type in _TABULAR):
        options["strategy"] = zstandard.STRATEGY_FAST
        if size <= _TINY:
            level = min(level, 1)
    return zstandard.ZstdCompressionParameters.from_level(level, source_size=size, **options)


_idle_decompressors: list[zstandard.ZstdDecompressor] = []
"""Decompressors that no thread uses: making one takes longer than to decompress a small file."""


def decompress(data: bytes | memoryview, what: str) -> bytes:
    """Decompress one zstd frame, with or without a declared content size."""
    limit = min(_LARGEST_PAYLOAD, max(_ALWAYS_ALLOWED, _LARGEST_RATIO * len(data)))
    try:
        size = zstandard.get_frame_parameters(bytes(data[:18])).content_size
        if size == zstandard.CONTENTSIZE_UNKNOWN:
            return _decompress_stream(data, limit, what)
        if size > limit:
            raise FormatError(f"{what}: {len(data)} compressed bytes claim to be {size}")
        try:
            decompressor = _idle_decompressors.pop()
        except IndexError:
            decompressor = zstandard.ZstdDecompressor()
        decompressed = decompressor.decompress(data, allow_extra_data=False)
        _idle_decompressors.append(decompressor)
        return decompressed
    except (zstandard.ZstdError, MemoryError) as error:
        raise FormatError(f"{what}: the zstd frame is damaged: {error}") from error


def _decompress_stream(data: bytes | memoryview, limit: int, what: str) -> bytes:
    # A zstd block of 4 bytes can expand to 128 KiB: small steps limit the overshoot of a bomb.
    step = max(256, limit >> 15)
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    parts: list[bytes] = []
    total = 0
    for start in range(0, len(data), step):
        if decompressor.eof:
            raise FormatError(f"{what}: there are bytes behind the zstd frame")
        parts.append(decompressor.decompress(data[start : start + step]))
        total += len(parts[-1])
        if total > limit:
            raise FormatError(f"{what}: {len(data)} compressed bytes become more than {limit}")
    if not decompressor.eof or decompressor.unused_data:
        raise FormatError(f"{what}: the zstd frame does not end where the file ends")
    return b"".join(parts)


T_co = TypeVar("T_co", covariant=True)


class Dialect(Enum):
    """Layout of files. A repository keeps its dialect when it is committed to.

    The alpha releases changed their MessagePack layout seven times; the letters are those of
    `docs/compatibility.md`.
    """

    DRAFT = "draft"
    ALPHA_A = "0.1.0a1-a4"
    ALPHA_B = "0.1.0a5-a7"
    ALPHA_C = "0.1.0a8"
    ALPHA_D = "0.1.0a9"
    ALPHA_E = "0.1.0a10"
    ALPHA_F = "0.1.0a11-a12"
    ALPHA_G = "0.1.0a13-a15"
    ALPHA_H = "0.1.0-0.1.3"
    V1 = "1"
    V2 = "2"

    __hash__ = object.__hash__  # that of enumerations is a Python function of the name

    def __init__(self, _: str) -> None:
        self.age = len(type(self).__members__)
        """Position among the dialects, oldest first."""
        is_draft, is_newest = self.age == 0, self.age == 10
        self.id_size = 16 if is_draft else 12
        """Number of bytes of the ids of snapshots, manifests and chunks."""
        self.numbers_nodes = self.age < 2
        """Nodes have numbers instead of random ids."""
        self.has_logs = self.age >= 2
        """Commits have transaction logs."""
        self.has_checksums = self.age >= 3
        """Virtual chunks have checksums."""
        self.shares_manifests = self.age < 7
        """All arrays of a snapshot share one manifest."""
        self.records_history = self.age < 8
        """Snapshots record their ancestors."""
        self.is_legacy = self.age < 9
        """Before V1: no extents of manifests, no `zarr.json` as it was written."""
        self.names_parents = not is_newest
        """Snapshot files name their parents; in V2 only the repo info does."""
        self.has_repo_info = is_newest
        """Refs, history and state are in one object, `repo`."""


@dataclass(frozen=True, slots=True)
class Decoded(Generic[T_co]):
    """Decoded value of a file, with the dialect to write it back in."""

    value: T_co
    dialect: Dialect
    header: Header | None = None
    """Header of the file; None in the draft and the alphas before 0.1.0a10, which have none."""
