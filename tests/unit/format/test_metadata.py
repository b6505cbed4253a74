import pickle
from datetime import UTC, datetime

import pytest

from frazil.errors import FormatError, InvalidInputError
from frazil.format.metadata import (
    Encoding,
    Metadata,
    Value,
    byte_order,
    decode_rfc3339,
    encode_rfc3339,
    from_datetime,
    parent_path,
    path_name,
    segment_order,
    to_datetime,
    validate_path,
)

TREE = {
    "null": None,
    "flag": True,
    "small": 3,
    "large": 2**64 - 1,
    "negative": -(2**63),
    "half": 1.5,
    "tenth": 0.1,
    "text": "glaçon ❄",
    "list": [1, "a", None, [2.5, []]],
    "map": {"deeper": {"x": 1}, "empty": {}},
}


@pytest.mark.parametrize("encoding", Encoding)
def test_values_survive_both_encodings(encoding: Encoding) -> None:
    data = Value(TREE).encode(encoding)

    assert Value.encoded(encoding, data).get() == TREE


def test_a_value_that_nobody_asks_for_keeps_its_bytes() -> None:
    damaged = Value.encoded(Encoding.FLEXBUFFERS, b"\xff\xff\xff")

    assert damaged.encode(Encoding.FLEXBUFFERS) == b"\xff\xff\xff"
    with pytest.raises(FormatError, match="FlexBuffers"):
        damaged.get()


@pytest.mark.parametrize("encoding", Encoding)
def test_what_is_no_json_value_is_refused(encoding: Encoding) -> None:
    for value in ({1, 2}, object(), 2**64, {"deep": [b"bytes", object()]}):
        with pytest.raises(InvalidInputError) as caught:
            Value(value).encode(encoding)
        assert caught.value.kind == "bad-metadata"


def test_a_key_that_flexbuffers_would_cut_short_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="can't be a key"):
        Value({"a\0b": 1}).encode(Encoding.FLEXBUFFERS)


def test_metadata_is_a_mapping_that_is_written_in_the_order_of_its_names() -> None:
    metadata = Metadata({"b": 1, "é": 2, "a": [3]})

    assert dict(metadata) == {"b": 1, "é": 2, "a": [3]}
    assert [name for name, _ in metadata.encode(Encoding.MESSAGEPACK)] == ["a", "b", "é"]
    assert metadata == Metadata({"a": [3], "b": 1, "é": 2})
    assert pickle.loads(pickle.dumps(metadata)) == metadata


def test_a_value_is_encoded_once() -> None:
    value = Value({"a": [1, 2]})

    data = value.encode(Encoding.FLEXBUFFERS)

    assert value.encode(Encoding.FLEXBUFFERS) is data
    assert Value.encoded(Encoding.MESSAGEPACK, value.encode(Encoding.MESSAGEPACK)) == value


@pytest.mark.parametrize("path", ["/", "/a", "/a/b", "/a-b/c d", "/été/❄"])
def test_valid_paths_pass(path: str) -> None:
    assert validate_path(path) == path


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a//b", "/./a", "/a/.."])
def test_paths_that_are_not_canonical_are_refused(path: str) -> None:
    with pytest.raises(InvalidInputError, match="is no node path") as caught:
        validate_path(path)

    assert caught.value.kind == "invalid-path"


def test_snapshots_and_moves_order_the_same_paths_differently() -> None:
    paths = ["/aa", "/a/b", "/a-b", "/", "/a"]

    assert sorted(paths, key=byte_order) == ["/", "/a", "/a-b", "/a/b", "/aa"]
    assert sorted(paths, key=segment_order) == ["/", "/a", "/a/b", "/a-b", "/aa"]


def test_a_path_has_a_parent_and_a_name() -> None:
    assert (parent_path("/a/b"), path_name("/a/b")) == ("/a", "b")
    assert (parent_path("/a"), path_name("/a")) == ("/", "a")
    assert (parent_path("/"), path_name("/")) == ("/", "")


@pytest.mark.parametrize(
    "text",
    [
        "2024-10-13T12:00:00Z",
        "2024-10-13T12:00:00.120Z",
        "2024-10-13T12:00:00.000120Z",
        "2024-10-13T12:00:00.123456789Z",
        "1969-12-31T23:59:59.999999999Z",
        "0001-01-01T00:00:00Z",
    ],
)
def test_times_keep_their_digits(text: str) -> None:
    assert encode_rfc3339(decode_rfc3339(text)) == text


def test_another_time_zone_is_turned_into_utc() -> None:
    assert decode_rfc3339("2024-01-01T01:00:00+01:00") == decode_rfc3339("2024-01-01T00:00:00Z")


@pytest.mark.parametrize(
    "text",
    ["", "2024-01-01", "2024-13-01T00:00:00Z", "2024-01-01T00:00:00", "٢024-01-01T00:00:00Z"],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="RFC 3339"):
        decode_rfc3339(text)


def test_datetimes_keep_their_microseconds() -> None:
    moment = datetime(2026, 11, 15, 18, 39, 36, 737868, tzinfo=UTC)

    assert to_datetime(from_datetime(moment)) == moment
