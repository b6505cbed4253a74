"""What a configuration means, every choice made: what the rest of the library works by."""

from dataclasses import dataclass, fields, replace
from typing import Any

from frazil.config.manifests import DEFAULT_SPLIT_SIZES, ManifestConfig
from frazil.config.parts import CachingConfig, CompressionConfig, RepoUpdateRetryConfig
from frazil.config.preload_conditions import DEFAULT_PRELOAD_IF, ManifestPreloadCondition
from frazil.config.repository import RepositoryConfig
from frazil.config.split_conditions import SplitSizes
from frazil.format.v2.locations import LocationCompression
from frazil.rendering import effective_value
from frazil.storage.settings import StorageSettings
from frazil.virtual.containers import VirtualChunkContainer, is_valid_container


@dataclass(frozen=True, slots=True)
class EffectiveCaching:
    """How much of what was read is kept; 0 for nothing."""

    num_snapshot_nodes: int
    num_chunk_refs: int
    num_transaction_changes: int
    num_bytes_attributes: int
    num_bytes_chunks: int


@dataclass(frozen=True, slots=True)
class EffectivePreload:
    """Which manifests are fetched when a session opens."""

    max_total_refs: int
    preload_if: ManifestPreloadCondition
    max_arrays_to_scan: int


@dataclass(frozen=True, slots=True)
class EffectiveRetries:
    """How often a change that lost a race is tried, the first time included."""

    max_tries: int
    initial_backoff_ms: int
    max_backoff_ms: int


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """What holds, all defaults applied."""

    inline_chunk_threshold_bytes: int
    """Chunks up to this size are kept in the manifest."""
    get_partial_values_concurrency: int
    max_concurrent_requests: int
    max_concurrent_decodes: int
    compression_level: int
    caching: EffectiveCaching
    storage: StorageSettings
    """Still as the user wrote them: what they leave open is for the storage to say."""
    preload: EffectivePreload
    split_sizes: SplitSizes
    """Rules in the order in which they are asked."""
    location_compression: LocationCompression
    max_concurrent_manifest_fetches_during_commit: int
    repo_update_retries: EffectiveRetries
    num_updates_per_repo_info_file: int
    containers: tuple[VirtualChunkContainer, ...]
    """Those that can be used; the longest prefix first."""


def resolve_config(config: RepositoryConfig) -> EffectiveConfig:
    """What a configuration means; containers that can't be used are left out, as officially."""
    manifest = config.manifest or ManifestConfig()
    splitting = manifest.splitting
    compression = config.compression or CompressionConfig()
    return EffectiveConfig(
        inline_chunk_threshold_bytes=effective_value(config, "inline_chunk_threshold_bytes"),
        get_partial_values_concurrency=effective_value(config, "get_partial_values_concurrency"),
        max_concurrent_requests=effective_value(config, "max_concurrent_requests"),
        max_concurrent_decodes=effective_value(config, "max_concurrent_decodes"),
        compression_level=effective_value(compression, "level"),
        caching=EffectiveCaching(**_all_effective(config.caching or CachingConfig())),
        storage=config.storage or StorageSettings(),
        preload=_resolve_preload(manifest),
        split_sizes=(splitting and splitting.split_sizes) or DEFAULT_SPLIT_SIZES,
        location_compression=LocationCompression(
            **_all_effective(effective_value(manifest, "virtual_chunk_location_compression"))
        ),
        max_concurrent_manifest_fetches_during_commit=effective_value(
            manifest, "max_concurrent_manifest_fetches_during_commit"
        ),
        repo_update_retries=_resolve_retries(config),
        num_updates_per_repo_info_file=effective_value(config, "num_updates_per_repo_info_file"),
        containers=usable_containers(config),
    )


def usable_containers(config: RepositoryConfig) -> tuple[VirtualChunkContainer, ...]:
    """The containers that can be used, the longest prefix first.

    Prefixes of old repositories may lack their last `/`, which is added.
    """
    found = (config.virtual_chunk_containers or {}).values()
    closed = [replace(each, url_prefix=close_prefix(each.url_prefix)) for each in found]
    usable = filter(is_valid_container, closed)
    return tuple(sorted(usable, key=lambda each: len(each.url_prefix), reverse=True))


def close_prefix(url_prefix: str) -> str:
    """The prefix with a `/` at its end."""
    return url_prefix if url_prefix.endswith("/") else f"{url_prefix}/"


def _resolve_preload(manifest: ManifestConfig) -> EffectivePreload:
    preload = effective_value(manifest, "preload")
    return EffectivePreload(
        effective_value(preload, "max_total_refs"),
        preload.preload_if or DEFAULT_PRELOAD_IF,
        effective_value(preload, "max_arrays_to_scan"),
    )


def _resolve_retries(config: RepositoryConfig) -> EffectiveRetries:
    retries = config.repo_update_retries or RepoUpdateRetryConfig()
    found = EffectiveRetries(**_all_effective(effective_value(retries, "default")))
    return replace(found, max_tries=max(1, found.max_tries))


def _all_effective(settings: Any) -> dict[str, Any]:
    return {each.name: effective_value(settings, each.name) for each in fields(settings)}
