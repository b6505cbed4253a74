"""The Icechunk storage format in Python, with its data pipeline on Apache Spark.

Every public name of `icechunk` exists here, so `import frazil as icechunk` runs programs written
for it. Modules are loaded lazily: the import itself is fast, loads neither zarr nor an engine, and
starts nothing.
"""

from typing import TYPE_CHECKING

from frazil.lazy import alias_modules, load_lazily

__version__ = "0.1.0"

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
    from frazil.config.settings import (
        ManifestVirtualChunkLocationCompressionConfig as ManifestVirtualChunkLocationCompressionConfig,
    )
    from frazil.config.settings import RepositoryConfig as RepositoryConfig
    from frazil.config.settings import RetentionPolicy as RetentionPolicy
    from frazil.config.settings import initialize_logs as initialize_logs
    from frazil.config.settings import set_logs_filter as set_logs_filter
    from frazil.config.settings import shutdown_telemetry as shutdown_telemetry
    from frazil.credentials import AnyAzureCredential as AnyAzureCredential
    from frazil.credentials import AnyAzureStaticCredential as AnyAzureStaticCredential
    from frazil.credentials import AnyCredential as AnyCredential
    from frazil.credentials import AnyGcsCredential as AnyGcsCredential
    from frazil.credentials import AnyGcsStaticCredential as AnyGcsStaticCredential
    from frazil.credentials import AnyS3Credential as AnyS3Credential
    from frazil.credentials import AzureCredentials as AzureCredentials
    from frazil.credentials import AzureRefreshableCredential as AzureRefreshableCredential
    from frazil.credentials import AzureStaticCredentials as AzureStaticCredentials
    from frazil.credentials import Credentials as Credentials
    from frazil.credentials import GcsBearerCredential as GcsBearerCredential
    from frazil.credentials import GcsCredentials as GcsCredentials
    from frazil.credentials import GcsStaticCredentials as GcsStaticCredentials
    from frazil.credentials import S3Credentials as S3Credentials
    from frazil.credentials import S3StaticCredentials as S3StaticCredentials
    from frazil.credentials import azure_anonymous_credentials as azure_anonymous_credentials
    from frazil.credentials import azure_credentials as azure_credentials
    from frazil.credentials import azure_from_env_credentials as azure_from_env_credentials
    from frazil.credentials import azure_refreshable_credentials as azure_refreshable_credentials
    from frazil.credentials import azure_static_credentials as azure_static_credentials
    from frazil.credentials import containers_credentials as containers_credentials
    from frazil.credentials import gcs_credentials as gcs_credentials
    from frazil.credentials import gcs_from_env_credentials as gcs_from_env_credentials
    from frazil.credentials import gcs_refreshable_credentials as gcs_refreshable_credentials
    from frazil.credentials import gcs_static_credentials as gcs_static_credentials
    from frazil.credentials import s3_anonymous_credentials as s3_anonymous_credentials
    from frazil.credentials import s3_credentials as s3_credentials
    from frazil.credentials import s3_from_env_credentials as s3_from_env_credentials
    from frazil.credentials import s3_refreshable_credentials as s3_refreshable_credentials
    from frazil.credentials import s3_static_credentials as s3_static_credentials
    from frazil.errors import AlreadyExistsError as AlreadyExistsError
    from frazil.errors import ConflictError as ConflictError
    from frazil.errors import ErrorKind as ErrorKind
    from frazil.errors import FormatError as FormatError
    from frazil.errors import IcechunkError as IcechunkError
    from frazil.errors import InternalError as InternalError
    from frazil.errors import InvalidInputError as InvalidInputError
    from frazil.errors import NodeNotFoundError as NodeNotFoundError
    from frazil.errors import NotFoundError as NotFoundError
    from frazil.errors import ReadOnlyError as ReadOnlyError
    from frazil.errors import RebaseFailedError as RebaseFailedError
    from frazil.errors import RefNotFoundError as RefNotFoundError
    from frazil.errors import RepositoryNotFoundError as RepositoryNotFoundError
    from frazil.errors import SessionStateError as SessionStateError
    from frazil.errors import SnapshotNotFoundError as SnapshotNotFoundError
    from frazil.errors import StorageError as StorageError
    from frazil.lazy import install_as_icechunk as install_as_icechunk
    from frazil.maintenance.doctor import print_debug_info as print_debug_info
    from frazil.maintenance.doctor import user_agent as user_agent
    from frazil.maintenance.migrate import (
        upgrade_icechunk_repository as upgrade_icechunk_repository,
    )
    from frazil.ops import CommitMethod as CommitMethod
    from frazil.ops import ExpirySummary as ExpirySummary
    from frazil.ops import GCSummary as GCSummary
    from frazil.ops import RepoAvailability as RepoAvailability
    from frazil.ops import RepoStatus as RepoStatus
    from frazil.ops import SessionMode as SessionMode
    from frazil.ops import SpecVersion as SpecVersion
    from frazil.ops import Update as Update
    from frazil.ops import UpdateType as UpdateType
    from frazil.ops import spec_version as spec_version
    from frazil.ops import supported_spec_versions as supported_spec_versions
    from frazil.repository.conflicts import BasicConflictSolver as BasicConflictSolver
    from frazil.repository.conflicts import Conflict as Conflict
    from frazil.repository.conflicts import ConflictDetector as ConflictDetector
    from frazil.repository.conflicts import ConflictSolver as ConflictSolver
    from frazil.repository.conflicts import ConflictType as ConflictType
    from frazil.repository.conflicts import VersionSelection as VersionSelection
    from frazil.repository.locate import create_legacy as create_legacy
    from frazil.repository.locate import open_repository as open_repository
    from frazil.repository.locate import open_session as open_session
    from frazil.repository.repository import Repository as Repository
    from frazil.repository.session import ForkSession as ForkSession
    from frazil.repository.session import Session as Session
    from frazil.repository.store import IcechunkStore as IcechunkStore
    from frazil.snapshots import AncestryGraph as AncestryGraph
    from frazil.snapshots import Diff as Diff
    from frazil.snapshots import ManifestFileInfo as ManifestFileInfo
    from frazil.snapshots import SnapshotInfo as SnapshotInfo
    from frazil.spark.driver import analyze as analyze
    from frazil.spark.driver import check as check
    from frazil.spark.driver import collect_garbage as collect_garbage
    from frazil.spark.driver import compact as compact
    from frazil.spark.driver import copy as copy
    from frazil.spark.driver import derive as derive
    from frazil.spark.driver import export_zarr as export_zarr
    from frazil.spark.driver import foreach_region as foreach_region
    from frazil.spark.driver import import_zarr as import_zarr
    from frazil.spark.driver import ingest as ingest
    from frazil.spark.driver import maintain as maintain
    from frazil.spark.driver import materialize as materialize
    from frazil.spark.driver import rechunk as rechunk
    from frazil.spark.driver import resample as resample
    from frazil.spark.driver import rewrite_manifests as rewrite_manifests
    from frazil.spark.driver import stats as stats
    from frazil.spark.driver import transform as transform
    from frazil.spark.driver import write as write
    from frazil.storage.constructors import Storage as Storage
    from frazil.storage.constructors import azure_storage as azure_storage
    from frazil.storage.constructors import gcs_storage as gcs_storage
    from frazil.storage.constructors import hf_storage as hf_storage
    from frazil.storage.constructors import http_storage as http_storage
    from frazil.storage.constructors import in_memory_storage as in_memory_storage
    from frazil.storage.constructors import local_filesystem_storage as local_filesystem_storage
    from frazil.storage.constructors import r2_storage as r2_storage
    from frazil.storage.constructors import redirect_storage as redirect_storage
    from frazil.storage.constructors import s3_storage as s3_storage
    from frazil.storage.constructors import storage_from_url as storage_from_url
    from frazil.storage.constructors import tigris_storage as tigris_storage
    from frazil.storage.interface import StorageConcurrencySettings as StorageConcurrencySettings
    from frazil.storage.interface import StorageRetriesSettings as StorageRetriesSettings
    from frazil.storage.interface import StorageSettings as StorageSettings
    from frazil.storage.interface import StorageTimeoutSettings as StorageTimeoutSettings
    from frazil.storage.store_config import AnyObjectStoreConfig as AnyObjectStoreConfig
    from frazil.storage.store_config import ChecksumAlgorithm as ChecksumAlgorithm
    from frazil.storage.store_config import ChunkType as ChunkType
    from frazil.storage.store_config import ObjectStoreConfig as ObjectStoreConfig
    from frazil.storage.store_config import S3Options as S3Options
    from frazil.storage.store_config import gcs_store as gcs_store
    from frazil.storage.store_config import http_store as http_store
    from frazil.storage.store_config import local_filesystem_store as local_filesystem_store
    from frazil.storage.store_config import s3_store as s3_store
    from frazil.urls import RepositoryUrl as RepositoryUrl
    from frazil.virtual.containers import VirtualChunkContainer as VirtualChunkContainer
    from frazil.virtual.containers import VirtualChunkSpec as VirtualChunkSpec

# Module of each public name. The imports above declare the same names for type checkers.
_HOMES = {
    "config.conditions": (
        "ManifestPreloadCondition ManifestSplitCondition ManifestSplitDimCondition"
    ),
    "config.settings": (
        "Attribution CachingConfig CompressionAlgorithm CompressionConfig FeatureFlag "
        "initialize_logs ManifestConfig ManifestPreloadConfig ManifestSplittingConfig "
        "ManifestVirtualChunkLocationCompressionConfig RepositoryConfig RetentionPolicy "
        "set_logs_filter shutdown_telemetry"
    ),
    "credentials": (
        "AnyAzureCredential AnyAzureStaticCredential AnyCredential AnyGcsCredential "
        "AnyGcsStaticCredential AnyS3Credential azure_anonymous_credentials azure_credentials "
        "azure_from_env_credentials azure_refreshable_credentials azure_static_credentials "
        "AzureCredentials AzureRefreshableCredential AzureStaticCredentials "
        "containers_credentials Credentials gcs_credentials gcs_from_env_credentials "
        "gcs_refreshable_credentials gcs_static_credentials GcsBearerCredential "
        "GcsCredentials GcsStaticCredentials s3_anonymous_credentials s3_credentials "
        "s3_from_env_credentials s3_refreshable_credentials s3_static_credentials "
        "S3Credentials S3StaticCredentials"
    ),
    "errors": (
        "AlreadyExistsError ConflictError ErrorKind FormatError IcechunkError InternalError "
        "InvalidInputError NodeNotFoundError NotFoundError ReadOnlyError RebaseFailedError "
        "RefNotFoundError RepositoryNotFoundError SessionStateError SnapshotNotFoundError "
        "StorageError"
    ),
    "lazy": "install_as_icechunk",
    "maintenance.doctor": "print_debug_info user_agent",
    "maintenance.migrate": "upgrade_icechunk_repository",
    "ops": (
        "CommitMethod ExpirySummary GCSummary RepoAvailability RepoStatus SessionMode spec_version "
        "SpecVersion supported_spec_versions Update UpdateType"
    ),
    "repository.conflicts": (
        "BasicConflictSolver Conflict ConflictDetector ConflictSolver ConflictType VersionSelection"
    ),
    "repository.locate": "create_legacy open_repository open_session",
    "repository.repository": "Repository",
    "repository.session": "ForkSession Session",
    "repository.store": "IcechunkStore",
    "snapshots": "AncestryGraph Diff ManifestFileInfo SnapshotInfo",
    "spark.driver": (
        "analyze check collect_garbage compact copy derive export_zarr foreach_region import_zarr "
        "ingest maintain materialize rechunk resample rewrite_manifests stats transform write"
    ),
    "storage.constructors": (
        "azure_storage gcs_storage hf_storage http_storage in_memory_storage "
        "local_filesystem_storage r2_storage redirect_storage s3_storage Storage storage_from_url "
        "tigris_storage"  # Storage, because the module gives it its constructors
    ),
    "storage.interface": (
        "StorageConcurrencySettings StorageRetriesSettings StorageSettings StorageTimeoutSettings"
    ),
    "storage.store_config": (
        "AnyObjectStoreConfig ChecksumAlgorithm ChunkType gcs_store http_store "
        "local_filesystem_store ObjectStoreConfig s3_store S3Options"
    ),
    "urls": "RepositoryUrl",
    "virtual.containers": "VirtualChunkContainer VirtualChunkSpec",
}
_MODULES = frozenset(
    ("config", "conflicts", "credentials", "dask", "distributed", "errors", "ops",
     "repository", "session", "snapshots", "spark", "stac", "storage", "store", "telemetry",
     "testing", "types", "urls", "virtual", "xarray")
)  # fmt: skip
_ALSO = frozenset(
    ("supported_spec_versions", "upgrade_icechunk_repository", *_HOMES["spark.driver"].split())
)
"""Public, but not part of `from frazil import *`, which has the names of the official library."""

__all__ = ["__version__", *sorted({*" ".join(_HOMES.values()).split()} - _ALSO)]


if not TYPE_CHECKING:
    __getattr__, __dir__ = load_lazily("frazil", _HOMES, _MODULES)
    alias_modules(
        {
            "frazil.conflicts": "frazil.repository.conflicts",
            "frazil.distributed": "frazil.repository.forks",
            "frazil.session": "frazil.repository.session",
            "frazil.store": "frazil.repository.store",
            "frazil.types": "frazil.ops",
        }
    )
