"""What Frazil itself keeps in a repository, as tables: the ledger of ingested files, and statistics.

Both are ordinary arrays, below the group `/_frazil`, of the same version as the data.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from numpy.typing import NDArray

from frazil.format.snapshot import Node
from frazil.frames.source import Source
from frazil.frames.tables.whole import Whole, list_of, make_whole
from frazil.frames.types import TIMESTAMP
from frazil.session import Session
from frazil.virtual.quiet import without_codec_warnings

LEDGER = "/_frazil/ledger"
STATISTICS = "/_frazil/statistics"

_TEXT = pa.string()
_LEDGER = pa.schema(
    {
        "source": _TEXT, "group": _TEXT, "etag": _TEXT, "size": pa.int64(), "modified_at": TIMESTAMP,
        "start": pa.int64(), "stop": pa.int64(), "job": _TEXT,
    }
)  # fmt: skip
_STATISTICS = pa.schema(
    {
        "array": _TEXT, "chunk": list_of(pa.int64()), "min": pa.float64(), "max": pa.float64(),
        "count": pa.int64(), "null_count": pa.int64(), "sum": pa.float64(),
    }
)  # fmt: skip
_MEASURES = _STATISTICS.names[2:]
_NO_SUM = np.iinfo(np.int64).min
"""The sum of integers that is none of 64 bits."""


def open_ledger(source: Source) -> Whole:
    """The files that were ingested; empty where none were."""
    arrays = _read_arrays(source.session, LEDGER)
    columns: dict[str, Any] = {name: [] for name in _LEDGER.names}
    if arrays:
        start = arrays["start"]
        columns = {
            **{name: arrays[name].tolist() for name in ("source", "group", "size", "job")},
            "etag": [each or None for each in arrays["etag"].tolist()],
            "modified_at": pa.array(arrays["mtime"]).cast(TIMESTAMP),
            "start": pa.array(start, mask=start < 0),
            "stop": pa.array(arrays["stop"], mask=start < 0),
        }
    return make_whole(source.options, _LEDGER, columns)


def open_statistics(source: Source) -> Whole:
    """What is known of the values of chunks; empty where nothing is.

    Of an array `/a/b` it is in the group `/_frazil/statistics/a/b`: an array for each measure, with an
    element for each chunk. Times are in microseconds since 1970. Chunks may have changed since.
    """
    parts = [
        _spread(path, measures)
        for path, measures in _find_measures(source.session)
        if "count" in measures
    ]
    empty = pa.table({f.name: pa.array([], f.type) for f in _STATISTICS})
    rows = pa.concat_tables([empty, *parts])
    return make_whole(source.options, _STATISTICS, {n: rows.column(n) for n in rows.column_names})


def _find_measures(session: Session) -> Iterator[tuple[str, Mapping[str, NDArray[Any]]]]:
    """The measures of arrays, by their paths."""
    for node in session.state.view.descendants(STATISTICS):
        if node.array is None and node.path != STATISTICS:
            arrays = _read_arrays(session, node.path, _MEASURES)
            if arrays:
                yield node.path.removeprefix(STATISTICS), arrays


def _spread(path: str, measures: Mapping[str, NDArray[Any]]) -> pa.Table:
    """A row for each chunk of which something is known."""
    counts = measures["count"]
    nulls = measures.get("null_count", np.zeros_like(counts))
    known = (counts.reshape(-1) >= 0) & ((counts + nulls).reshape(-1) > 0)
    places = np.argwhere(np.ones(counts.shape, np.bool_)).astype(np.int64)[known]
    offsets = np.arange(len(places) + 1, dtype=np.int32) * np.int32(counts.ndim)
    chunk = pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(places.reshape(-1)), type=list_of(pa.int64())
    )
    columns = [pa.repeat(pa.scalar(path), len(places)), chunk]
    empty = counts.reshape(-1)[known] == 0
    for name in _MEASURES:
        type = _STATISTICS.field(name).type
        if name in measures:
            columns.append(_measure(measures[name].reshape(-1)[known], type, empty))
        else:
            columns.append(pa.nulls(len(places), type))
    return pa.table(columns, schema=_STATISTICS)


def _measure(values: NDArray[Any], type: pa.DataType, empty: NDArray[np.bool_]) -> pa.Array:
    """A column of a measure; null where there is none, or nothing that it would be of."""
    if type == pa.int64():
        return pa.array(values.astype(np.int64))
    missing = empty | (values == _NO_SUM if values.dtype == np.int64 else np.isnan(values))
    return pa.array(values.astype(np.float64), mask=missing)


def _read_arrays(
    session: Session, path: str, names: list[str] | None = None
) -> dict[str, NDArray[Any]]:
    """The arrays of a group, those of these names only; none where there is no group."""
    view = session.state.view
    if view.find_node(path) is None:
        return {}
    with without_codec_warnings():
        return {
            node.path.rpartition("/")[2]: _read_array(session, node)
            for node in view.children(path)
            if node.array is not None and (names is None or node.path.rpartition("/")[2] in names)
        }


def _read_array(session: Session, node: Node) -> NDArray[Any]:
    array: Any = zarr.open_array(session.store, path=node.path.lstrip("/"), mode="r")
    return np.asarray(array[...])
