"""What of an array's chunk grid a task has, and how much of it there is to read: pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from frazil.format.coordinates import Extents, count_places
from frazil.format.ids import ManifestId
from frazil.format.snapshot import ManifestFileInfo, ManifestRef
from frazil.maintenance.batches import pack

T = TypeVar("T")

TASK_REFERENCES = 200_000
"""About half a second of work, without which a task costs more than it does."""


@dataclass(frozen=True, slots=True)
class Share:
    """How many references an item has, at most, and the largest manifest that they are read from."""

    references: int
    read: int


def weigh(
    box: Extents, manifests: Iterable[ManifestRef], counts: Mapping[ManifestId, int]
) -> Share:
    """The share of a box of chunks that is read from some manifests."""
    sizes = [counts.get(ref.id, count_places(ref.extents or box)) for ref in manifests]
    return Share(min(count_places(box), sum(sizes)), max(sizes, default=0))


def count_references(files: Iterable[ManifestFileInfo]) -> dict[ManifestId, int]:
    """How many references manifests have, where it was recorded."""
    return {info.id: info.num_chunk_refs for info in files if info.num_chunk_refs is not None}


def group(items: Sequence[T], shares: Sequence[Share], slots: int) -> list[list[T]]:
    """Neighbours in a task, such that a large manifest is read by about as many tasks as run at once.

    It has to be read whole for the least part of it.
    """
    weights = [
        share.references * TASK_REFERENCES // max(TASK_REFERENCES, share.read // slots)
        for share in shares
    ]
    return pack(items, weights, TASK_REFERENCES)
