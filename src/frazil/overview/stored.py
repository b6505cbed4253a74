"""What arrays take, by the kind of their chunks."""

from dataclasses import dataclass

import numpy as np

from frazil.format.references import ChunkKind
from frazil.session import Session


@dataclass(frozen=True, slots=True)
class StoredArray:
    """The chunks of an array in one version."""

    path: str
    chunks: int
    native_bytes: int
    inline_bytes: int
    virtual_bytes: int

    @property
    def total_bytes(self) -> int:
        """Of all kinds together."""
        return self.native_bytes + self.inline_bytes + self.virtual_bytes


def measure_arrays(session: Session) -> tuple[StoredArray, ...]:
    """All arrays of a version, the largest first."""
    view = session.state.view
    found = []
    for node in view.nodes():
        if node.array is None:
            continue
        chunks, sizes = 0, dict.fromkeys(ChunkKind, 0)
        for table in view.tables(node):
            chunks += len(table)
            for kind in ChunkKind:
                sizes[kind] += int(np.sum(table.length[table.kind == kind], dtype=np.uint64))
        native, inline, virtual = (
            sizes[each] for each in (ChunkKind.NATIVE, ChunkKind.INLINE, ChunkKind.VIRTUAL)
        )
        found.append(StoredArray(node.path, chunks, native, inline, virtual))
    return tuple(sorted(found, key=lambda each: (-each.total_bytes, each.path)))
