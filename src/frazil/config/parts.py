"""Parts of a configuration that are about neither manifests nor the storage."""

from dataclasses import dataclass, field
from enum import Enum, EnumType
from typing import Any

from frazil.rendering import Rendered, effective
from frazil.storage.settings import StorageRetriesSettings


class _CallableWithoutValue(EnumType):
    """Makes `CompressionAlgorithm()` the default one, as in the official library."""

    def __call__(cls, value: Any = 0, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(value, *args, **kwargs)


class CompressionAlgorithm(Enum, metaclass=_CallableWithoutValue):
    """How metadata files are compressed."""

    Zstd = 0

    @staticmethod
    def default() -> "CompressionAlgorithm":
        """What holds unless somebody says otherwise."""
        return CompressionAlgorithm.Zstd


@dataclass(slots=True, repr=False)
class CompressionConfig(Rendered):
    """How metadata files are compressed, and how hard."""

    algorithm: CompressionAlgorithm | None = field(
        default=None, metadata=effective(CompressionAlgorithm.Zstd)
    )
    level: int | None = field(default=None, metadata=effective(3))

    @staticmethod
    def default() -> "CompressionConfig":
        """One that sets nothing."""
        return CompressionConfig()


@dataclass(slots=True, repr=False)
class CachingConfig(Rendered):
    """How much of what was read is kept, counted in items or in bytes as the names say."""

    num_snapshot_nodes: int | None = field(default=None, metadata=effective(500_000))
    num_chunk_refs: int | None = field(default=None, metadata=effective(15_000_000))
    num_transaction_changes: int | None = field(default=None, metadata=effective(0))
    num_bytes_attributes: int | None = field(default=None, metadata=effective(0))
    num_bytes_chunks: int | None = field(default=None, metadata=effective(0))

    @staticmethod
    def default() -> "CachingConfig":
        """One that sets nothing."""
        return CachingConfig()


@dataclass(slots=True, repr=False)
class RepoUpdateRetryConfig(Rendered):
    """How often a change to the repo info that lost a race is tried again."""

    default: StorageRetriesSettings | None = field(
        default=None, metadata=effective(StorageRetriesSettings(100, 50, 30_000))
    )
