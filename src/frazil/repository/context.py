"""Open and create repositories: build the context for sessions from a storage and a configuration."""

import logging
import warnings
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from frazil.config.settings import (
    Attribution,
    EffectiveConfig,
    RepositoryConfig,
    close_prefix,
    merge_configs,
    resolve_config,
)
from frazil.errors import InvalidInputError
from frazil.format.files import FileEncoding
from frazil.format.header import Dialect
from frazil.lazy import dataclass, lazy_modules
from frazil.ops import SpecVersion
from frazil.protocols.assets import AssetOptions, Assets
from frazil.protocols.detection import create_repository, open_protocol
from frazil.protocols.protocol import CommitProtocol, UpdatePolicy
from frazil.repository.session_state import RepositoryContext
from frazil.storage.interface import Storage, StorageSettings
from frazil.virtual.access import VirtualChunkAccess

if TYPE_CHECKING:
    from frazil.config import saved_config as config_files
    from frazil.credentials import AnyCredential
else:
    # Most repositories have no saved configuration.
    (config_files,) = lazy_modules("frazil.config.saved_config")

_logger = logging.getLogger("frazil.repository")

Authorizations = Mapping[str, "AnyCredential | None"]
"""Credentials by container URL prefix."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Open repository, with the storage, credentials and attribution it was opened with."""

    storage: Storage
    context: RepositoryContext
    authorizations: Authorizations = field(default_factory=dict)
    attribution: Attribution = field(default_factory=Attribution)

    @property
    def protocol(self) -> CommitProtocol:
        """Return the commit protocol, which manages refs and history."""
        return self.context.protocol


def open_repository(
    storage: Storage,
    config: RepositoryConfig | None = None,
    authorizations: Authorizations | None = None,
    attribution: Attribution | None = None,
) -> Opened:
    """Open the repository in a storage, of any generation; raises RepositoryNotFoundError."""
    protocol = open_protocol(storage)
    merged = _layer(storage, saved_config(protocol), config)
    return _make_context(storage, protocol, merged, authorizations or {}, attribution)


def create(
    storage: Storage,
    dialect: Dialect,
    config: RepositoryConfig | None = None,
    authorizations: Authorizations | None = None,
    attribution: Attribution | None = None,
    check_clean_root: bool = True,
) -> Opened:
    """Create a repository, and save its configuration unless it is the default."""
    _logger.debug("Creating Repository in %s", storage.place)
    merged = _layer(storage, None, config)
    says_something = config is not None and config != RepositoryConfig.default()
    protocol = create_repository(
        storage,
        dialect,
        asset_options(resolve_config(merged)),
        update_policy(resolve_config(merged)),
        config_files.encode_config(merged) if says_something else None,
        check_clean_root,
    )
    return _make_context(storage, protocol, merged, authorizations or {}, attribution)


def reopen(
    opened: Opened,
    config: RepositoryConfig | None = None,
    authorizations: Authorizations | None = None,
) -> Opened:
    """Return a repository with its configuration merged with another, or with other credentials."""
    before = opened.context.config
    merged = before if config is None else before.merge(config)
    chosen = opened.authorizations if authorizations is None else authorizations
    return _make_context(opened.storage, opened.protocol, merged, chosen, opened.attribution)


def _layer(
    storage: Storage, saved: RepositoryConfig | None, given: RepositoryConfig | None
) -> RepositoryConfig:
    merged = RepositoryConfig(storage=storage.default_settings())
    if saved is not None:
        # Old repositories may have saved containers that no release accepts any more.
        merged = merge_configs(merged, saved)
    return merged if given is None else merged.merge(given)


def _make_context(
    storage: Storage,
    protocol: CommitProtocol,
    config: RepositoryConfig,
    authorizations: Authorizations,
    attribution: Attribution | None,
) -> Opened:
    settings = resolve_config(config)
    labels = attribution or Attribution()
    used = storage.with_settings(settings.storage).with_user_agent(labels.user_agent)
    if config.max_concurrent_requests is not None:
        used = used.with_request_limit(config.max_concurrent_requests)
    assets = Assets(used, protocol.dialect, asset_options(settings))
    virtual = VirtualChunkAccess(
        {each.url_prefix: each for each in settings.containers},
        {close_prefix(prefix): each for prefix, each in authorizations.items()},
    )
    virtual.validate()
    context = RepositoryContext(
        protocol.reopen(assets, update_policy(settings)), config, settings, virtual
    )
    return Opened(storage, context, dict(authorizations), labels)


def asset_options(settings: EffectiveConfig) -> AssetOptions:
    """Return the options for writing and caching files."""
    caching, storage = settings.caching, settings.storage
    return AssetOptions(
        encoding=FileEncoding(
            compression_level=settings.compression_level,
            location_compression=settings.location_compression,
        ),
        num_snapshot_nodes=caching.num_snapshot_nodes,
        num_chunk_refs=caching.num_chunk_refs,
        num_transaction_changes=caching.num_transaction_changes,
        num_bytes_chunks=caching.num_bytes_chunks,
        max_concurrent_decodes=settings.max_concurrent_decodes,
        metadata_storage_class=storage.metadata_storage_class or storage.storage_class,
        chunks_storage_class=storage.chunks_storage_class or storage.storage_class,
    )


def update_policy(settings: EffectiveConfig) -> UpdatePolicy:
    """Return the retry policy for updates of the repo info."""
    retries = settings.repo_update_retries
    return UpdatePolicy(
        max_tries=retries.max_tries,
        initial_backoff_seconds=retries.initial_backoff_ms / 1000,
        max_backoff_seconds=retries.max_backoff_ms / 1000,
        num_updates_per_repo_info_file=settings.num_updates_per_repo_info_file,
    )


def saved_config(protocol: CommitProtocol) -> RepositoryConfig | None:
    """Return the configuration saved with a repository, or None."""
    # Opening the protocol has just read the repo info.
    tree = protocol.read_config(again=False)
    return None if tree is None else config_files.decode_config(tree)


def with_settings(storage: Storage, settings: StorageSettings | None) -> Storage:
    """Return a storage with other settings, if any are given."""
    return storage if settings is None else storage.with_settings(settings)


_DIALECTS = {SpecVersion.v1: Dialect.V1, SpecVersion.v2: Dialect.V2}


def parse_spec_version(version: SpecVersion | int | None) -> Dialect:
    """Return the dialect of a version that new repositories can have; by default the newest."""
    if version is None:
        return Dialect.V2
    for known, dialect in _DIALECTS.items():
        if version == known:
            return dialect
    if not isinstance(version, int):
        raise InvalidInputError(f"Couldn't parse a valid version from {version!r}: expected 1 or 2")
    raise InvalidInputError(f"Unsupported version {version}: expected 1 or 2")


def generation_of(dialect: Dialect) -> SpecVersion:
    """Return the spec version of a dialect."""
    for version, known in _DIALECTS.items():
        if dialect is known:
            return version
    return SpecVersion.draft if dialect is Dialect.DRAFT else SpecVersion.alpha


_INSTEAD = {
    "s3": "frazil.s3_from_env_credentials()",
    "tigris": "frazil.s3_from_env_credentials()",
    "gs": "frazil.credentials.gcs_anonymous_credentials()",
    "gcs": "frazil.credentials.gcs_anonymous_credentials()",
    "az": "frazil.azure_from_env_credentials()",
    "azure": "frazil.azure_from_env_credentials()",
    "abfs": "frazil.azure_from_env_credentials()",
    "file": "frazil.credentials.LocalFileSystemAccess",
    "http": "frazil.credentials.HttpAccess",
    "https": "frazil.credentials.HttpAccess",
}


def warn_of_none(authorizations: Authorizations | None) -> None:
    """Warn of containers with None for credentials, which may use what the environment has."""
    for prefix, credential in (authorizations or {}).items():
        if credential is None:
            instead = _INSTEAD.get(prefix.partition("://")[0], "a credential")
            warnings.warn(
                f"None as the credentials of {prefix!r} is deprecated, because it may take them from"
                f" the environment; say authorize_virtual_chunk_access={{{prefix!r}: {instead}}}",
                DeprecationWarning,
                stacklevel=4,
            )
