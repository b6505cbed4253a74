"""The table of groups and arrays, as their metadata describes them."""

import json

import pyarrow as pa

from frazil.frames.source import Source
from frazil.frames.tables.whole import Whole, make_whole
from frazil.overview.nodes import read_metadata

_TEXT = pa.string()
_SCHEMA = pa.schema(
    {
        "path": _TEXT, "name": _TEXT, "parent": _TEXT, "kind": _TEXT, "node_id": _TEXT,
        "attributes": _TEXT, "metadata": _TEXT,
    }
)  # fmt: skip


def open_nodes(source: Source) -> Whole:
    """All nodes of a version, in the order of their paths; attributes and metadata are JSON."""
    nodes = list(source.session.state.view.nodes())
    paths = [node.path for node in nodes]
    documents = [read_metadata(node) for node in nodes]
    columns = {
        "path": paths,
        "name": [path.rpartition("/")[2] for path in paths],
        "parent": [path.rpartition("/")[0] or "/" if path != "/" else None for path in paths],
        "kind": ["group" if node.array is None else "array" for node in nodes],
        "node_id": [str(node.id) for node in nodes],
        "attributes": [json.dumps(each.get("attributes") or {}) for each in documents],
        "metadata": [json.dumps(each) for each in documents],
    }
    return make_whole(source.options, _SCHEMA, columns)
