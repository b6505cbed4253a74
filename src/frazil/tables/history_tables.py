"""Metadata tables of snapshots, refs, ancestry and operations."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.errors import FormatError
from frazil.format.ids import SnapshotId
from frazil.format.repo_info import SnapshotInfo
from frazil.format.timestamps import to_microseconds
from frazil.ops import Update
from frazil.protocols.protocol import CommitProtocol
from frazil.tables.columns import TIMESTAMP
from frazil.tables.table_source import RowTable, Source, list_of, make_rows

_TEXT = pa.string()
_SNAPSHOTS = pa.schema(
    {
        "snapshot_id": _TEXT, "parent_id": _TEXT, "written_at": TIMESTAMP, "message": _TEXT,
        "metadata": _TEXT, "branches": list_of(_TEXT), "tags": list_of(_TEXT),
    }
)  # fmt: skip
_REFS = pa.schema(
    {"name": _TEXT, "kind": _TEXT, "snapshot_id": _TEXT, "written_at": TIMESTAMP, "message": _TEXT}
)
_HISTORY = pa.schema(
    {
        "ref": _TEXT, "kind": _TEXT, "position": pa.int64(), "snapshot_id": _TEXT,
        "parent_id": _TEXT, "written_at": TIMESTAMP, "message": _TEXT,
    }
)  # fmt: skip
_OPS_LOG = pa.schema(
    {
        "updated_at": TIMESTAMP, "operation": _TEXT, "branch": _TEXT, "tag": _TEXT,
        "snapshot_id": _TEXT, "previous_snapshot_id": _TEXT, "details": _TEXT, "backup_path": _TEXT,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _NamedTip:
    name: str
    kind: Literal["branch", "tag"]
    tip: SnapshotId


@dataclass(frozen=True, slots=True)
class _Lines:
    """Distinct snapshots, and the ancestry of each ref as indices into them, newest first."""

    snapshots: Sequence[SnapshotInfo]
    lines: Sequence[NDArray[np.int64]]


def open_snapshots(source: Source) -> RowTable:
    """Open the table of all snapshots reachable from a branch or tag, newest first."""
    refs = _list_refs(source)
    known = _read_lines(_protocol(source), refs).snapshots
    infos = sorted(known, key=lambda info: info.flushed_at, reverse=True)
    return make_rows(
        source.options,
        _SNAPSHOTS,
        {
            **_describe(infos),
            "metadata": [json.dumps(dict(info.metadata)) for info in infos],
            "branches": _names_at(infos, refs, "branch"),
            "tags": _names_at(infos, refs, "tag"),
        },
    )


def open_refs(source: Source) -> RowTable:
    """Open the table of all branches and tags."""
    refs, protocol = _list_refs(source), _protocol(source)
    infos = [protocol.lookup_snapshot(ref.tip) for ref in refs]
    columns = {**_describe(infos), "name": [r.name for r in refs], "kind": [r.kind for r in refs]}
    return make_rows(source.options, _REFS, columns)


def open_history(source: Source) -> RowTable:
    """Open the table of the ancestry of each branch and tag; the tip has position 0."""
    refs = _list_refs(source)
    found = _read_lines(_protocol(source), refs)
    counts = [len(line) for line in found.lines]
    numbers = np.concatenate([*found.lines, np.empty(0, np.int64)])
    owner = np.repeat(np.arange(len(refs)), counts)
    positions = np.concatenate([*map(np.arange, counts), np.empty(0, np.int64)])
    described = {
        name: pa.array(values, _HISTORY.field(name).type).take(pa.array(numbers))
        for name, values in _describe(found.snapshots).items()
    }
    columns = {
        **described,
        "ref": pa.array([ref.name for ref in refs], _TEXT).take(pa.array(owner)),
        "kind": pa.array([ref.kind for ref in refs], _TEXT).take(pa.array(owner)),
        "position": positions,
    }
    return make_rows(source.options, _HISTORY, columns)


def open_ops_log(source: Source) -> RowTable:
    """Open the table of operations, newest first; empty for generations without an ops log."""
    try:
        updates = list(source.repository.ops_log())
    except FormatError as error:
        if error.kind != "unsupported-spec-version":
            raise
        updates = []
    details = [_details(update) for update in updates]
    operations = [type(update.kind).__name__ for update in updates]
    columns = {
        "updated_at": [update.updated_at for update in updates],
        "operation": operations,
        "branch": [_name(d, o, "Branch") or d.get("branch") for d, o in _pair(details, operations)],
        "tag": [_name(d, o, "Tag") for d, o in _pair(details, operations)],
        "snapshot_id": [each.get("new_snap_id") for each in details],
        "previous_snapshot_id": [each.get("previous_snap_id") for each in details],
        "details": [json.dumps(each, default=str) for each in details],
        "backup_path": [update.backup_path for update in updates],
    }
    return make_rows(source.options, _OPS_LOG, columns)


def _pair(
    details: Sequence[dict[str, object]], operations: Sequence[str]
) -> Iterable[tuple[dict[str, object], str]]:
    return zip(details, operations, strict=True)


def _name(details: dict[str, object], operation: str, what: str) -> object:
    return details.get("name") if operation.startswith(what) else None


def _details(update: Update) -> dict[str, object]:
    kind = update.kind
    return {each.name: getattr(kind, each.name) for each in fields(kind)}  # type: ignore[arg-type]


def _protocol(source: Source) -> CommitProtocol:
    return source.session.state.context.protocol


def _list_refs(source: Source) -> list[_NamedTip]:
    protocol = _protocol(source)
    branches = [_NamedTip(n, "branch", protocol.lookup_branch(n)) for n in protocol.list_branches()]
    tags = [_NamedTip(n, "tag", protocol.lookup_tag(n)) for n in protocol.list_tags()]
    return sorted([*branches, *tags], key=lambda ref: (ref.kind, ref.name))


def _read_lines(protocol: CommitProtocol, refs: Sequence[_NamedTip]) -> _Lines:
    """Read the ancestry of refs, reusing the parts that refs share."""
    snapshots: list[SnapshotInfo] = []
    lines: list[NDArray[np.int64]] = []
    seen: dict[SnapshotId, tuple[int, int]] = {}
    for line in protocol.ancestries(ref.tip for ref in refs):
        own: list[int] = []
        rest = np.empty(0, np.int64)
        for info in line:
            if info.id in seen:
                other, place = seen[info.id]
                rest = lines[other][place:]
                break
            seen[info.id] = (len(lines), len(own))
            own.append(len(snapshots))
            snapshots.append(info)
        lines.append(np.concatenate([np.array(own, np.int64), rest]))
    return _Lines(snapshots, lines)


def _describe(infos: Sequence[SnapshotInfo]) -> dict[str, list[object]]:
    return {
        "snapshot_id": [str(info.id) for info in infos],
        "parent_id": [None if info.parent_id is None else str(info.parent_id) for info in infos],
        "written_at": [to_microseconds(info.flushed_at) for info in infos],
        "message": [info.message for info in infos],
    }


def _names_at(
    infos: Sequence[SnapshotInfo], refs: Sequence[_NamedTip], kind: str
) -> list[list[str]]:
    names: dict[SnapshotId, list[str]] = defaultdict(list)
    for ref in refs:
        if ref.kind == kind:
            names[ref.tip].append(ref.name)
    return [names[info.id] for info in infos]
