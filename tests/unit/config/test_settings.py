"""What a configuration means."""

from frazil.config import CompressionConfig, ManifestConfig, RepositoryConfig
from frazil.config.conditions import DEFAULT_PRELOAD_IF
from frazil.config.settings import (
    DEFAULT_SPLIT_SIZES,
    EffectiveRetries,
    close_prefix,
    resolve_config,
)
from frazil.format.manifest import LocationCompression
from frazil.virtual import VirtualChunkContainer
from tests.configs import PRELOAD_IF, SPLITTING, STORES, full_config


def test_defaults_apply_where_nothing_is_set() -> None:
    for config in (RepositoryConfig(), RepositoryConfig(manifest=ManifestConfig())):
        effective = resolve_config(config)

        assert effective.inline_chunk_threshold_bytes == 512
        assert effective.get_partial_values_concurrency == 10
        assert effective.max_concurrent_requests == 256
        assert effective.max_concurrent_decodes > 0
        assert effective.compression_level == 3
        assert effective.caching.num_snapshot_nodes == 500_000
        assert effective.caching.num_bytes_chunks == 0
        assert effective.preload.preload_if == DEFAULT_PRELOAD_IF
        assert (effective.preload.max_total_refs, effective.preload.max_arrays_to_scan) == (
            10_000,
            50,
        )
        assert effective.split_sizes == DEFAULT_SPLIT_SIZES
        assert effective.location_compression == LocationCompression()
        assert effective.repo_update_retries == EffectiveRetries(100, 50, 30_000)
        assert effective.num_updates_per_repo_info_file == 1000
        assert effective.containers == ()


def test_what_is_set_holds() -> None:
    effective = resolve_config(full_config())

    assert effective.inline_chunk_threshold_bytes == 65535
    assert effective.compression_level == 9
    assert effective.caching.num_snapshot_nodes == 1
    assert effective.caching.num_chunk_refs == 15_000_000
    assert effective.storage == full_config().storage
    assert effective.preload.preload_if == PRELOAD_IF
    assert effective.split_sizes == SPLITTING.split_sizes
    assert effective.location_compression == LocationCompression(20, compression_level=-1)
    assert effective.repo_update_retries == EffectiveRetries(7, 8, 9)
    assert len(effective.containers) == len(STORES)


def test_zero_is_a_setting() -> None:
    config = RepositoryConfig(
        inline_chunk_threshold_bytes=0, compression=CompressionConfig(level=0)
    )

    effective = resolve_config(config)

    assert (effective.inline_chunk_threshold_bytes, effective.compression_level) == (0, 0)


def test_containers_that_cannot_be_used_are_left_out_and_the_longest_prefix_comes_first() -> None:
    store = STORES["s3://other/"]
    prefixes = ("s3://a", "s3", "gs://a/", "s3://a/longer/", "s3://")
    containers = {prefix: VirtualChunkContainer(prefix, store) for prefix in prefixes}

    effective = resolve_config(RepositoryConfig(virtual_chunk_containers=containers))

    assert [each.url_prefix for each in effective.containers] == ["s3://a/longer/", "s3://a/"]


def test_a_prefix_is_closed_once() -> None:
    assert close_prefix("s3://a") == close_prefix("s3://a/") == "s3://a/"
