"""Configuration of a repository."""

from typing import TYPE_CHECKING

from frazil.lazy import load_lazily

if TYPE_CHECKING:
    from frazil.config.conditions import ManifestPreloadCondition as ManifestPreloadCondition
    from frazil.config.conditions import ManifestSplitCondition as ManifestSplitCondition
    from frazil.config.conditions import ManifestSplitDimCondition as ManifestSplitDimCondition
    from frazil.config.settings import Attribution as Attribution
    from frazil.config.settings import CachingConfig as CachingConfig
    from frazil.config.settings import CompressionAlgorithm as CompressionAlgorithm
    from frazil.config.settings import CompressionConfig as CompressionConfig
    from frazil.config.settings import FeatureFlag as FeatureFlag
    from frazil.config.settings import ManifestConfig as ManifestConfig
    from frazil.config.settings import ManifestPreloadConfig as ManifestPreloadConfig
    from frazil.config.settings import ManifestSplittingConfig as ManifestSplittingConfig
    from frazil.config.settings import ManifestSplitValues as ManifestSplitValues
    from frazil.config.settings import (
        ManifestVirtualChunkLocationCompressionConfig as ManifestVirtualChunkLocationCompressionConfig,
    )
    from frazil.config.settings import RepositoryConfig as RepositoryConfig
    from frazil.config.settings import RepoUpdateRetryConfig as RepoUpdateRetryConfig
    from frazil.config.settings import RetentionPolicy as RetentionPolicy
    from frazil.config.settings import SplitSizesDict as SplitSizesDict
    from frazil.config.settings import initialize_logs as initialize_logs
    from frazil.config.settings import set_logs_filter as set_logs_filter
    from frazil.config.settings import shutdown_telemetry as shutdown_telemetry
    from frazil.storage.store_config import ObjectStoreConfig as ObjectStoreConfig

# Module of each public name. The imports above declare the same names for type checkers.
_HOMES = {
    "config.conditions": (
        "ManifestPreloadCondition ManifestSplitCondition ManifestSplitDimCondition"
    ),
    "config.settings": (
        "Attribution CachingConfig CompressionAlgorithm CompressionConfig FeatureFlag "
        "initialize_logs ManifestConfig ManifestPreloadConfig ManifestSplittingConfig "
        "ManifestSplitValues ManifestVirtualChunkLocationCompressionConfig RepositoryConfig "
        "RepoUpdateRetryConfig RetentionPolicy set_logs_filter shutdown_telemetry SplitSizesDict"
    ),
    "storage.store_config": "ObjectStoreConfig",
}
_ALSO = {"ManifestSplitValues", "RepoUpdateRetryConfig", "SplitSizesDict"}
"""Not in `__all__`, as in the official library."""

__all__ = sorted({*" ".join(_HOMES.values()).split()} - _ALSO)

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_lazily("frazil.config", _HOMES, root="frazil")
