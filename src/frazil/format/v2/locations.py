"""Locations of virtual chunks, compressed one by one with a dictionary that the manifest carries.

Rule kept here: the official reader refuses a location that decompresses to more than 1024 bytes, so
longer ones stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import zstandard

from frazil.errors import FormatError
from frazil.format import ragged
from frazil.format.strings import Strings

LARGEST_LOCATION = 1024


@dataclass(frozen=True, slots=True)
class LocationCompression:
    """When and how to compress; the defaults are Icechunk's."""

    min_num_chunks: int = 1000
    """Compress in manifests with at least so many virtual chunks and distinct locations."""
    dictionary_max_training_samples: int = 100
    dictionary_max_size_bytes: int = 2048
    compression_level: int = 3


@dataclass(frozen=True, slots=True)
class CompressedLocations:
    """What a dictionary made of some locations."""

    dictionary: bytes
    frames: list[bytes]
    """A zstd frame for each location; empty for those that stay as they are."""


def compress_locations(
    locations: Strings, options: LocationCompression
) -> CompressedLocations | None:
    """Compress distinct locations, or None where no dictionary can be made of them."""
    items = locations.encoded_list()
    dictionary = _train(items, options)
    if dictionary is None:
        return None
    compressor = zstandard.ZstdCompressor(level=options.compression_level, dict_data=dictionary)
    frames = [compressor.compress(i) if len(i) <= LARGEST_LOCATION else b"" for i in items]
    return CompressedLocations(dictionary.as_bytes(), frames)


def _train(
    items: Sequence[bytes], options: LocationCompression
) -> zstandard.ZstdCompressionDict | None:
    step = max(1, len(items) // options.dictionary_max_training_samples)
    samples: list[bytes | bytearray | memoryview] = [
        item for item in items[::step] if 8 <= len(item) <= LARGEST_LOCATION
    ]
    size = options.dictionary_max_size_bytes
    if 2 * len(samples) <= len(items[::step]) or size < 256:
        return None
    # zstd trains on no less than it may write, so few samples are shown to it repeatedly.
    samples *= 1 + size // max(1, sum(map(len, samples)))
    try:
        return zstandard.train_dictionary(size, samples, level=options.compression_level)
    except zstandard.ZstdError:
        return None


def decompress_locations(decompressor: "Decompressor", frames: list[bytes]) -> Strings:
    """Decompress many locations."""
    items = list(map(decompressor.decompress, frames))
    lengths = np.fromiter(map(len, items), np.int64, len(items))
    blob = np.frombuffer(b"".join(items), np.uint8)
    return Strings(blob, ragged.offsets_of(lengths)).validate(decompressor.what)


class Decompressor:
    """Decompresses locations with the dictionary of a manifest, if it has one."""

    __slots__ = ("_decompressor", "what")

    def __init__(self, dictionary: bytes | None, what: str) -> None:
        self.what = what
        try:
            self._decompressor = zstandard.ZstdDecompressor(
                dict_data=None if dictionary is None else zstandard.ZstdCompressionDict(dictionary)
            )
        except zstandard.ZstdError as error:
            raise FormatError(f"{what}: the location dictionary is damaged: {error}") from error

    def decompress(self, frame: bytes) -> bytes:
        """One location, if its frame is whole and declares no more than 1024 bytes."""
        try:
            # Asked before, because decompressing reserves what a frame declares.
            size = zstandard.frame_content_size(frame)
            if size > LARGEST_LOCATION:
                raise FormatError(f"{self.what}: a location of {size} bytes")
            return self._decompressor.decompress(frame, max_output_size=LARGEST_LOCATION)
        except zstandard.ZstdError as error:
            raise FormatError(f"{self.what}: a compressed location is damaged: {error}") from error
