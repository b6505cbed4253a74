"""A file in a store as h5py reads it: in blocks that are kept, of which as few as can be are asked for.

The metadata of HDF5 is in a few places of a file, each of which is read in many small steps. So a block
is much larger than a step, and one that follows the last is taken with more behind it.
"""

import io
from collections.abc import Callable

ReadRange = Callable[[int, int], bytes]
"""The bytes from a start to an end."""

BLOCK_BYTES = 128 << 10
_MOST_BLOCKS = 32
"""So many are asked for at once, where a file is read on and on."""
_SMALL_FILE_BLOCKS = 8
"""A file that has no more is read as a whole."""


class BlockFile(io.RawIOBase):
    """Bytes of a file, of which the start is known already."""

    def __init__(self, read_range: ReadRange, size_bytes: int, start: bytes = b"") -> None:
        super().__init__()
        self._read_range = read_range
        self._size = size_bytes
        self._position = 0
        self._blocks: dict[int, bytes] = {}
        self._keep(0, start)
        self._next = len(self._blocks)
        self._ahead = 1
        self.failure: Exception | None = None
        """Why the last bytes that were asked for did not come."""

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next bytes come from."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go elsewhere."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Fill a buffer, or as much of it as there is."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view) and self._position < self._size:
            number, inside = divmod(self._position, BLOCK_BYTES)
            part = self._block(number)[inside : inside + len(view) - done]
            view[done : done + len(part)] = part
            done += len(part)
            self._position += len(part)
        return done

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            self._fetch(number)
        return self._blocks[number]

    def _fetch(self, number: int) -> None:
        last = -(-self._size // BLOCK_BYTES)
        self._ahead = min(2 * self._ahead, _MOST_BLOCKS) if number == self._next else 1
        count = last if last <= _SMALL_FILE_BLOCKS else self._ahead
        self._next = min(number + count, last)
        start, end = number * BLOCK_BYTES, min(self._next * BLOCK_BYTES, self._size)
        try:
            data = self._read_range(start, end)
        except Exception as error:
            self.failure = error
            raise
        if len(data) != end - start:
            raise OSError(f"{end - start} bytes were asked for, and {len(data)} came")
        self._keep(number, data)

    def _keep(self, number: int, data: bytes) -> None:
        """Keep the whole blocks of some bytes, and the last one of the file."""
        for start in range(0, len(data), BLOCK_BYTES):
            block = data[start : start + BLOCK_BYTES]
            at = number * BLOCK_BYTES + start
            if len(block) == BLOCK_BYTES or at + len(block) == self._size:
                self._blocks[at // BLOCK_BYTES] = block
