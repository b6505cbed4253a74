"""zarr.json taken apart and put together."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.format.header import Dialect
from frazil.format.zarr_metadata import ArrayMetadata, decode_zarr_json, encode_zarr_json
from tests.strategies import legacy

ARRAY: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "attributes": {"b": 1, "a": None},
    "shape": [4, 0],
    "data_type": "float32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 1]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": "NaN",
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd"}],
    "storage_transformers": [],
    "dimension_names": ["x", None],
}


def compact(document: Any) -> bytes:
    """JSON without blanks."""
    return json.dumps(document, separators=(",", ":")).encode()


def rewrite(**changes: Any) -> Any:
    """What becomes of an array's zarr.json on its way through the pieces."""
    document = {name: value for name, value in (ARRAY | changes).items() if value != "absent"}
    return json.loads(encode_zarr_json(decode_zarr_json(compact(document))))


def test_a_document_in_the_usual_order_comes_back_byte_for_byte() -> None:
    group = b'{"zarr_format":3,"node_type":"group","attributes":{"a":[1,2.5,"\xc3\xa9"]}}'

    assert encode_zarr_json(decode_zarr_json(compact(ARRAY))) == compact(ARRAY)
    assert encode_zarr_json(decode_zarr_json(group)) == group


@given(st.integers(0, 3).flatmap(lambda axes: legacy.array_metadata(Dialect.ALPHA_H, axes)))
def test_pieces_survive_being_put_together(metadata: ArrayMetadata) -> None:
    assert decode_zarr_json(encode_zarr_json(metadata)) == metadata


@pytest.mark.parametrize("missing", [None, "absent"])
def test_missing_attributes_and_dimension_names_become_null(missing: object) -> None:
    document = rewrite(attributes=missing, dimension_names=missing)

    assert document["attributes"] is None
    assert document["dimension_names"] is None


def test_missing_and_empty_storage_transformers_stay_different() -> None:
    assert "storage_transformers" not in rewrite(storage_transformers="absent")
    assert rewrite(storage_transformers=[])["storage_transformers"] == []


def test_missing_and_empty_codec_configurations_stay_different() -> None:
    codecs = [{"name": "a"}, {"name": "b", "configuration": {}}]

    assert rewrite(codecs=codecs)["codecs"] == codecs


@pytest.mark.parametrize(
    "encoding",
    [
        {"name": "default"},
        {"name": "default", "configuration": {"separator": "."}},
        {"name": "default", "configuration": {"separator": "/"}},
    ],
)
def test_known_chunk_key_encodings_come_back(encoding: object) -> None:
    assert rewrite(chunk_key_encoding=encoding)["chunk_key_encoding"] == encoding


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        ("bool", False),
        ("int8", -128),
        ("uint64", 2**64 - 1),
        ("float16", -0.0),
        ("float64", 1e300),
        ("float32", "-Infinity"),
        ("complex64", [1.0, "NaN"]),
        ("complex128", [0.1, 0.2]),
        ("string", "é"),
        ("bytes", [0, 255]),
        ("r8", [7]),
    ],
)
def test_fill_values_come_back(data_type: str, value: object) -> None:
    assert repr(rewrite(data_type=data_type, fill_value=value)["fill_value"]) == repr(value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data_type": "int8", "fill_value": 128}, "128 is no integer in -128..127"),
        ({"data_type": "int8", "fill_value": True}, "True is no integer"),
        ({"data_type": "bool", "fill_value": 1}, "1 is no boolean"),
        ({"data_type": "float32", "fill_value": "nan"}, "'nan' is no number"),
        ({"data_type": "complex64", "fill_value": [1.0]}, "2 are needed"),
        ({"data_type": "bytes", "fill_value": "AAA="}, "is no list"),
        ({"data_type": "bytes", "fill_value": [256]}, "no list of bytes"),
        ({"data_type": {"name": "numpy.datetime64"}}, "data_type: .* is no text"),
        ({"data_type": "r08"}, "data_type: 'r08' is not known"),
        ({"shape": [-1, 0]}, "shape: -1"),
        ({"shape": [4]}, "chunk_shape: 2 axes for a shape of 1"),
        ({"dimension_names": ["x"]}, "dimension_names: 1 for 2 axes"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 1], "x": 1}}}, "'x'"),
        ({"chunk_key_encoding": {"name": "v2", "configuration": {}}}, "chunk_key_encoding"),
        ({"codecs": [{"name": "x", "configuration": [1]}]}, "codecs: .* is no map"),
        ({"attributes": []}, "attributes: .* is no map"),
        ({"zarr_format": 2}, "zarr_format: 2 is not 3"),
        ({"node_type": "table"}, "node_type"),
        ({"more": 1, "other": 2}, "no place for 'more', 'other'"),
    ],
)  # fmt: skip
def test_what_could_not_be_put_together_again_is_refused(
    changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidInputError, match=f"zarr.json: .*{reason}"):
        rewrite(**changes)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"zarr_format":3,"node_type":"group","attributes":{"a":NaN}}',
        b'{"zarr_format":3,"node_type":"group","attributes":{"a":1e999}}',
        b'{"zarr_format":3,"node_type":"group","attributes":{"a":18446744073709551616}}',
        b'{"zarr_format":3,"node_type":"group","attributes":{"\\ud800":1}}',
        b'{"zarr_format":3,"node_type":"group","attributes":{"a":' + b"[" * 500 + b"]" * 500 + b"}}",
    ],
)  # fmt: skip
def test_what_is_no_usable_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInputError, match=r"^zarr\.json"):
        decode_zarr_json(data)
