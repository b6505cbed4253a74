"""Where objects are kept: verbs of one interface, served by memory, a disk, or an object store."""

from frazil.storage import class_methods as class_methods
from frazil.storage.constructors import (
    azure_storage,
    gcs_storage,
    http_storage,
    in_memory_storage,
    local_filesystem_storage,
    redirect_storage,
)
from frazil.storage.from_url import storage_from_url
from frazil.storage.interface import (
    ByteOffset,
    ByteRange,
    ByteSuffix,
    DeleteReport,
    ObjectInfo,
    PutOptions,
    Storage,
    Version,
    Versioned,
)
from frazil.storage.limit import set_max_concurrent_requests
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.object_store import ObjectStorage
from frazil.storage.probe import probe_conditional_writes
from frazil.storage.s3_constructors import (
    hf_storage,
    r2_storage,
    s3_object_store_storage,
    s3_storage,
    tigris_storage,
)
from frazil.storage.settings import (
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)
from frazil.storage.store_config import (
    AnyObjectStoreConfig,
    ChecksumAlgorithm,
    ChunkType,
    ObjectStoreConfig,
    S3Options,
)
from frazil.storage.store_constructors import (
    azure_store,
    gcs_store,
    http_store,
    local_filesystem_store,
    s3_store,
)

__all__ = [
    "AnyObjectStoreConfig",
    "ByteOffset",
    "ByteRange",
    "ByteSuffix",
    "ChecksumAlgorithm",
    "ChunkType",
    "DeleteReport",
    "LocalStorage",
    "MemoryStorage",
    "ObjectInfo",
    "ObjectStorage",
    "ObjectStoreConfig",
    "PutOptions",
    "S3Options",
    "Storage",
    "StorageConcurrencySettings",
    "StorageRetriesSettings",
    "StorageSettings",
    "StorageTimeoutSettings",
    "Version",
    "Versioned",
    "azure_storage",
    "azure_store",
    "gcs_storage",
    "gcs_store",
    "hf_storage",
    "http_storage",
    "http_store",
    "in_memory_storage",
    "local_filesystem_storage",
    "local_filesystem_store",
    "probe_conditional_writes",
    "r2_storage",
    "redirect_storage",
    "s3_object_store_storage",
    "s3_storage",
    "s3_store",
    "set_max_concurrent_requests",
    "storage_from_url",
    "tigris_storage",
]
