"""Ids, times, JSON values and configurations survive each of their encodings."""

import json
from typing import Any

from flatbuffers import flexbuffers
from hypothesis import given
from hypothesis import strategies as st

from frazil.format.ids import (
    LAST_SEQUENCE_NUMBER,
    ChunkId,
    NodeId,
    decode_base32,
    decode_sequence,
    encode_base32,
    encode_sequence,
)
from frazil.format.metadata import (
    Encoding,
    Metadata,
    Value,
    byte_order,
    decode_flexbuffers,
    decode_json,
    decode_messagepack,
    decode_rfc3339,
    encode_flexbuffers,
    encode_json,
    encode_messagepack,
    encode_rfc3339,
    find_path_problem,
    from_datetime,
    from_microseconds,
    parent_path,
    path_name,
    segment_order,
    to_datetime,
    to_microseconds,
)
from frazil.format.text_files import (
    Ref,
    decode_config_yaml,
    decode_ref,
    encode_config_yaml,
    encode_ref,
)
from tests.strategies.values import (
    chunk_ids,
    json_scalars,
    json_values,
    metadata,
    node_ids,
    paths,
    snapshot_ids,
    texts,
    uint32,
    uint64,
)

# The years 1 to 9999, which Python's datetime and RFC 3339 have.
nanoseconds = st.integers(-62_135_596_800 * 10**9, 253_402_300_799 * 10**9 + 999_999_999)


def exactly(value: Any) -> str:
    """A spelling that tells 1 from True and from 1.0, and 0.0 from -0.0."""
    return json.dumps(value, sort_keys=True)


# Ids and sequences


@given(st.binary(max_size=40))
def test_bytes_survive_base32(data: bytes) -> None:
    assert decode_base32(encode_base32(data)) == data


@given(chunk_ids | st.binary(min_size=16, max_size=16).map(ChunkId), st.sampled_from("lu"))
def test_an_id_is_read_from_its_spelling_in_either_case(id_: ChunkId, case: str) -> None:
    spelling = str(id_).lower() if case == "l" else str(id_)

    assert ChunkId.parse(spelling) == id_


@given(node_ids, node_ids)
def test_spellings_sort_as_ids_do(one: NodeId, other: NodeId) -> None:
    assert (str(one) < str(other)) == (one < other)


@given(uint32)
def test_a_node_number_survives_being_an_id(number: int) -> None:
    assert NodeId.from_number(number).to_number() == number


@given(st.integers(0, LAST_SEQUENCE_NUMBER), st.integers(0, LAST_SEQUENCE_NUMBER))
def test_the_name_of_a_later_sequence_number_sorts_first(one: int, other: int) -> None:
    assert decode_sequence(encode_sequence(one)) == one
    assert (encode_sequence(one) < encode_sequence(other)) == (one > other)


# Paths


@given(paths)
def test_a_generated_path_is_a_path_and_its_parent_too(path: str) -> None:
    assert find_path_problem(path) is None
    assert find_path_problem(parent_path(path)) is None
    assert f"{parent_path(path).rstrip('/')}/{path_name(path)}" == path


@given(paths, texts)
def test_a_node_sorts_behind_its_ancestors_in_both_orders(path: str, name: str) -> None:
    child = f"{path.rstrip('/')}/{name.replace('/', '-') or 'a'}"

    assert byte_order(path) < byte_order(child)
    assert segment_order(path) < segment_order(child)


# Times


@given(nanoseconds)
def test_a_time_survives_rfc3339(time: int) -> None:
    assert decode_rfc3339(encode_rfc3339(time)) == time


@given(nanoseconds)
def test_a_time_survives_microseconds_but_for_what_they_cannot_hold(time: int) -> None:
    assert from_microseconds(to_microseconds(time)) == time - time % 1000
    assert from_datetime(to_datetime(time)) == time - time % 1000


# JSON values


@given(json_values)
def test_a_value_survives_flexbuffers(value: Any) -> None:
    assert exactly(decode_flexbuffers(encode_flexbuffers(value))) == exactly(value)


ascii_keyed_values = st.recursive(
    json_scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abz", max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(ascii_keyed_values)
def test_the_flatbuffers_package_reads_what_is_written(value: Any) -> None:
    assert exactly(flexbuffers.Loads(encode_flexbuffers(value))) == exactly(value)


typed_lists = (
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5)
    | st.lists(st.booleans(), min_size=1, max_size=5)
    | st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5)
)


@given(typed_lists, st.booleans())
def test_typed_vectors_read_as_in_the_flatbuffers_package(items: list[Any], fixed: bool) -> None:
    builder = flexbuffers.Builder()
    if fixed and 2 <= len(items) <= 4 and not isinstance(items[0], bool):
        builder.FixedTypedVectorFromElements(items)
    else:
        builder.TypedVectorFromElements(items)
    data = bytes(builder.Finish())

    assert exactly(decode_flexbuffers(data)) == exactly(items)
    assert exactly(flexbuffers.Loads(data)) == exactly(items)


@given(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, width=32))
def test_indirect_numbers_read_as_in_the_flatbuffers_package(integer: int, real: float) -> None:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.IndirectInt("integer", integer)
        builder.IndirectFloat("real", real)
    data = bytes(builder.Finish())

    assert exactly(decode_flexbuffers(data)) == exactly({"integer": integer, "real": real})
    assert exactly(flexbuffers.Loads(data)) == exactly({"integer": integer, "real": real})


@given(json_values)
def test_a_value_survives_messagepack_and_json(value: Any) -> None:
    assert exactly(decode_messagepack(encode_messagepack(value))) == exactly(value)
    assert exactly(decode_json(encode_json(value), "value")) == exactly(value)


@given(metadata, st.sampled_from(Encoding), st.sampled_from(Encoding))
def test_metadata_survives_a_change_of_encoding(
    before: Metadata, first: Encoding, second: Encoding
) -> None:
    def encode(values: Metadata, encoding: Encoding) -> Metadata:
        items = values.encode(encoding)
        return Metadata({name: Value.encoded(encoding, data) for name, data in items})

    assert encode(encode(before, first), second) == before


# Refs


@given(snapshot_ids, st.none() | nanoseconds, st.dictionaries(texts, json_values, max_size=2))
def test_a_ref_survives_being_written_and_read(
    id_: Any, timestamp: int | None, properties: dict[str, Any]
) -> None:
    ref = Ref(id_, timestamp, {} if timestamp is None else properties)

    assert decode_ref(encode_ref(ref)) == ref


# Configurations


def tree_of(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A map of which every member may be absent or null."""
    optional = {name: st.none() | member for name, member in members.items()}
    return st.fixed_dictionaries({}, optional=optional)


def choice(name: str, content: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return content.map(lambda value: {name: value})


def numbers_of(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return tree_of(**dict.fromkeys(names, uint64))


# Texts that YAML could take for something else.
yaml_texts = texts | st.sampled_from(
    ["true", "no", "null", "~", "1", "1.5", "1e3", "0x1f", "0o7", "12:30:45", "2001-01-01", "1_000",
     ".inf", ".nan", "<<", "=", "!s3", "- a", "a: b", "# a", "&a", "*a", "|", ">", "'", '"', "", " ",
     "a\nb", "\t", "…", "\x85", "\ufeff", "🧊", "%a", "@a", "`a", "{}", "[]", "? a", "---", "..."]
)  # fmt: skip
regexes = choice("path_matches", tree_of(regex=yaml_texts)) | choice(
    "name_matches", tree_of(regex=yaml_texts)
)
bounds = choice("Included", uint64) | choice("Excluded", uint64) | st.just("Unbounded")
ranges = st.fixed_dictionaries({"from": bounds, "to": bounds})


def conditions(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: (
            choice("or", st.lists(inner, max_size=2)) | choice("and", st.lists(inner, max_size=2))
        ),
        max_leaves=4,
    )


options = tree_of(region=yaml_texts, endpoint_url=yaml_texts, anonymous=st.booleans(),
                  network_stream_timeout_seconds=uint32)  # fmt: skip
keys = yaml_texts.filter(lambda text: "\0" not in text)
headers = st.dictionaries(keys, yaml_texts, max_size=2)
stores = (
    st.just("in_memory")
    | choice("local_file_system", yaml_texts)
    | choice("http", tree_of(timeout=yaml_texts, headers=headers))
    | st.sampled_from(["s3", "s3_compatible", "tigris"]).flatmap(lambda n: choice(n, options))
    | st.sampled_from(["gcs", "azure"]).flatmap(lambda n: choice(n, headers))
)
containers = tree_of(name=yaml_texts, url_prefix=yaml_texts, store=stores)
split_axes = choice("Axis", uint32) | choice("DimensionName", yaml_texts) | st.just("Any")
split_sizes = st.lists(
    st.tuples(
        conditions(regexes | st.just("any_array")),
        st.lists(tree_of(condition=split_axes, num_chunks=uint32), max_size=2),
    ).map(list),
    max_size=2,
)
backoff = numbers_of("max_tries", "initial_backoff_ms", "max_backoff_ms")
configs = tree_of(
    inline_chunk_threshold_bytes=uint64,
    previous_file=yaml_texts,
    compression=tree_of(algorithm=st.just("zstd"), level=uint32),
    caching=numbers_of("num_snapshot_nodes", "num_chunk_refs", "num_bytes_chunks"),
    storage=tree_of(
        concurrency=numbers_of("ideal_concurrent_request_size"),
        retries=backoff,
        timeouts=numbers_of("connect_timeout_ms", "read_timeout_ms"),
        unsafe_use_metadata=st.booleans(),
        storage_class=yaml_texts,
    ),
    repo_update_retries=tree_of(default=backoff),
    virtual_chunk_containers=st.dictionaries(keys, containers, max_size=2),
    manifest=tree_of(
        preload=tree_of(
            max_total_refs=uint32,
            preload_if=conditions(
                regexes | choice("num_refs", ranges) | st.sampled_from(["true", "false"])
            ),
        ),
        splitting=tree_of(split_sizes=split_sizes),
    ),
)


@given(configs)
def test_a_configuration_survives_yaml(config: dict[str, Any]) -> None:
    assert exactly(decode_config_yaml(encode_config_yaml(config))) == exactly(config)


@given(configs)
def test_a_configuration_survives_flexbuffers(config: dict[str, Any]) -> None:
    assert exactly(decode_flexbuffers(encode_flexbuffers(config))) == exactly(config)
