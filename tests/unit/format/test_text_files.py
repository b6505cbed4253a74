from pathlib import Path

import pytest

from frazil.errors import FormatError, InvalidInputError
from frazil.format.ids import FIRST_SNAPSHOT_ID, SnapshotId
from frazil.format.text_files import (
    Ref,
    decode_config_yaml,
    decode_ref,
    encode_config_yaml,
    encode_ref,
)
from tests.generations import REPOSITORY_NAMES

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


CONFIG = b"""\
inline_chunk_threshold_bytes: 12
compression:
  algorithm: zstd
  level: 3
virtual_chunk_containers:
  s3://bucket/:
    name: null
    url_prefix: s3://bucket/
    store: !s3
      region: us-east-1
      anonymous: true
  file:///data/:
    name: data
    url_prefix: file:///data/
    store: !local_file_system '/data'
manifest:
  preload:
    preload_if: !and
    - !name_matches
      regex: ^x$
    - !num_refs
      from: !Included 2
      to: Unbounded
  splitting:
    split_sizes:
    - - !or
        - any_array
      - - condition: !Axis 0
          num_chunks: 10
        - condition: !DimensionName time
          num_chunks: 3
        - condition: Any
          num_chunks: 1
"""


def test_choices_become_maps_of_one_key() -> None:
    tree = decode_config_yaml(CONFIG)

    containers = tree["virtual_chunk_containers"]
    assert containers["s3://bucket/"]["store"] == {"s3": {"region": "us-east-1", "anonymous": True}}
    assert containers["file:///data/"]["store"] == {"local_file_system": "/data"}
    preload_if = tree["manifest"]["preload"]["preload_if"]
    assert preload_if == {
        "and": [
            {"name_matches": {"regex": "^x$"}},
            {"num_refs": {"from": {"Included": 2}, "to": "Unbounded"}},
        ]
    }
    ((condition, sizes),) = tree["manifest"]["splitting"]["split_sizes"]
    assert condition == {"or": ["any_array"]}
    assert [size["condition"] for size in sizes] == [
        {"Axis": 0},
        {"DimensionName": "time"},
        "Any",
    ]


def test_what_is_written_reads_the_same() -> None:
    tree = decode_config_yaml(CONFIG)

    data = encode_config_yaml(tree)

    assert decode_config_yaml(data) == tree
    assert b"!s3" in data


@pytest.mark.parametrize("name", [name for name in REPOSITORY_NAMES if name.startswith("v1")])
def test_configurations_of_real_repositories_survive(generations: Path, name: str) -> None:
    path = generations / name / "repo" / "config.yaml"
    if not path.exists():
        assert "split" not in name, "these repositories have a configuration"
        return
    tree = decode_config_yaml(path.read_bytes())

    assert tree
    assert decode_config_yaml(encode_config_yaml(tree)) == tree


def test_an_empty_file_is_an_empty_configuration() -> None:
    assert decode_config_yaml(b"") == {}


@pytest.mark.parametrize(
    "data",
    [b"- 1", b"a: [", b"\xff\xfe\x00", b"a: &x [1]\nb: *x", b"a: !!python/object:os.system x"],
)
def test_a_damaged_or_hostile_file_is_a_format_error(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"config\.yaml"):
        decode_config_yaml(data)


def test_a_configuration_that_is_far_too_large_is_refused_unread() -> None:
    entry = b"  s3://bucket%d/:\n    url_prefix: s3://bucket%d/\n"
    data = b"virtual_chunk_containers:\n" + b"".join(entry % (i, i) for i in range(30_000))

    with pytest.raises(FormatError, match=r"config.yaml: \d+ bytes are too many") as refusal:
        decode_config_yaml(data)

    assert refusal.value.kind == "config-deserialization"


def test_thousands_of_containers_are_no_problem() -> None:
    prefixes = [f"s3://bucket{i}/" for i in range(3000)]
    config = {"virtual_chunk_containers": {each: {"url_prefix": each} for each in prefixes}}

    assert decode_config_yaml(encode_config_yaml(config)) == config


def test_a_configuration_that_could_not_be_read_again_is_not_written() -> None:
    with pytest.raises(InvalidInputError, match="merge virtual chunk containers"):
        encode_config_yaml({"virtual_chunk_containers": {"x" * (1 << 20): {}}})


@pytest.mark.parametrize("data", [b"a: &x [1]\nb: *x\n", b"a: " + b"[" * 101 + b"]" * 101])
def test_what_expands_or_nests_without_end_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"config.yaml: (aliases|it is nested deeper)"):
        decode_config_yaml(data)
