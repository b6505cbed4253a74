"""State of a session, the context that all sessions of a repository share, and how it is opened."""

import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from frazil.async_names import run_both
from frazil.config.settings import (
    Attribution,
    EffectiveConfig,
    RepositoryConfig,
    close_prefix,
    merge_configs,
    resolve_config,
)
from frazil.errors import IcechunkError, InvalidInputError, ReadOnlyError, SessionStateError
from frazil.format.files import FileEncoding
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.metadata import JsonValue, Nanoseconds
from frazil.format.snapshot import Node, Snapshot
from frazil.lazy import dataclass, lazy_modules
from frazil.ops import SessionMode, SpecVersion
from frazil.protocols.assets import AssetOptions, Assets
from frazil.protocols.detection import create_repository, open_protocol
from frazil.protocols.protocol import CommitProtocol, UpdatePolicy, read_clock
from frazil.repository.changes import ChangeSet
from frazil.repository.view import View
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
_SENT = ("context", "mode", "branch", "is_fork", "started_at", "origins")


@dataclass(frozen=True, slots=True)
class RepositoryContext:
    """Context that all sessions of one repository share."""

    protocol: CommitProtocol
    config: RepositoryConfig
    settings: EffectiveConfig
    virtual: VirtualChunkAccess
    default_commit_metadata: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def assets(self) -> Assets:
        """Return the access to the repository's files."""
        return self.protocol.assets

    @property
    def dialect(self) -> Dialect:
        """Return the dialect of the repository."""
        return self.protocol.dialect


class SessionState:
    """State of one session: its base snapshot, its changes and its mode."""

    def __init__(
        self,
        context: RepositoryContext,
        snapshot: Snapshot,
        *,
        mode: SessionMode = SessionMode.readonly,
        branch: str | None = None,
        is_fork: bool = False,
    ) -> None:
        self.context = context
        self.mode = mode
        self.branch = branch
        self.is_fork = is_fork
        self.instance_id = uuid4().hex
        self.lock = threading.RLock()
        self.started_at: Nanoseconds = read_clock()
        self.origins = frozenset((snapshot.id,))
        """Snapshots of the history that have the chunks of the base; a fork's base is in no history."""
        self.view = self._view_of(snapshot, self.new_changes())

    def _view_of(self, snapshot: Snapshot, changes: ChangeSet) -> View:
        return View(self.assets, snapshot, changes, is_fixed=self.is_read_only)

    def new_changes(self) -> ChangeSet:
        """Return an empty change set for the dialect of the repository."""
        return ChangeSet.of(self.context.dialect)

    @property
    def changes(self) -> ChangeSet:
        """Return the pending changes."""
        return self.view.changes

    @property
    def assets(self) -> Assets:
        """Return the access to the repository's files."""
        return self.context.assets

    @property
    def is_read_only(self) -> bool:
        """Return True if the session can't be changed; a fork can."""
        return self.mode is SessionMode.readonly and not self.is_fork

    def set_base(self, snapshot: Snapshot, changes: ChangeSet | None = None) -> None:
        """Replace the base snapshot and the changes over it."""
        if snapshot.id != self.view.snapshot_id:
            self.origins = frozenset((snapshot.id,))
        self.view = self._view_of(snapshot, changes or self.new_changes())

    @property
    def sources(self) -> Set[SnapshotId]:
        """Return the snapshots other than the base whose chunks the changes reference."""
        return self.changes.sources - {self.view.snapshot_id}

    def finish(self, snapshot: Snapshot) -> None:
        """Turn into a read-only session of a new snapshot."""
        self.mode, self.branch, self.is_fork = SessionMode.readonly, None, False
        self.set_base(snapshot)

    def refuse_unless_writable(self) -> None:
        """Raise ReadOnlyError for a read-only session, SessionStateError for a rearrange session."""
        if self.is_read_only:
            raise ReadOnlyError("Read only sessions cannot modify the repository")
        if self.mode is SessionMode.rearrange:
            raise SessionStateError(
                "This session was created to rearrange the hierarchy, other write operations cannot be"
                " executed: commit it, and open a writable session",
                kind="rearrange-session-only",
            )

    def __getstate__(self) -> dict[str, object]:
        if self.changes:  # which may be committed through another storage, that syncs only its own
            self.assets.storage.flush()
        return {
            "context": self.context,
            "snapshot": self.view.snapshot.id,
            "changes": self.changes.copy(),
            "mode": self.mode,
            "branch": self.branch,
            "is_fork": self.is_fork,
            "started_at": self.started_at,
            "origins": self.origins,
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        # The snapshot is not pickled but read again by the receiving process.
        for name in _SENT:
            setattr(self, name, state[name])
        self.instance_id = uuid4().hex  # a copy has changes of its own, so it equals nothing else
        self.lock = threading.RLock()
        snapshot = self.assets.read_snapshot(state["snapshot"])  # type: ignore[arg-type]
        self.view = self._view_of(snapshot, state["changes"])  # type: ignore[arg-type]


def open_state(
    context: RepositoryContext,
    resolve: Callable[[], SnapshotId],
    guess: SnapshotId | None,
    mode: SessionMode = SessionMode.readonly,
    branch: str | None = None,
) -> SessionState:
    """Open a session on the snapshot that `resolve` returns, and start to preload its manifests.

    The snapshot that is probably needed is read at the same time, where requests take long.
    """
    assets = context.assets
    storage = assets.storage
    if guess is None or storage.is_local or storage.concurrency < 2 or assets.has_snapshot(guess):
        snapshot = assets.read_snapshot(resolve())
    else:
        # If the guess is wrong, or its file is gone, reading it did no harm.
        read: Callable[[], Snapshot | None] = partial(_find_snapshot, assets, guess)
        id, found = run_both(resolve, read)
        snapshot = found if found is not None and guess == id else assets.read_snapshot(id)
    state = SessionState(context, snapshot, mode=mode, branch=branch)
    preload(state)
    return state


def _find_snapshot(assets: Assets, id: SnapshotId) -> Snapshot | None:
    try:
        return assets.read_snapshot(id)
    except IcechunkError:
        return None  # it may be gone, and something else be wanted


class StoreOwner(Protocol):
    """Session as its store uses it."""

    @property
    def state(self) -> SessionState:
        """Return the state of the session."""

    @property
    def read_only(self) -> bool:
        """Return True if the session can't be written to."""


def preload(state: SessionState) -> None:
    """Start to fetch the manifests to preload in the background; does nothing for local storage."""
    if state.assets.storage.is_local or not state.context.settings.preload.max_total_refs:
        return
    chosen = list(plan_preload(state))
    if chosen:
        threading.Thread(target=_fetch, args=(state, chosen), daemon=True).start()


def plan_preload(state: SessionState) -> Iterator[ManifestId]:
    """Yield the manifests to preload: of the first arrays that match, up to the allowed references."""
    rules = state.context.settings.preload
    sizes = {file.id: file.num_chunk_refs or 0 for file in state.view.snapshot.manifest_files}
    left = rules.max_total_refs
    arrays = (node for node in state.view.nodes() if node.array is not None)
    for node in islice(arrays, rules.max_arrays_to_scan):
        for id in _manifests(node):
            count = sizes.get(id, 0)
            if count <= left and rules.preload_if.matches(node.path, count):
                left -= count
                yield id


def _manifests(node: Node) -> Iterator[ManifestId]:
    if node.array is not None:
        yield from (ref.id for ref in node.array.manifests)


def _fetch(state: SessionState, ids: list[ManifestId]) -> None:
    for id in ids:
        try:
            state.assets.read_manifest(id)
        except IcechunkError:
            return  # the reader that needs it will get the error and can handle it


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
