"""A configuration: how it shows, travels and merges, and its containers."""

import copy
import pickle

import pytest

import frazil
from frazil.config import CachingConfig, CompressionConfig, RepositoryConfig
from frazil.config.settings import merge_configs
from frazil.errors import InvalidInputError
from frazil.storage import ObjectStoreConfig, StorageRetriesSettings, StorageSettings
from frazil.virtual import VirtualChunkContainer
from tests.configs import SPLITTING, STORES, full_config

S3 = STORES["s3://other/"]


def test_a_representation_can_be_run_and_gives_the_same() -> None:
    for config in (full_config(), RepositoryConfig()):
        assert eval(repr(config), {"frazil": frazil}) == config


def test_a_configuration_survives_pickling_and_copying() -> None:
    assert pickle.loads(pickle.dumps(full_config())) == full_config()
    assert copy.deepcopy(full_config()) == full_config()


def test_what_is_shown_reports_what_holds_where_nothing_is_set() -> None:
    shown = str(RepositoryConfig(inline_chunk_threshold_bytes=3))

    assert shown.startswith("<frazil.config.RepositoryConfig>\ninline_chunk_threshold_bytes: 3\n")
    assert "\nmax_concurrent_requests: 256 (default)\n" in shown
    assert "\n    algorithm: Zstd (default)\n    level: 3 (default)\n" in shown
    assert "\nstorage: None\n" in shown


def test_a_notebook_shows_the_same() -> None:
    shown = full_config()._repr_html_()

    assert "frazil.config.RepositoryConfig" in shown
    assert "s3://bucket/with space/" in shown


def test_secrets_are_never_shown() -> None:
    store = ObjectStoreConfig.Gcs({"google_service_account_key": "hush"})
    config = RepositoryConfig()
    config.set_virtual_chunk_container(VirtualChunkContainer("gs://bucket/", store))

    assert "hush" not in repr(config) + str(config) + config._repr_html_()


def test_what_is_set_above_wins_field_by_field() -> None:
    below = RepositoryConfig(
        inline_chunk_threshold_bytes=1,
        compression=CompressionConfig(level=3),
        caching=CachingConfig(num_chunk_refs=3),
        storage=StorageSettings(retries=StorageRetriesSettings(3, 4)),
    )
    above = RepositoryConfig(
        compression=CompressionConfig(),
        caching=CachingConfig(num_bytes_chunks=5),
        storage=StorageSettings(retries=StorageRetriesSettings(9)),
    )

    assert below.merge(above) == RepositoryConfig(
        inline_chunk_threshold_bytes=1,
        compression=CompressionConfig(level=3),
        caching=CachingConfig(num_chunk_refs=3, num_bytes_chunks=5),
        storage=StorageSettings(retries=StorageRetriesSettings(9, 4)),
    )


def test_containers_and_rules_are_taken_whole() -> None:
    below, above = full_config(), RepositoryConfig(manifest=full_config().manifest)
    above.set_virtual_chunk_container(VirtualChunkContainer("s3://new/", S3))
    assert above.manifest is not None
    assert above.manifest.preload is not None
    above.manifest.preload.preload_if = None

    merged = below.merge(above)

    assert list(merged.virtual_chunk_containers or {}) == ["s3://new/"]
    assert merged.manifest is not None
    assert merged.manifest.preload is not None
    assert merged.manifest.preload.preload_if is None
    assert merged.manifest.splitting == SPLITTING


def test_an_empty_set_of_containers_removes_those_below() -> None:
    above = RepositoryConfig()
    above.clear_virtual_chunk_containers()

    assert full_config().merge(above).virtual_chunk_containers == {}
    assert full_config().merge(RepositoryConfig()).virtual_chunk_containers


def test_merging_refuses_a_container_of_the_user_that_cannot_be_used() -> None:
    bad = RepositoryConfig(virtual_chunk_containers={"x": VirtualChunkContainer("s3://a", S3)})

    with pytest.raises(InvalidInputError, match="does not end in '/'"):
        RepositoryConfig().merge(bad)
    assert merge_configs(RepositoryConfig(), bad) == bad


def test_a_container_takes_the_place_of_the_one_with_its_name() -> None:
    config = RepositoryConfig()
    for prefix, name in (("s3://a/", "n"), ("s3://b/", None), ("s3://c/", "n")):
        config.set_virtual_chunk_container(VirtualChunkContainer(prefix, S3, name))

    assert list(config.virtual_chunk_containers or {}) == ["s3://b/", "s3://c/"]


def test_a_container_is_found_by_prefix_and_by_name() -> None:
    config = full_config()

    assert config.get_virtual_chunk_container("gs://bucket/") is not None
    assert config.get_virtual_chunk_container("files") is not None
    assert config.get_virtual_chunk_container("nothing") is None


def test_a_container_that_changes_later_does_not_change_the_configuration() -> None:
    config, container = RepositoryConfig(), VirtualChunkContainer("s3://a/", S3)
    config.set_virtual_chunk_container(container)

    container.name = "other"

    assert config == RepositoryConfig(
        virtual_chunk_containers={"s3://a/": VirtualChunkContainer("s3://a/", S3)}
    )
