import pytest
import zstandard

from frazil.errors import FormatError, InvalidInputError
from frazil.format.header import (
    HEADER_SIZE,
    MAGIC,
    Compression,
    FileType,
    Header,
    compress,
    decode_file,
    decompress,
    encode_file,
    has_header,
)

HEADER = Header("frazil-0.1.0", 2, FileType.SNAPSHOT)


def test_a_header_has_39_bytes_in_the_order_of_the_specification() -> None:
    data = HEADER.encode()

    assert len(data) == HEADER_SIZE
    assert data[:12] == bytes.fromhex("494345f09fa78a4348554e4b") == MAGIC
    assert data[12:36] == b"frazil-0.1.0".ljust(24)
    assert tuple(data[36:]) == (2, 1, 1)
    assert Header.decode(data) == HEADER


def test_files_are_written_with_zstd_and_a_declared_size() -> None:
    data = encode_file(HEADER, [b"snow", b"", b"flake"])

    assert has_header(data)
    assert zstandard.frame_content_size(data[HEADER_SIZE:]) == 9
    assert decode_file(data, FileType.SNAPSHOT) == (HEADER, b"snowflake")


@pytest.mark.parametrize("level", [1, 3, 19])
@pytest.mark.parametrize("size", [0, 1, 160, 161, 255, 256, 1 << 17, (1 << 17) + 1, (1 << 20) + 1])
def test_payloads_of_all_sizes_are_frames_that_any_zstd_decoder_reads(
    size: int, level: int
) -> None:
    payload = (bytes(range(251)) * (size // 251 + 1))[:size]

    for file_type in (FileType.SNAPSHOT, FileType.MANIFEST):
        compressed = compress([payload], file_type, level)
        assert zstandard.get_frame_parameters(compressed).content_size == size
        assert zstandard.ZstdDecompressor().decompress(compressed) == payload
        assert decompress(compressed, "a file") == payload


def test_an_uncompressed_payload_is_read() -> None:
    header = Header("another", 1, FileType.MANIFEST, Compression.NONE)

    assert decode_file(header.encode() + b"payload", FileType.MANIFEST) == (header, b"payload")


def test_a_frame_without_a_declared_size_is_read() -> None:
    content = bytes(range(256)) * 1000
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    frame = compressor.compress(content) + compressor.flush()

    assert zstandard.frame_content_size(frame) == -1
    assert decompress(frame, "manifest") == content


def test_the_padding_of_an_implementation_name_is_no_part_of_it() -> None:
    data = HEADER.encode().replace(b"frazil-0.1.0", b"other\0\0\0\0\0\0\0")

    assert Header.decode(data).implementation == "other"


def test_a_long_implementation_name_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="over 24 bytes"):
        Header("x" * 25, 2, FileType.SNAPSHOT)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "0 bytes"),
        (MAGIC, "12 bytes"),
        (b"x" * 50, "magic"),
        (HEADER.encode()[:37] + b"\x09\x01", "9"),
        (HEADER.encode()[:38] + b"\x02", "2"),
        (HEADER.encode().replace(b"frazil", b"\xff" * 6), "utf-8"),
    ],
)
def test_a_damaged_header_says_what_is_wrong(data: bytes, why: str) -> None:
    with pytest.raises(FormatError, match="header") as caught:
        decode_file(data, FileType.SNAPSHOT)

    assert why in str(caught.value)


def test_a_file_of_another_type_is_refused() -> None:
    data = encode_file(HEADER, [b"x"])

    with pytest.raises(FormatError, match="manifest file: the header says that it is a snapshot"):
        decode_file(data, FileType.MANIFEST)


@pytest.mark.parametrize("keep", [0, 3, 10, -1])
def test_a_truncated_frame_is_refused(keep: int) -> None:
    frame = zstandard.compress(bytes(range(256)) * 100)

    with pytest.raises(FormatError, match="manifest"):
        decompress(frame[:keep], "manifest")


@pytest.mark.parametrize("declared", [True, False])
def test_bytes_behind_a_frame_are_refused(declared: bool) -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=declared)
    frame = compressor.compress(b"content" * 100)

    with pytest.raises(FormatError, match="manifest"):
        decompress(frame + b"more", "manifest")


def test_a_bomb_is_refused_before_it_grows() -> None:
    stream = zstandard.ZstdCompressor(level=19).compressobj()
    bomb = b"".join([*(stream.compress(bytes(2**20)) for _ in range(64)), stream.flush()])
    assert len(bomb) < 2**14

    with pytest.raises(FormatError, match="compressed bytes"):
        decompress(bomb, "manifest")


def test_a_frame_that_claims_to_be_huge_is_refused_before_memory_is_reserved() -> None:
    frame = bytearray(zstandard.compress(bytes(2**17)))
    size_at = 5 if frame[4] & 0x20 else 6
    frame[size_at : size_at + 4] = (2**31 - 2).to_bytes(4, "little")

    with pytest.raises(FormatError, match="claim to be"):
        decompress(bytes(frame), "manifest")
