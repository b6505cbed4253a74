"""The Icechunk storage format in Python, with its data pipeline on Apache Spark.

Everything that `icechunk` offers is here under the same name, so `import frazil as icechunk` runs
programs written for it. A module is loaded when something of it is first used: the import itself is
quick, loads neither zarr nor an engine, and starts nothing.
"""

from typing import TYPE_CHECKING

from frazil.lazy import load_lazily
from frazil.version import __version__ as __version__

if TYPE_CHECKING:
    from frazil.about import print_debug_info as print_debug_info
    from frazil.about import spec_version as spec_version
    from frazil.about import supported_spec_versions as supported_spec_versions
    from frazil.about import user_agent as user_agent
    from frazil.config import Attribution as Attribution
    from frazil.config import CachingConfig as CachingConfig
    from frazil.config import CompressionAlgorithm as CompressionAlgorithm
    from frazil.config import CompressionConfig as CompressionConfig
    from frazil.config import FeatureFlag as FeatureFlag
    from frazil.config import ManifestConfig as ManifestConfig
    from frazil.config import ManifestPreloadCondition as ManifestPreloadCondition
    from frazil.config import ManifestPreloadConfig as ManifestPreloadConfig
    from frazil.config import ManifestSplitCondition as ManifestSplitCondition
    from frazil.config import ManifestSplitDimCondition as ManifestSplitDimCondition
    from frazil.config import ManifestSplittingConfig as ManifestSplittingConfig
    from frazil.config import (
        ManifestVirtualChunkLocationCompressionConfig as ManifestVirtualChunkLocationCompressionConfig,
    )
    from frazil.config import RepositoryConfig as RepositoryConfig
    from frazil.config import RetentionPolicy as RetentionPolicy
    from frazil.config import initialize_logs as initialize_logs
    from frazil.config import set_logs_filter as set_logs_filter
    from frazil.config import shutdown_telemetry as shutdown_telemetry
    from frazil.conflicts import BasicConflictSolver as BasicConflictSolver
    from frazil.conflicts import Conflict as Conflict
    from frazil.conflicts import ConflictDetector as ConflictDetector
    from frazil.conflicts import ConflictSolver as ConflictSolver
    from frazil.conflicts import ConflictType as ConflictType
    from frazil.conflicts import VersionSelection as VersionSelection
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
    from frazil.install import install_as_icechunk as install_as_icechunk
    from frazil.opening import open_repository as open_repository
    from frazil.opening import open_session as open_session
    from frazil.ops import ExpirySummary as ExpirySummary
    from frazil.ops import GCSummary as GCSummary
    from frazil.ops import Update as Update
    from frazil.ops import UpdateType as UpdateType
    from frazil.repository import Repository as Repository
    from frazil.repository import create_legacy as create_legacy
    from frazil.repository import upgrade_icechunk_repository as upgrade_icechunk_repository
    from frazil.session import ForkSession as ForkSession
    from frazil.session import Session as Session
    from frazil.snapshots import AncestryGraph as AncestryGraph
    from frazil.snapshots import Diff as Diff
    from frazil.snapshots import ManifestFileInfo as ManifestFileInfo
    from frazil.snapshots import SnapshotInfo as SnapshotInfo
    from frazil.states import RepoAvailability as RepoAvailability
    from frazil.states import RepoStatus as RepoStatus
    from frazil.states import SessionMode as SessionMode
    from frazil.states import SpecVersion as SpecVersion
    from frazil.storage import AnyObjectStoreConfig as AnyObjectStoreConfig
    from frazil.storage import ChecksumAlgorithm as ChecksumAlgorithm
    from frazil.storage import ChunkType as ChunkType
    from frazil.storage import ObjectStoreConfig as ObjectStoreConfig
    from frazil.storage import S3Options as S3Options
    from frazil.storage import Storage as Storage
    from frazil.storage import StorageConcurrencySettings as StorageConcurrencySettings
    from frazil.storage import StorageRetriesSettings as StorageRetriesSettings
    from frazil.storage import StorageSettings as StorageSettings
    from frazil.storage import StorageTimeoutSettings as StorageTimeoutSettings
    from frazil.storage import azure_storage as azure_storage
    from frazil.storage import gcs_storage as gcs_storage
    from frazil.storage import gcs_store as gcs_store
    from frazil.storage import hf_storage as hf_storage
    from frazil.storage import http_storage as http_storage
    from frazil.storage import http_store as http_store
    from frazil.storage import in_memory_storage as in_memory_storage
    from frazil.storage import local_filesystem_storage as local_filesystem_storage
    from frazil.storage import local_filesystem_store as local_filesystem_store
    from frazil.storage import r2_storage as r2_storage
    from frazil.storage import redirect_storage as redirect_storage
    from frazil.storage import s3_storage as s3_storage
    from frazil.storage import s3_store as s3_store
    from frazil.storage import storage_from_url as storage_from_url
    from frazil.storage import tigris_storage as tigris_storage
    from frazil.store import IcechunkStore as IcechunkStore
    from frazil.types import CommitMethod as CommitMethod
    from frazil.urls import RepositoryUrl as RepositoryUrl
    from frazil.virtual import VirtualChunkContainer as VirtualChunkContainer
    from frazil.virtual import VirtualChunkSpec as VirtualChunkSpec

# Where each name lives. The imports above say the same to type checkers.
_HOMES = {
    "errors": """
        AlreadyExistsError ConflictError ErrorKind FormatError IcechunkError InternalError
        InvalidInputError NodeNotFoundError NotFoundError ReadOnlyError RebaseFailedError
        RefNotFoundError RepositoryNotFoundError SessionStateError SnapshotNotFoundError
        StorageError
    """,
    "storage": """
        AnyObjectStoreConfig ChecksumAlgorithm ChunkType ObjectStoreConfig S3Options Storage
        StorageConcurrencySettings StorageRetriesSettings StorageSettings
        StorageTimeoutSettings azure_storage gcs_storage gcs_store hf_storage http_storage
        http_store in_memory_storage local_filesystem_storage local_filesystem_store
        r2_storage redirect_storage s3_storage s3_store storage_from_url tigris_storage
    """,
    "credentials": """
        AnyAzureCredential AnyAzureStaticCredential AnyCredential AnyGcsCredential
        AnyGcsStaticCredential AnyS3Credential AzureCredentials AzureRefreshableCredential
        AzureStaticCredentials Credentials GcsBearerCredential GcsCredentials
        GcsStaticCredentials S3Credentials S3StaticCredentials azure_anonymous_credentials
        azure_credentials azure_from_env_credentials azure_refreshable_credentials
        azure_static_credentials containers_credentials gcs_credentials
        gcs_from_env_credentials gcs_refreshable_credentials gcs_static_credentials
        s3_anonymous_credentials s3_credentials s3_from_env_credentials
        s3_refreshable_credentials s3_static_credentials
    """,
    "states": """
        RepoAvailability RepoStatus SessionMode SpecVersion
    """,
    "virtual": """
        VirtualChunkContainer VirtualChunkSpec
    """,
    "conflicts": """
        BasicConflictSolver Conflict ConflictDetector ConflictSolver ConflictType
        VersionSelection
    """,
    "ops": """
        ExpirySummary GCSummary Update UpdateType
    """,
    "snapshots": """
        AncestryGraph Diff ManifestFileInfo SnapshotInfo
    """,
    "types": """
        CommitMethod
    """,
    "config": """
        Attribution CachingConfig CompressionAlgorithm CompressionConfig FeatureFlag
        ManifestConfig ManifestPreloadCondition ManifestPreloadConfig ManifestSplitCondition
        ManifestSplitDimCondition ManifestSplittingConfig
        ManifestVirtualChunkLocationCompressionConfig RepositoryConfig RetentionPolicy
        initialize_logs set_logs_filter shutdown_telemetry
    """,
    "about": """
        print_debug_info spec_version supported_spec_versions user_agent
    """,
    "store": """
        IcechunkStore
    """,
    "session": """
        ForkSession Session
    """,
    "repository": """
        Repository create_legacy upgrade_icechunk_repository
    """,
    "urls": """
        RepositoryUrl
    """,
    "opening": """
        open_repository open_session
    """,
    "install": """
        install_as_icechunk
    """,
}
_MODULES = frozenset(
    ("config", "conflicts", "credentials", "dask", "distributed", "errors", "opening", "ops",
     "repository", "session", "snapshots", "spark", "states", "storage", "store", "testing", "types",
     "urls", "virtual", "xarray")
)  # fmt: skip
_ALSO = frozenset(("supported_spec_versions", "upgrade_icechunk_repository"))
"""Public, but not part of `from frazil import *`, as officially."""

__all__ = ["__version__", *sorted({*" ".join(_HOMES.values()).split()} - _ALSO)]


if not TYPE_CHECKING:
    __getattr__, __dir__ = load_lazily("frazil", _HOMES, _MODULES)
