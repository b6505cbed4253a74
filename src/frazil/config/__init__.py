"""The configuration of a repository."""

from frazil.config.attribution import Attribution
from frazil.config.feature_flags import FeatureFlag
from frazil.config.logs import initialize_logs, set_logs_filter, shutdown_telemetry
from frazil.config.manifests import (
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
)

# Not in `__all__`, as in the official library.
from frazil.config.manifests import ManifestSplitValues as ManifestSplitValues
from frazil.config.manifests import SplitSizesDict as SplitSizesDict
from frazil.config.parts import (
    CachingConfig,
    CompressionAlgorithm,
    CompressionConfig,
)
from frazil.config.parts import RepoUpdateRetryConfig as RepoUpdateRetryConfig
from frazil.config.preload_conditions import ManifestPreloadCondition
from frazil.config.repository import RepositoryConfig
from frazil.config.retention import RetentionPolicy
from frazil.config.split_conditions import ManifestSplitCondition, ManifestSplitDimCondition
from frazil.storage import ObjectStoreConfig

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
