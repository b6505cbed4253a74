"""FlatBuffers put together by hand, for files that no writer would write."""

import struct


class Assembly:
    """A FlatBuffer; what is pointed to must be laid out after what points to it."""

    def __init__(self) -> None:
        self.data = bytearray(struct.pack("<I4s", 0, b"Ichk"))

    def put(self, data: bytes) -> int:
        """Append aligned bytes; returns their position."""
        self.data += bytes(-len(self.data) % 4)
        self.data += data
        return len(self.data) - len(data)

    def vtable(self, table_size: int, slots: dict[int, int]) -> int:
        """A vtable with fields at these distances."""
        distances = [slots.get(slot, 0) for slot in range(max(slots, default=-1) + 1)]
        size = 4 + 2 * len(distances)
        return self.put(struct.pack(f"<HH{len(distances)}H", size, table_size, *distances))

    def table(self, vtable: int, body: bytes) -> int:
        """A table whose fields lie in the body."""
        position = self.put(bytes(4) + body)
        struct.pack_into("<i", self.data, position, position - vtable)
        return position

    def vector(self, count: int, item_size: int = 4) -> int:
        """A vector of zeros."""
        return self.put(struct.pack("<I", count) + bytes(count * item_size))

    def point(self, position: int, target: int) -> None:
        """Make the word at a position point to a later one."""
        struct.pack_into("<I", self.data, position, target - position)

    def payload(self, root: int) -> bytes:
        """The whole buffer, with this root table."""
        self.point(0, root)
        return bytes(self.data)
