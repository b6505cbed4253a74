"""What stands around an alpha payload: nothing, zstd alone, or a header and zstd."""

from typing import NamedTuple

import zstandard

from frazil.format.alpha.layouts import Layout
from frazil.format.header import (
    ZSTD_MAGIC,
    FileType,
    Header,
    decode_file,
    decompress,
    encode_file,
    has_header,
)

_SPEC_VERSION = 1


class Envelope(NamedTuple):
    """A file taken out of its envelope."""

    payload: bytes
    header: Header | None
    has_bare_zstd: bool


def open_envelope(data: bytes, file_type: FileType) -> Envelope:
    """Take a payload out of a file."""
    if has_header(data):
        header, payload = decode_file(data, file_type)
        return Envelope(payload, header, has_bare_zstd=False)
    if data[:4] == ZSTD_MAGIC:
        return Envelope(decompress(data, "file"), None, has_bare_zstd=True)
    return Envelope(data, None, has_bare_zstd=False)


def seal_envelope(
    payload: bytes, file_type: FileType, layout: Layout, implementation: str, level: int
) -> bytes:
    """Make a file of a payload as the layout has it."""
    if layout.has_header:
        return encode_file(Header(implementation, _SPEC_VERSION, file_type), [payload], level)
    if layout.has_bare_zstd_manifests and file_type is FileType.MANIFEST:
        return zstandard.ZstdCompressor(level=level).compress(payload)
    return payload
