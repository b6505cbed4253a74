"""The table of arrays: what their metadata says, how many chunks they have and what these take."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.format.references import ChunkKind
from frazil.format.snapshot import Node
from frazil.frames.source import Source
from frazil.frames.tables.planning import (
    plan_arrays,
    read_tables,
    references_of_a_task,
)
from frazil.frames.tables.whole import choose_columns, list_of
from frazil.overview.nodes import read_metadata
from frazil.session import Session

_TEXT, _NUMBER = pa.string(), pa.int64()
_COUNTS = ("references", "native_bytes", "inline_bytes", "virtual_bytes", "bytes")
_SCHEMA = pa.schema(
    {
        "path": _TEXT, "node_id": _TEXT, "shape": list_of(_NUMBER), "dtype": _TEXT,
        "dims": list_of(_TEXT), "chunk_shape": list_of(_NUMBER), "grid_shape": list_of(_NUMBER),
        "codecs": list_of(_TEXT), "fill_value": _TEXT, "attributes": _TEXT, "manifests": _NUMBER,
        **dict.fromkeys(_COUNTS, _NUMBER),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """The arrays of a version, as `Table` has them; what chunks take is found by tasks."""

    session: Session
    schema: pa.Schema
    most: int
    """References of a task."""

    def partitions(self) -> Sequence[list[str]]:
        """Paths, by how many references the arrays have."""
        return plan_arrays(self.session, self.most)

    def read(self, partition: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """A row for each of some arrays."""
        counts = not set(_COUNTS).isdisjoint(self.schema.names)
        nodes = [self.session.state.view.get_node(path) for path in partition]
        rows = [
            {**_describe(node), **(_count(self.session, node) if counts else {})} for node in nodes
        ]
        columns = [pa.array([row[each.name] for row in rows], each.type) for each in self.schema]
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _describe(node: Node) -> dict[str, Any]:
    assert node.array is not None
    document = read_metadata(node)
    data_type = document.get("data_type")
    chunk_shape = (document.get("chunk_grid") or {}).get("configuration", {}).get("chunk_shape")
    is_regular = chunk_shape and all(isinstance(each, int) for each in chunk_shape)
    return {
        "path": node.path,
        "node_id": str(node.id),
        "shape": [each.array_length for each in node.array.shape],
        "dtype": data_type if isinstance(data_type, str) else json.dumps(data_type),
        "dims": node.array.dimension_names,
        "chunk_shape": chunk_shape if is_regular or chunk_shape == [] else None,
        "grid_shape": [each.num_chunks for each in node.array.shape],
        "codecs": [
            each if isinstance(each, str) else each.get("name")
            for each in document.get("codecs", ())
        ],
        "fill_value": json.dumps(document.get("fill_value")),
        "attributes": json.dumps(document.get("attributes") or {}),
        "manifests": len(node.array.manifests),
    }


def _count(session: Session, node: Node) -> dict[str, int]:
    references, sizes = 0, dict.fromkeys(ChunkKind, 0)
    for table in read_tables(session, node):
        references += len(table)
        for kind in ChunkKind:
            sizes[kind] += int(np.sum(table.length[table.kind == kind], dtype=np.uint64))
    by_kind = {f"{kind.name.lower()}_bytes": size for kind, size in sizes.items()}
    return {"references": references, **by_kind, "bytes": sum(sizes.values())}


def open_arrays(source: Source) -> Arrays:
    """All arrays of a version."""
    schema = choose_columns(source.options, _SCHEMA)
    return Arrays(source.session, schema, references_of_a_task(source))
