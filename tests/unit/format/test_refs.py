import pytest

from frazil.errors import FormatError
from frazil.format.ids import FIRST_SNAPSHOT_ID, SnapshotId
from frazil.format.refs import Ref, decode_ref, encode_ref

DRAFT_ID = SnapshotId(bytes(range(16)))


def test_a_ref_of_the_alpha_and_v1_generations_is_exactly_one_key() -> None:
    data = encode_ref(Ref(FIRST_SNAPSHOT_ID))

    assert data == b'{"snapshot":"1CECHNKREP0F1RSTCMT0"}'
    assert decode_ref(data) == Ref(FIRST_SNAPSHOT_ID)


def test_a_ref_of_the_draft_has_a_time_and_properties() -> None:
    ref = Ref(DRAFT_ID, timestamp=1726833752200356715, properties={"who": "me"})

    data = encode_ref(ref)

    assert b'"timestamp":"2024-09-20T12:02:32.200356715Z"' in data
    assert decode_ref(data) == ref


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"snapshot":3}',
        b'{"snapshot":"short"}',
        b'{"snapshot":[1,2]}',
        b'{"snapshot":[256,0,0,0,0,0,0,0,0,0,0,0]}',
        b'{"snapshot":"1CECHNKREP0F1RSTCMT0","timestamp":5}',
        b'{"snapshot":"1CECHNKREP0F1RSTCMT0","timestamp":"yesterday"}',
        b'{"snapshot":"1CECHNKREP0F1RSTCMT0","properties":[]}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_damaged_ref_file_is_a_format_error(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_ref(data)
