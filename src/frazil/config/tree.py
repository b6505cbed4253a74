"""A configuration as the plain tree in which it is saved, in the repo info or in a `config.yaml`.

`frazil.format` turns the tree into bytes and back; here is what its keys mean. Keys are written in the
official order, and all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.config.condition_tree import PRELOAD_CONDITION, SplitSizesShape
from frazil.config.manifests import (
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
)
from frazil.config.parts import (
    CachingConfig,
    CompressionAlgorithm,
    CompressionConfig,
    RepoUpdateRetryConfig,
)
from frazil.config.repository import RepositoryConfig
from frazil.config.shapes import (
    COUNT16,
    COUNT64,
    FLAG,
    I32,
    TEXT,
    U8,
    U16,
    U32,
    U64,
    Record,
    as_map,
    as_text,
    bad_tree,
    bad_value,
)
from frazil.config.store_tree import ContainersShape
from frazil.format.json_values import JsonValue
from frazil.storage.settings import (
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)


def decode_config(tree: JsonValue) -> RepositoryConfig:
    """The configuration that a tree says; raises FormatError where it says none."""
    config: RepositoryConfig = _CONFIG.decode(tree, "config")
    previous = as_map(tree, "config").get("previous_file")
    if previous is not None:
        config._previous_file = as_text(previous, "config.previous_file")
    return config


def encode_config(config: RepositoryConfig) -> dict[str, JsonValue]:
    """The tree that says a configuration; raises InvalidInputError where no reader would take it."""
    tree: dict[str, JsonValue] = _CONFIG.encode(config, "config")
    tree["previous_file"] = config.previous_file
    return {name: tree.get(name) for name in _ORDER}


@dataclass(frozen=True, slots=True)
class _AlgorithmShape:
    """A compression algorithm by its name, which alphas wrote with a capital."""

    def decode(self, tree: JsonValue, where: str) -> CompressionAlgorithm:
        if tree not in ("zstd", "Zstd"):
            raise bad_tree(where, tree)
        return CompressionAlgorithm.Zstd

    def encode(self, value: Any, where: str) -> JsonValue:
        if value is not CompressionAlgorithm.Zstd:
            raise bad_value(where, value)
        return "zstd"


_RETRIES = Record(
    StorageRetriesSettings, {"max_tries": COUNT16, "initial_backoff_ms": U32, "max_backoff_ms": U32}
)
_STORAGE = Record(
    StorageSettings,
    {
        "concurrency": Record(
            StorageConcurrencySettings,
            {
                "max_concurrent_requests_for_object": COUNT16,
                "ideal_concurrent_request_size": COUNT64,
            },
        ),
        "retries": _RETRIES,
        "timeouts": Record(
            StorageTimeoutSettings,
            {
                "connect_timeout_ms": U32,
                "read_timeout_ms": U32,
                "operation_timeout_ms": U32,
                "operation_attempt_timeout_ms": U32,
            },
        ),
        "unsafe_use_conditional_update": FLAG,
        "unsafe_use_conditional_create": FLAG,
        "unsafe_use_metadata": FLAG,
        "storage_class": TEXT,
        "metadata_storage_class": TEXT,
        "chunks_storage_class": TEXT,
        "minimum_size_for_multipart_upload": U64,
    },
)
_MANIFEST = Record(
    ManifestConfig,
    {
        "preload": Record(
            ManifestPreloadConfig,
            {"max_total_refs": U32, "preload_if": PRELOAD_CONDITION, "max_arrays_to_scan": U32},
        ),
        "splitting": Record(ManifestSplittingConfig, {"split_sizes": SplitSizesShape()}),
        "virtual_chunk_location_compression": Record(
            ManifestVirtualChunkLocationCompressionConfig,
            {
                "min_num_chunks": U16,
                "dictionary_max_training_samples": U16,
                "dictionary_max_size_bytes": U32,
                "compression_level": I32,
            },
        ),
        "max_concurrent_manifest_fetches_during_commit": U16,
    },
)
_CACHES: Mapping[str, Any] = dict.fromkeys(
    ("num_snapshot_nodes", "num_chunk_refs", "num_transaction_changes", "num_bytes_attributes",
     "num_bytes_chunks"), U64
)  # fmt: skip
_CONFIG = Record(
    RepositoryConfig,
    {
        "inline_chunk_threshold_bytes": U16,
        "get_partial_values_concurrency": U16,
        "compression": Record(CompressionConfig, {"algorithm": _AlgorithmShape(), "level": U8}),
        "max_concurrent_requests": U16,
        "max_concurrent_decodes": U16,
        "caching": Record(CachingConfig, _CACHES),
        "storage": _STORAGE,
        "virtual_chunk_containers": ContainersShape(),
        "manifest": _MANIFEST,
        "repo_update_retries": Record(RepoUpdateRetryConfig, {"default": _RETRIES}),
        "num_updates_per_repo_info_file": U16,
    },
)
_ORDER = (*list(_CONFIG.fields)[:-2], "previous_file", *list(_CONFIG.fields)[-2:])
