"""What arrays take, by the kind of their chunks."""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from frazil.format.references import ChunkKind
from frazil.session import Session

MOST_MANIFESTS_IN_ALL = 2048
"""References are counted in no more manifests of a version; `frazil stats` counts them all."""


@dataclass(frozen=True, slots=True)
class StoredArray:
    """The chunks of an array in one version."""

    path: str
    chunks: int
    native_bytes: int
    inline_bytes: int
    virtual_bytes: int
    is_complete: bool = True
    """Whether all of its manifests were looked at, and not just the first of very many."""

    @property
    def total_bytes(self) -> int:
        """Of all kinds together."""
        return self.native_bytes + self.inline_bytes + self.virtual_bytes


def measure_arrays(
    session: Session, most_manifests: int = MOST_MANIFESTS_IN_ALL
) -> tuple[StoredArray, ...]:
    """All arrays of a version, the largest first; of no more manifests than that."""
    view = session.state.view
    found = []
    left = most_manifests
    for node in view.nodes():
        if node.array is None:
            continue
        chunks, sizes = 0, dict.fromkeys(ChunkKind, 0)
        count = len(node.array.manifests)
        looked_at = min(count, left)
        left -= looked_at
        # A session that writes has a table more, which takes no request.
        for table in islice(view.tables(node), looked_at if looked_at < count else None):
            chunks += len(table)
            for kind in ChunkKind:
                sizes[kind] += int(np.sum(table.length[table.kind == kind], dtype=np.uint64))
        native, inline, virtual = (
            sizes[each] for each in (ChunkKind.NATIVE, ChunkKind.INLINE, ChunkKind.VIRTUAL)
        )
        is_complete = looked_at == count
        found.append(StoredArray(node.path, chunks, native, inline, virtual, is_complete))
    return tuple(sorted(found, key=lambda each: (-each.total_bytes, each.path)))
