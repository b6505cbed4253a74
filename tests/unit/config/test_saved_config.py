"""Saved configurations: trees of plain values, of every generation."""

from pathlib import Path
from typing import Any

import pytest

from frazil.config import CompressionConfig, ManifestPreloadCondition, RepositoryConfig
from frazil.config.saved_config import decode_config, encode_config
from frazil.config.settings import resolve_config
from frazil.errors import FormatError, InvalidInputError
from frazil.format.metadata import decode_flexbuffers, encode_flexbuffers
from frazil.format.text_files import decode_config_yaml, encode_config_yaml
from frazil.storage import ObjectStoreConfig, S3Options, StorageRetriesSettings, StorageSettings
from frazil.virtual import VirtualChunkContainer
from tests.configs import full_config


def test_a_configuration_goes_to_a_tree_and_back() -> None:
    assert decode_config(encode_config(full_config())) == full_config()
    assert decode_config(encode_config(RepositoryConfig())) == RepositoryConfig()


def test_it_does_so_through_the_bytes_of_both_formats() -> None:
    tree = encode_config(full_config())

    assert decode_config(decode_config_yaml(encode_config_yaml(tree))) == full_config()
    assert decode_config(decode_flexbuffers(encode_flexbuffers(tree))) == full_config()


def test_all_keys_are_written() -> None:
    tree = encode_config(RepositoryConfig(compression=CompressionConfig()))

    assert len(tree) == 12
    assert tree["compression"] == {"algorithm": None, "level": None}
    assert tree["previous_file"] is None


def test_the_name_of_a_previous_file_is_kept() -> None:
    config = decode_config({"previous_file": "older.yaml"})

    assert config.previous_file == "older.yaml"
    assert config != RepositoryConfig()
    for merged in (config.merge(RepositoryConfig()), RepositoryConfig().merge(config)):
        assert encode_config(merged)["previous_file"] == "older.yaml"
    assert "previous_file" not in f"{config} {config!r}"


def test_the_name_of_a_previous_file_can_not_be_set() -> None:
    with pytest.raises(AttributeError):
        RepositoryConfig().previous_file = "older.yaml"  # type: ignore[misc]
    with pytest.raises(FormatError):
        decode_config({"previous_file": ["older.yaml"]})


def test_missing_keys_are_not_set_and_unknown_ones_passed_over() -> None:
    assert decode_config({}) == RepositoryConfig()
    assert decode_config({"nobody": 3, "storage": {"retries": {"max_tries": 3}}}) == (
        RepositoryConfig(storage=StorageSettings(retries=StorageRetriesSettings(3)))
    )


BAD: list[Any] = [
    [],
    {"inline_chunk_threshold_bytes": "a"},
    {"inline_chunk_threshold_bytes": 65536},
    {"inline_chunk_threshold_bytes": -1},
    {"inline_chunk_threshold_bytes": True},
    {"compression": 3},
    {"compression": {"algorithm": "gzip"}},
    {"storage": {"retries": {"max_tries": 0}}},
    {"storage": {"storage_class": 3}},
    {"virtual_chunk_containers": {"a": {"url_prefix": "s3://a/", "store": {"nobody": {}}}}},
    {"virtual_chunk_containers": {"a": {"store": "in_memory"}}},
    {"manifest": {"preload": {"preload_if": "perhaps"}}},
    {"manifest": {"preload": {"preload_if": {"num_refs": {"from": {"Near": 3}}}}}},
    {"manifest": {"splitting": {"split_sizes": [["any_array"]]}}},
    {"manifest": {"splitting": {"split_sizes": [["any_array", [{"condition": "Any"}]]]}}},
]


@pytest.mark.parametrize("tree", BAD, ids=str)
def test_what_cannot_be_is_refused(tree: Any) -> None:
    with pytest.raises(FormatError) as caught:
        decode_config(tree)

    assert caught.value.kind == "config-deserialization"


@pytest.mark.parametrize(
    "config",
    [
        RepositoryConfig(inline_chunk_threshold_bytes=65536),
        RepositoryConfig(compression=CompressionConfig(level=-1)),
        RepositoryConfig(compression=3),  # type: ignore[arg-type]
        RepositoryConfig(storage=StorageSettings(retries=StorageRetriesSettings(0))),
    ],
    ids=range(4),
)
def test_what_would_make_the_configuration_unreadable_is_not_saved(
    config: RepositoryConfig,
) -> None:
    with pytest.raises(InvalidInputError):
        encode_config(config)


def test_bounds_of_either_sort_are_read() -> None:
    tree = {"num_refs": {"from": {"Excluded": 2}, "to": {"Included": 10}}}

    config = decode_config({"manifest": {"preload": {"preload_if": tree}}})

    assert config.manifest is not None
    assert config.manifest.preload is not None
    assert config.manifest.preload.preload_if == ManifestPreloadCondition.num_refs(3, 11)


def test_a_bound_behind_the_largest_number_is_none() -> None:
    tree = {"num_refs": {"from": "Unbounded", "to": {"Included": 2**32 - 1}}}
    config = decode_config({"manifest": {"preload": {"preload_if": tree}}})

    saved = encode_config(config)["manifest"]["preload"]["preload_if"]

    assert saved == {"num_refs": {"from": "Unbounded", "to": "Unbounded"}}


def test_spellings_of_alphas_are_read() -> None:
    text = b"""
unsafe_overwrite_refs: false
compression: {algorithm: Zstd, level: 1}
caching: {snapshots_cache_size: 2}
virtual_chunk_containers:
  s3:
    name: s3
    url_prefix: s3://bucket
    store: !S3Compatible {region: us-east-1, endpoint_url: null, anonymous: false, allow_http: true}
  tigris: {name: tigris, url_prefix: tigris, store: !Tigris {}}
  file: {name: file, url_prefix: file, store: !LocalFileSystem ''}
"""
    config = decode_config(decode_config_yaml(text))

    store = ObjectStoreConfig.S3Compatible(S3Options("us-east-1", allow_http=True))
    assert (config.virtual_chunk_containers or {})["s3"] == VirtualChunkContainer(
        "s3://bucket", store, "s3"
    )
    assert [each.url_prefix for each in resolve_config(config).containers] == ["s3://bucket/"]


def test_configurations_of_all_generations_are_read_and_written_again(generations: Path) -> None:
    files = sorted(generations.glob("*/repo/config.yaml"))
    assert len(files) > 20

    for file in files:
        config = decode_config(decode_config_yaml(file.read_bytes()))
        assert config.inline_chunk_threshold_bytes is not None, file
        assert decode_config(encode_config(config)) == config, file
