"""How manifests are kept: fetched ahead, split, and their locations compressed."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from frazil.config.preload_conditions import ManifestPreloadCondition
from frazil.config.split_conditions import (
    AnyDimCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    SplitSizes,
)
from frazil.rendering import Rendered, effective

UNSPLIT = 2**32 - 1
"""The largest size of a part, which leaves any array in one."""
DEFAULT_SPLIT_SIZES: SplitSizes = (
    (ManifestSplitCondition.path_matches(".*"), ((ManifestSplitDimCondition.Any(), UNSPLIT),)),
)


@dataclass(slots=True, repr=False)
class ManifestPreloadConfig(Rendered):
    """Which manifests are fetched when a session opens."""

    max_total_refs: int | None = field(default=None, metadata=effective(10_000))
    preload_if: ManifestPreloadCondition | None = None
    """None for the coordinates that have up to a thousand references."""
    max_arrays_to_scan: int | None = field(default=None, metadata=effective(50))


ManifestSplitValues = dict[AnyDimCondition, int]
"""How many chunks a manifest holds along each dimension that a condition is true for."""
SplitSizesDict = dict[ManifestSplitCondition, ManifestSplitValues]


@dataclass(slots=True, repr=False)
class ManifestSplittingConfig(Rendered):
    """How the references of an array are split over manifests; None for one manifest an array."""

    split_sizes: SplitSizes | None = None

    @staticmethod
    def from_dict(
        split_sizes: Mapping[ManifestSplitCondition, Mapping[AnyDimCondition, int]],
    ) -> "ManifestSplittingConfig":
        """The rules in the order of the mappings."""
        rules = ((condition, tuple(sizes.items())) for condition, sizes in split_sizes.items())
        return ManifestSplittingConfig(tuple(rules))

    def to_dict(self) -> dict[ManifestSplitCondition, dict[AnyDimCondition, int]]:
        """The reverse of `from_dict`."""
        return {condition: dict(sizes) for condition, sizes in self.split_sizes or ()}


@dataclass(slots=True, repr=False)
class ManifestVirtualChunkLocationCompressionConfig(Rendered):
    """When and how the locations of virtual chunks are compressed."""

    min_num_chunks: int | None = field(default=None, metadata=effective(1000))
    _: KW_ONLY
    dictionary_max_training_samples: int | None = field(default=None, metadata=effective(100))
    dictionary_max_size_bytes: int | None = field(default=None, metadata=effective(2048))
    compression_level: int | None = field(default=None, metadata=effective(3))


@dataclass(slots=True, repr=False)
class ManifestConfig(Rendered):
    """Everything about manifests."""

    preload: ManifestPreloadConfig | None = field(
        default=None, metadata=effective(ManifestPreloadConfig())
    )
    splitting: ManifestSplittingConfig | None = field(
        default=None, metadata=effective(ManifestSplittingConfig(DEFAULT_SPLIT_SIZES))
    )
    virtual_chunk_location_compression: ManifestVirtualChunkLocationCompressionConfig | None = (
        field(
            default=None,
            metadata=effective(ManifestVirtualChunkLocationCompressionConfig()),
        )
    )
    max_concurrent_manifest_fetches_during_commit: int | None = field(
        default=None, metadata=effective(1)
    )
