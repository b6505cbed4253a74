import pickle

import pytest

from frazil.errors import InvalidInputError
from frazil.format.ids import (
    FIRST_SNAPSHOT_ID,
    LAST_SEQUENCE_NUMBER,
    ChunkId,
    NodeId,
    SnapshotId,
    decode_base32,
    decode_sequence,
    encode_base32,
    encode_sequence,
)


def test_ids_are_spelled_as_the_specification_spells_them() -> None:
    first = SnapshotId(bytes.fromhex("0b1cc8d6787580f0e33a6534"))

    assert str(first) == "1CECHNKREP0F1RSTCMT0"
    assert first == FIRST_SNAPSHOT_ID
    assert str(ChunkId(bytes(range(12)))) == "000G40R40M30E209185G"


@pytest.mark.parametrize(("size", "characters"), [(8, 13), (12, 20), (16, 26)])
def test_the_number_of_characters_follows_from_the_number_of_bytes(
    size: int, characters: int
) -> None:
    text = encode_base32(bytes(range(size)))

    assert len(text) == characters
    assert decode_base32(text) == bytes(range(size))


def test_reading_base32_forgives_case_and_letters_that_look_like_digits() -> None:
    assert decode_base32("1cechnkrep0f1rstcmt0") == FIRST_SNAPSHOT_ID
    assert decode_base32("iLoO") == decode_base32("1100")


def test_bits_behind_the_last_whole_byte_are_dropped() -> None:
    assert str(SnapshotId.parse("AAAAAAAAAAAAAAAAAAAA")) == "AAAAAAAAAAAAAAAAAAA0"


@pytest.mark.parametrize("text", ["", "1CECHNKREP0F1RSTCMT", "1CECHNKREP0F1RSTCMTU"])
def test_what_is_not_an_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        SnapshotId.parse(text)


def test_an_id_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="NodeId needs 8 bytes, got 12"):
        NodeId(bytes(12))


def test_ids_sort_by_their_bytes_and_survive_pickling() -> None:
    low, high = NodeId(b"\x00" * 8), NodeId(b"\xff" * 8)

    assert sorted([high, low]) == [low, high]
    assert pickle.loads(pickle.dumps(high)) == high
    assert isinstance(pickle.loads(pickle.dumps(high)), NodeId)
    assert repr(low) == "NodeId.parse('0000000000000')"


def test_node_numbers_of_the_first_generations_are_ids_too() -> None:
    assert NodeId.from_number(7).to_number() == 7


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "ZZZZZZZZ"),
        (1, "ZZZZZZZY"),
        (100, "ZZZZZZWV"),
        (LAST_SEQUENCE_NUMBER, "00000000"),
    ],
)
def test_branch_files_are_named_so_that_the_newest_sorts_first(number: int, text: str) -> None:
    assert encode_sequence(number) == text
    assert decode_sequence(text) == number


def test_the_long_names_of_unreleased_builds_are_read() -> None:
    assert decode_sequence("ZZZZZZZZZZZZY") == 0


@pytest.mark.parametrize("number", [-1, LAST_SEQUENCE_NUMBER + 1])
def test_a_sequence_number_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(InvalidInputError):
        encode_sequence(number)


def test_a_branch_file_name_of_another_length_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        decode_sequence("ZZZ")
