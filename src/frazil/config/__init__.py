"""Configuration of a repository."""

from frazil.config.conditions import (
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from frazil.config.settings import (
    Attribution,
    CachingConfig,
    CompressionAlgorithm,
    CompressionConfig,
    FeatureFlag,
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
    RepositoryConfig,
    RetentionPolicy,
    initialize_logs,
    set_logs_filter,
    shutdown_telemetry,
)

# Not in `__all__`, as in the official library.
from frazil.config.settings import ManifestSplitValues as ManifestSplitValues
from frazil.config.settings import RepoUpdateRetryConfig as RepoUpdateRetryConfig
from frazil.config.settings import SplitSizesDict as SplitSizesDict
from frazil.storage.store_config import ObjectStoreConfig

__all__ = [
    "Attribution",
    "CachingConfig",
    "CompressionAlgorithm",
    "CompressionConfig",
    "FeatureFlag",
    "ManifestConfig",
    "ManifestPreloadCondition",
    "ManifestPreloadConfig",
    "ManifestSplitCondition",
    "ManifestSplitDimCondition",
    "ManifestSplittingConfig",
    "ManifestVirtualChunkLocationCompressionConfig",
    "ObjectStoreConfig",
    "RepositoryConfig",
    "RetentionPolicy",
    "initialize_logs",
    "set_logs_filter",
    "shutdown_telemetry",
]
