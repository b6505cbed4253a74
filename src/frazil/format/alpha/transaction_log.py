"""Alpha transaction logs, which began with 0.1.0a5.

A version (not in H), six sets of nodes, and the coordinates of updated chunks by node. Sets are
written in order; the official library wrote them in no order.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from frazil.errors import FormatError, InvalidInputError
from frazil.format.alpha.envelope import open_envelope, seal_envelope
from frazil.format.alpha.form import AlphaForm
from frazil.format.alpha.layouts import LAYOUTS, get_layout
from frazil.format.alpha.messagepack import pack, unpack
from frazil.format.checked import (
    UINT16_MAX,
    as_coordinates,
    as_int,
    as_list,
    as_map,
    located,
    refused,
)
from frazil.format.coordinates import Coordinates
from frazil.format.dialect import Decoded, Dialect
from frazil.format.header import DEFAULT_LEVEL, FileType, Header
from frazil.format.ids import NodeId, SnapshotId
from frazil.format.transaction_log import TransactionLog

_NODE_SETS = (
    "new_groups",
    "new_arrays",
    "deleted_groups",
    "deleted_arrays",
    "updated_attributes",
    "updated_arrays",
)
_WITHOUT_PLACE = ("updated_groups", "moves", "extra")


def decode_transaction_log(data: bytes, id: SnapshotId) -> Decoded[TransactionLog]:
    """Decode a transaction log of any layout; its id is that of its snapshot, the file's name.

    The dialect is the oldest that looks like this file: B, C and D are alike, F and G too.
    """
    with located("alpha transaction log"):
        envelope = open_envelope(data, FileType.TRANSACTION_LOG)
    return decode_transaction_log_payload(envelope.payload, envelope.header, id)


def decode_transaction_log_payload(
    payload: bytes, header: Header | None, id: SnapshotId
) -> Decoded[TransactionLog]:
    """The same for what is inside the envelope."""
    with located("alpha transaction log"):
        tree = list(as_list("payload", unpack(payload)))
        if len(tree) not in (7, 8):
            raise FormatError(f"a struct of {len(tree)} fields, not of 7 or 8")
        version = as_int("version", tree.pop(0), 0, UINT16_MAX) if len(tree) == 8 else None
        dialect = _detect_dialect(version, tree)
        form = AlphaForm(LAYOUTS[dialect])
        *sets, chunks = tree
        nodes: dict[str, Any] = {
            name: frozenset(map(form.read_node_id, as_list(name, value)))
            for name, value in zip(_NODE_SETS, sets, strict=True)
        }
        updated_chunks = {
            form.read_node_id(node): _read_coordinates(rows)
            for node, rows in as_map("updated_chunks", chunks).items()
        }
        return Decoded(TransactionLog(id, **nodes, updated_chunks=updated_chunks), dialect, header)


def encode_transaction_log(
    log: TransactionLog, dialect: Dialect, implementation: str, level: int = DEFAULT_LEVEL
) -> bytes:
    """Encode a transaction log; `implementation` is named in the header, where the layout has one.

    Raises InvalidInputError for what the layout has no place for: moves, and updated groups, which
    these releases counted among nodes with updated attributes.
    """
    layout = get_layout(dialect)
    with refused(f"alpha transaction log ({dialect.value})"):
        if not layout.has_transaction_logs:
            raise InvalidInputError("there are no transaction logs in this layout")
        payload = pack(_write_log(log, AlphaForm(layout)))
        return seal_envelope(payload, FileType.TRANSACTION_LOG, layout, implementation, level)


def _detect_dialect(version: int | None, fields: list[object]) -> Dialect:
    if version is None:
        return Dialect.ALPHA_H
    if version == 0:
        return Dialect.ALPHA_B
    *sets, chunks = fields
    ids = [id for nodes in sets for id in as_list("nodes", nodes)[:1]]
    ids += list(as_map("updated_chunks", chunks))[:1]
    return Dialect.ALPHA_F if any(isinstance(id, tuple) for id in ids) else Dialect.ALPHA_E


def _read_coordinates(value: object) -> Coordinates:
    rows = {as_coordinates("updated_chunks", row) for row in as_list("updated_chunks", value)}
    ranks = {len(row) for row in rows}
    if len(ranks) > 1:
        raise FormatError(f"updated_chunks: coordinates of {sorted(ranks)} axes for one node")
    axes = ranks.pop() if ranks else 0
    return np.array(sorted(rows), np.uint32).reshape(len(rows), axes)


def _write_log(log: TransactionLog, form: AlphaForm) -> object:
    for name in _WITHOUT_PLACE:
        if getattr(log, name):
            raise InvalidInputError(f"there is no place for {name}")
    version = form.layout.format_version
    return (
        *(() if version is None else (version,)),
        *(tuple(map(form.write_node_id, sorted(getattr(log, name)))) for name in _NODE_SETS),
        _write_chunks(log.updated_chunks, form),
    )


def _write_chunks(chunks: Mapping[NodeId, Coordinates], form: AlphaForm) -> dict[object, object]:
    return {
        form.write_node_id(node): tuple(map(tuple, chunks[node].tolist()))
        for node in sorted(chunks)
    }
