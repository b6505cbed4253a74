"""Storage interface and its implementations: in memory, on a file system, in an object store."""

from typing import TYPE_CHECKING

from frazil.lazy import load_lazily

if TYPE_CHECKING:
    from frazil.storage.clients import set_max_concurrent_requests as set_max_concurrent_requests
    from frazil.storage.constructors import Storage as Storage
    from frazil.storage.constructors import azure_storage as azure_storage
    from frazil.storage.constructors import gcs_storage as gcs_storage
    from frazil.storage.constructors import hf_storage as hf_storage
    from frazil.storage.constructors import http_storage as http_storage
    from frazil.storage.constructors import in_memory_storage as in_memory_storage
    from frazil.storage.constructors import local_filesystem_storage as local_filesystem_storage
    from frazil.storage.constructors import r2_storage as r2_storage
    from frazil.storage.constructors import redirect_storage as redirect_storage
    from frazil.storage.constructors import s3_object_store_storage as s3_object_store_storage
    from frazil.storage.constructors import s3_storage as s3_storage
    from frazil.storage.constructors import storage_from_url as storage_from_url
    from frazil.storage.constructors import tigris_storage as tigris_storage
    from frazil.storage.interface import ByteOffset as ByteOffset
    from frazil.storage.interface import ByteRange as ByteRange
    from frazil.storage.interface import ByteSuffix as ByteSuffix
    from frazil.storage.interface import DeleteReport as DeleteReport
    from frazil.storage.interface import ObjectInfo as ObjectInfo
    from frazil.storage.interface import PutOptions as PutOptions
    from frazil.storage.interface import StorageConcurrencySettings as StorageConcurrencySettings
    from frazil.storage.interface import StorageRetriesSettings as StorageRetriesSettings
    from frazil.storage.interface import StorageSettings as StorageSettings
    from frazil.storage.interface import StorageTimeoutSettings as StorageTimeoutSettings
    from frazil.storage.interface import Version as Version
    from frazil.storage.interface import Versioned as Versioned
    from frazil.storage.local import LocalStorage as LocalStorage
    from frazil.storage.memory import MemoryStorage as MemoryStorage
    from frazil.storage.object_store import ObjectStorage as ObjectStorage
    from frazil.storage.object_store import probe_conditional_writes as probe_conditional_writes
    from frazil.storage.store_config import AnyObjectStoreConfig as AnyObjectStoreConfig
    from frazil.storage.store_config import ChecksumAlgorithm as ChecksumAlgorithm
    from frazil.storage.store_config import ChunkType as ChunkType
    from frazil.storage.store_config import ObjectStoreConfig as ObjectStoreConfig
    from frazil.storage.store_config import S3Options as S3Options
    from frazil.storage.store_config import azure_store as azure_store
    from frazil.storage.store_config import gcs_store as gcs_store
    from frazil.storage.store_config import http_store as http_store
    from frazil.storage.store_config import local_filesystem_store as local_filesystem_store
    from frazil.storage.store_config import s3_store as s3_store

# Module of each public name. The imports above declare the same names for type checkers.
_HOMES = {
    "clients": "set_max_concurrent_requests",
    "constructors": (
        "azure_storage gcs_storage hf_storage http_storage in_memory_storage "
        "local_filesystem_storage r2_storage redirect_storage s3_object_store_storage "
        "s3_storage Storage storage_from_url tigris_storage"  # Storage gets its constructors there
    ),
    "interface": (
        "ByteOffset ByteRange ByteSuffix DeleteReport ObjectInfo PutOptions "
        "StorageConcurrencySettings StorageRetriesSettings StorageSettings "
        "StorageTimeoutSettings Version Versioned"
    ),
    "local": "LocalStorage",
    "memory": "MemoryStorage",
    "object_store": "ObjectStorage probe_conditional_writes",
    "store_config": (
        "AnyObjectStoreConfig ChecksumAlgorithm ChunkType ObjectStoreConfig S3Options "
        "azure_store gcs_store http_store local_filesystem_store s3_store"
    ),
}

__all__ = sorted(" ".join(_HOMES.values()).split())

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_lazily("frazil.storage", _HOMES)
