"""Configurations that set a bit of everything, for tests of several lanes."""

from frazil.config import (
    CachingConfig,
    CompressionAlgorithm,
    CompressionConfig,
    ManifestConfig,
    ManifestPreloadCondition,
    ManifestPreloadConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
)
from frazil.storage import (
    AnyObjectStoreConfig,
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)
from frazil.virtual import VirtualChunkContainer

STORES: dict[str, AnyObjectStoreConfig] = {
    "s3://bucket/with space/": ObjectStoreConfig.S3(
        S3Options("eu-west-1", anonymous=True, checksum_algorithm=ChecksumAlgorithm.Crc64Nvme)
    ),
    "s3://other/": ObjectStoreConfig.S3Compatible(
        S3Options(endpoint_url="http://localhost:9000", allow_http=True, force_path_style=True)
    ),
    "tigris://bucket/": ObjectStoreConfig.Tigris(S3Options(network_stream_timeout_seconds=0)),
    "gs://bucket/": ObjectStoreConfig.Gcs({"option": "yes"}),
    "az://container/": ObjectStoreConfig.Azure({"account": "somebody"}),
    "https://host/path/": ObjectStoreConfig.Http({"timeout": "3s"}, None),
    "file:///somewhere/": ObjectStoreConfig.LocalFileSystem("/somewhere"),
}

PRELOAD_IF = ManifestPreloadCondition.or_conditions(
    [
        ManifestPreloadCondition.name_matches("^t$") & ManifestPreloadCondition.num_refs(2, 10),
        ManifestPreloadCondition.path_matches('/é"\\d'),
        ManifestPreloadCondition.num_refs(None, 3),
        ManifestPreloadCondition.false(),
        ManifestPreloadCondition.true(),
    ]
)
SPLITTING = ManifestSplittingConfig.from_dict(
    {
        ManifestSplitCondition.name_matches("grid") | ManifestSplitCondition.path_matches("^/a"): {
            ManifestSplitDimCondition.Axis(1): 2,
            ManifestSplitDimCondition.DimensionName("lat"): 3,
        },
        ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): 50},
    }
)


def full_config() -> RepositoryConfig:
    """One that sets a bit of everything."""
    return RepositoryConfig(
        inline_chunk_threshold_bytes=65535,
        get_partial_values_concurrency=3,
        compression=CompressionConfig(CompressionAlgorithm.Zstd, 9),
        max_concurrent_requests=12,
        caching=CachingConfig(1, num_bytes_chunks=2**40),
        storage=StorageSettings(
            concurrency=StorageConcurrencySettings(3, 4096),
            retries=StorageRetriesSettings(4, 5, 6),
            unsafe_use_conditional_create=True,
            unsafe_use_conditional_update=False,
            unsafe_use_metadata=False,
            storage_class="STANDARD_IA",
            minimum_size_for_multipart_upload=10_000,
            timeouts=StorageTimeoutSettings(1, 2, 3, 4),
        ),
        virtual_chunk_containers={
            prefix: VirtualChunkContainer(prefix, store, "files" if prefix[0] == "f" else None)
            for prefix, store in STORES.items()
        },
        manifest=ManifestConfig(
            ManifestPreloadConfig(100, PRELOAD_IF, 7),
            SPLITTING,
            ManifestVirtualChunkLocationCompressionConfig(20, compression_level=-1),
            3,
        ),
        repo_update_retries=RepoUpdateRetryConfig(StorageRetriesSettings(7, 8, 9)),
        num_updates_per_repo_info_file=99,
        max_concurrent_decodes=2,
    )
