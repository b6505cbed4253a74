"""The table of manifest files that a version uses."""

from collections import defaultdict

import pyarrow as pa

from frazil.format.ids import ManifestId
from frazil.format.snapshot import Node
from frazil.frames.source import Source
from frazil.frames.tables.whole import Whole, list_of, make_whole

_TEXT, _BOX_SIDE = pa.string(), list_of(pa.int64())
_BOX = pa.struct({"array": _TEXT, "first": _BOX_SIDE, "end": _BOX_SIDE})
_SCHEMA = pa.schema(
    {
        "manifest_id": _TEXT, "size_bytes": pa.int64(), "references": pa.int64(),
        "arrays": list_of(_TEXT), "extents": list_of(_BOX),
    }
)  # fmt: skip


def open_manifests(source: Source) -> Whole:
    """The manifests of a version, with the box of chunks of each array that is in them."""
    snapshot = source.session.state.view.snapshot
    boxes = _find_boxes(list(snapshot.nodes.values()))
    files = snapshot.used_manifests()
    columns = {
        "manifest_id": [str(file.id) for file in files],
        "size_bytes": [file.size_bytes for file in files],
        "references": [file.num_chunk_refs for file in files],
        "arrays": [sorted({str(box["array"]) for box in boxes[file.id]}) for file in files],
        "extents": [boxes[file.id] for file in files],
    }
    return make_whole(source.options, _SCHEMA, columns)


def _find_boxes(nodes: list[Node]) -> dict[ManifestId, list[dict[str, object]]]:
    boxes: dict[ManifestId, list[dict[str, object]]] = defaultdict(list)
    for node in nodes:
        for ref in () if node.array is None else node.array.manifests:
            first, end = ([side[at] for side in ref.extents] for at in (0, 1))
            boxes[ref.id].append({"array": node.path, "first": first, "end": end})
    return boxes
