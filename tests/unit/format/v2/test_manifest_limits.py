import numpy as np
import pytest

from frazil.errors import InvalidInputError
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import ChunkKind, ChunkTable, Manifest, constant_column, no_chunk_ids
from frazil.format.ragged import Strings
from frazil.format.v2 import flatbuffers_writer as writer_module
from frazil.format.v2.manifest_encoder import encode_manifest_payload


def manifest_of(table: ChunkTable) -> Manifest:
    return Manifest(ManifestId(bytes(12)), {NodeId(bytes(8)): table})


def references_to_one_location(count: int, length: int) -> ChunkTable:
    """A table that takes little memory and would take a reader of shared texts very long."""
    return ChunkTable(
        coordinates=np.arange(count, dtype=np.uint32)[:, None],
        kind=constant_column(ChunkKind.VIRTUAL, count, np.uint8),
        offset=constant_column(0, count, np.uint64),
        length=constant_column(1, count, np.uint64),
        chunk_id=no_chunk_ids(count),
        location=constant_column(0, count, np.int32),
        etag=constant_column(-1, count, np.int32),
        last_modified=constant_column(0, count, np.uint32),
        extra=constant_column(-1, count, np.int32),
        locations=Strings.of(["x" * length]),
    )


def test_a_manifest_whose_shared_locations_no_reader_would_visit_is_refused() -> None:
    table = references_to_one_location(count=20_000, length=200_000)

    with pytest.raises(InvalidInputError, match=r"20000 references are more .* split it"):
        encode_manifest_payload(manifest_of(table), None)


def test_the_same_references_to_a_short_location_are_written() -> None:
    table = references_to_one_location(count=20_000, length=200)

    payload = encode_manifest_payload(manifest_of(table), None)

    assert sum(len(part) for part in payload) < 20_000 * 64


def test_a_manifest_larger_than_a_flatbuffer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "LARGEST_FILE", 100_000)
    table = references_to_one_location(count=5000, length=10)

    with pytest.raises(InvalidInputError, match="split it"):
        encode_manifest_payload(manifest_of(table), None)
