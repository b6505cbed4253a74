"""Few rows are written without arrays, to the same bytes as many rows in columns."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.manifest import (
    ChunkRef,
    ChunkRows,
    ChunkTable,
    InlineRef,
    LocationCompression,
    Manifest,
)
from frazil.format.ragged import Part
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import Node, Snapshot, TransactionLog, nodes_by_path
from frazil.format.v2.manifest_decoder import decode_manifest_payload
from frazil.format.v2.manifest_encoder import encode_manifest_payload
from frazil.format.v2.repo_info_codec import encode_repo_info_payload
from frazil.format.v2.snapshot_codec import (
    decode_snapshot_payload,
    decode_transaction_log_payload,
    encode_snapshot_payload,
    encode_transaction_log_payload,
)
from frazil.repository.changes import ChunkEdits
from tests.strategies import v2
from tests.strategies.values import manifest_ids, node_ids, snapshot_ids

WRITER = "frazil.format.v2.flatbuffers_writer.FEW"
LINKS = "frazil.format.v2.flatbuffers_writer._FEW_LINKS"
LOGS = "frazil.format.v2.snapshot_codec.FEW"
FORMS = "frazil.format.v2.snapshot_codec._forms"


def payload(encode: Callable[[], Sequence[Part]]) -> bytes:
    return b"".join(map(bytes, encode()))


def in_columns(encode: Callable[[], Sequence[Part]]) -> bytes:
    with patch(WRITER, 0), patch(LINKS, 0), patch(LOGS, 0):
        return payload(encode)


@pytest.mark.parametrize("version", v2.SPEC_VERSIONS)
@given(data=st.data())
def test_a_snapshot_has_the_same_bytes(version: int, data: st.DataObject) -> None:
    snapshot = data.draw(v2.snapshots(version))

    def encode() -> Sequence[Part]:
        return encode_snapshot_payload(snapshot, version)

    assert payload(encode) == in_columns(encode)


@pytest.mark.parametrize("version", v2.SPEC_VERSIONS)
@given(data=st.data())
def test_a_transaction_log_has_the_same_bytes(version: int, data: st.DataObject) -> None:
    log = data.draw(v2.transaction_logs(version))

    def encode() -> Sequence[Part]:
        return encode_transaction_log_payload(log, version)

    assert payload(encode) == in_columns(encode)


@pytest.mark.parametrize("version", v2.SPEC_VERSIONS)
def test_equal_metadata_of_many_groups_is_written_once_and_read_for_each(version: int) -> None:
    metadata = b'{"zarr_format": 3, "node_type": "group", "attributes": {"units": "K"}}'
    nodes = [Node(NodeId(n.to_bytes(8)), f"/{n}", metadata) for n in range(2_000)]
    other = Node(NodeId(b"the last"), "/other", metadata * 2)
    snapshot = Snapshot(SnapshotId(bytes(12)), None, 0, "", nodes=nodes_by_path([*nodes, other]))

    encoded = payload(lambda: encode_snapshot_payload(snapshot, version))

    assert encoded.count(metadata) == 3
    assert {**decode_snapshot_payload(encoded, version).nodes} == snapshot.nodes


@given(v2.transaction_logs(2))
def test_few_chunks_of_a_transaction_log_are_decoded_as_many_are(log: TransactionLog) -> None:
    encoded = payload(lambda: encode_transaction_log_payload(log, 2))

    with patch("frazil.format.v2.snapshot_codec._FEW_CHUNKS", 0):
        many = decode_transaction_log_payload(encoded)
    assert decode_transaction_log_payload(encoded) == many == log


def decode_or_refuse(payload: bytes) -> TransactionLog | None:
    with suppress(FormatError):
        return decode_transaction_log_payload(payload)
    return None


@given(
    coordinates=st.integers(0, 3).flatmap(lambda n: st.tuples(*[st.integers(0, 2**32 - 1)] * n)),
    changed=st.dictionaries(st.integers(0, 250), st.integers(0, 255), max_size=2),
    data=st.data(),
)
def test_logs_of_a_known_form_are_decoded_as_others(
    coordinates: tuple[int, ...], changed: dict[int, int], data: st.DataObject
) -> None:
    def draw() -> bytes:
        rows = np.array([coordinates], np.uint32).reshape(1, len(coordinates))
        log = TransactionLog(data.draw(snapshot_ids), updated_chunks={data.draw(node_ids): rows})
        return payload(lambda: encode_transaction_log_payload(log, 2))

    known, other = draw(), bytearray(draw())
    for at, byte in changed.items():
        other[at % len(other)] = byte
    with patch(FORMS, {}):
        expected = decode_or_refuse(bytes(other))
    forms: dict[tuple[int, bytes], object] = {}
    with patch(FORMS, forms):
        decode_transaction_log_payload(known)
        assert [*forms] == [(len(known), known[:4])]
        assert decode_or_refuse(bytes(other)) == expected


@given(v2.repo_infos())
def test_a_repo_info_has_the_same_bytes(info: RepoInfo) -> None:
    def encode() -> Sequence[Part]:
        return encode_repo_info_payload(info)

    assert payload(encode) == in_columns(encode)


@st.composite
def rows(draw: st.DrawFn) -> ChunkRows:
    axes = draw(v2.axes_counts)
    return ChunkRows(axes, draw(v2.ref_maps(axes, min_size=1)))


@given(manifest_ids, st.dictionaries(node_ids, rows(), max_size=3), st.sampled_from([1, 5, 1000]))
def test_a_manifest_has_the_same_bytes_and_is_decoded_to_the_same_references(
    id_: ManifestId, arrays: dict[object, ChunkRows], compressed_from: int
) -> None:
    compression = LocationCompression(min_num_chunks=compressed_from)
    few = Manifest(id_, arrays)  # type: ignore[arg-type]
    many = Manifest(id_, few.tables())

    encoded = payload(lambda: encode_manifest_payload(few, compression))

    assert encoded == in_columns(lambda: encode_manifest_payload(many, compression))
    decoded = decode_manifest_payload(encoded)
    for node_id, each in arrays.items():
        assert decoded.rows(node_id, each.axes) == each.refs  # type: ignore[arg-type]
        found = decoded.table(node_id, each.axes)  # type: ignore[arg-type]
        assert found.refs() == each.refs
        assert each.extents() == found.extents()


@given(st.data())
def test_references_one_by_one_are_those_of_the_table(data: st.DataObject) -> None:
    axes = data.draw(v2.axes_counts)
    refs: dict[tuple[int, ...], ChunkRef] = data.draw(v2.ref_maps(axes))

    few, table = ChunkRows(axes, refs), ChunkTable.of(axes, refs)

    assert few.table() == table
    assert few.rows(axes) == table.rows(axes) == refs
    assert few.rows(axes + 1) is None
    assert list(few.refs) == [*map(tuple, table.coordinates.tolist())]


places = st.tuples(st.integers(0, 4), st.integers(0, 4))


@given(
    merged=st.dictionaries(places, st.booleans(), max_size=6),
    recent=st.dictionaries(places, st.booleans(), max_size=6),
    wanted=st.sets(places, max_size=6),
)
def test_few_edits_touch_the_chunks_that_they_touch_in_columns(
    merged: dict[tuple[int, int], bool],
    recent: dict[tuple[int, int], bool],
    wanted: set[tuple[int, int]],
) -> None:
    edits = ChunkEdits(2)
    for edited in (merged, recent):
        edits.columns()  # which merges those of before
        for place, is_written in edited.items():
            edits.set(place, InlineRef(b"1") if is_written else None)
    coordinates = np.array(sorted(wanted), np.uint32).reshape(len(wanted), 2)

    found = edits.touches(coordinates)

    assert found == bool(wanted & (merged.keys() | recent.keys()))
    with patch("frazil.repository.changes._FEW", -1):
        assert found == edits.touches(coordinates)
    assert not edits.touches(np.zeros((1, 3), np.uint32))
