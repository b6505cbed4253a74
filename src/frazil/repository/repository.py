"""The repository as users see it: sessions, refs, history, state."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, Self

from frazil.arguments import check_arguments
from frazil.async_names import asynchronous, asynchronous_class_method
from frazil.config.saved_config import encode_config
from frazil.config.settings import Attribution, FeatureFlag, RepositoryConfig
from frazil.conflicts import ConflictSolver
from frazil.credentials import AnyCredential
from frazil.display import Block, Item, public_name, render_html
from frazil.errors import (
    InvalidInputError,
    InvalidTypeError,
    RepositoryNotFoundError,
    SnapshotNotFoundError,
)
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.snapshot import Snapshot
from frazil.format.timestamps import from_datetime
from frazil.lazy import lazy_modules
from frazil.ops import (
    AsyncCloseableIterator,
    RepoStatus,
    SessionMode,
    SpecVersion,
    Update,
    public_status,
    public_update,
    stored_status,
)
from frazil.protocols import repo_changes
from frazil.protocols.detection import detect_dialect, open_protocol
from frazil.protocols.repo_changes import MOVE_NODE, keep_reserved, refuse_unless_enabled
from frazil.repository import context, diff
from frazil.repository.context import Opened
from frazil.repository.operations import (
    Editing,
    Health,
    RepositoryPart,
    Upkeep,
    parse_snapshot_id,
    refuse_unless_one,
)
from frazil.repository.session import Session
from frazil.repository.session_state import SessionState, preload, with_metadata
from frazil.repository.store import IcechunkStore
from frazil.snapshots import (
    AncestryGraph,
    Diff,
    ManifestFileInfo,
    SnapshotInfo,
    public_snapshot_info,
)
from frazil.storage.interface import Storage, StorageSettings

if TYPE_CHECKING:
    from frazil.maintenance import migrate
    from frazil.repository import inspect
else:
    migrate, inspect = lazy_modules("frazil.maintenance.migrate", "frazil.repository.inspect")


class Condition(RepositoryPart):
    """What holds for the repository as a whole."""

    @property
    def config(self) -> RepositoryConfig:
        """Return the configuration of the repository: the saved one merged with the given one."""
        return self._context.config

    def save_config(self) -> None:
        """Save the configuration in the repository, as the default for everybody who opens it."""
        self._protocol.write_config(encode_config(self._context.config))

    save_config_async = asynchronous(save_config)

    def get_metadata(self) -> dict[str, Any]:
        """Return the user metadata of the repository."""
        return dict(self._protocol.read_repo_info().metadata)

    get_metadata_async = asynchronous(get_metadata)

    @property
    def metadata(self) -> dict[str, Any]:
        """Return the user metadata of the repository."""
        return self.get_metadata()

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the user metadata of the repository; Frazil's reserved entry is kept unless set.

        Parameters
        ----------
        metadata
            The new metadata.
        """
        self._protocol.update_metadata(lambda before: keep_reserved(before, metadata))

    set_metadata_async = asynchronous(set_metadata)

    def update_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Merge entries into the user metadata of the repository.

        Parameters
        ----------
        metadata
            Entries to add; they replace entries with the same key.

        Returns
        -------
        dict
            The merged metadata.
        """
        return dict(self._protocol.update_metadata(lambda before: {**before, **metadata}))

    update_metadata_async = asynchronous(update_metadata)

    def get_status(self) -> RepoStatus:
        """Return the status of the repository: its availability, since when, and why."""
        return public_status(self._protocol.read_repo_info().status)

    get_status_async = asynchronous(get_status)

    @property
    def status(self) -> RepoStatus:
        """Return the status of the repository: its availability, since when, and why."""
        return self.get_status()

    def set_status(self, status: RepoStatus) -> None:
        """Set the status of the repository, for example to make it read-only.

        Parameters
        ----------
        status
            The new status.
        """
        self._protocol.set_status(stored_status(status))

    set_status_async = asynchronous(set_status)

    def feature_flags(self) -> list[FeatureFlag]:
        """Return all feature flags."""
        info = self._protocol.read_repo_info()
        return [
            FeatureFlag(
                flag.id, flag.name, flag.default_enabled, repo_changes.find_setting(info, flag)
            )
            for flag in repo_changes.FEATURE_FLAGS
        ]

    feature_flags_async = asynchronous(feature_flags)

    def enabled_feature_flags(self) -> list[FeatureFlag]:
        """Return the feature flags that are enabled."""
        return [flag for flag in self.feature_flags() if flag.enabled]

    enabled_feature_flags_async = asynchronous(enabled_feature_flags)

    def disabled_feature_flags(self) -> list[FeatureFlag]:
        """Return the feature flags that are disabled."""
        return [flag for flag in self.feature_flags() if not flag.enabled]

    disabled_feature_flags_async = asynchronous(disabled_feature_flags)

    def set_feature_flag(self, name: str, setting: bool | None) -> None:
        """Enable or disable a feature; V2 repositories only.

        Parameters
        ----------
        name
            Name of the feature flag.
        setting
            True to enable, False to disable, None to reset to the default.
        """
        if self._protocol.dialect is not Dialect.V2:
            raise self._protocol.unsupported("feature flags")
        self._protocol.set_feature_flag(repo_changes.feature_flag_named(name).id, setting)

    set_feature_flag_async = asynchronous(set_feature_flag)


class History(RepositoryPart):
    """Snapshots, their ancestors, and the log of operations."""

    def ancestry(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
    ) -> Iterator[SnapshotInfo]:
        """Iterate over a snapshot and its ancestors, newest first.

        Parameters
        ----------
        branch, tag, snapshot_id
            Where to start; exactly one of them.

        Returns
        -------
        Iterator of SnapshotInfo
            The snapshots.

        Raises
        ------
        RefNotFoundError
            If there is no such branch or tag.
        SnapshotNotFoundError
            If there is no such snapshot.
        """
        start = self._resolve(branch, tag, snapshot_id)
        return map(public_snapshot_info, self._protocol.ancestry(start))

    def async_ancestry(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
    ) -> AsyncCloseableIterator[SnapshotInfo]:
        """Iterate over a snapshot and its ancestors on an event loop; see `ancestry`."""
        return AsyncCloseableIterator(
            self.ancestry(branch=branch, tag=tag, snapshot_id=snapshot_id)
        )

    def ancestry_graph(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        plain: bool = False,
    ) -> AncestryGraph:
        """Return the history as a graph for terminals and notebooks.

        Parameters
        ----------
        branch, tag, snapshot_id
            Where to start; by default all branches.
        plain
            Whether to render without colours.

        Returns
        -------
        AncestryGraph
            The graph.
        """
        branches = {name: str(self._protocol.lookup_branch(name)) for name in self._branch_names()}
        tags = {name: str(self._protocol.lookup_tag(name)) for name in self._protocol.list_tags()}
        if branch is None and tag is None and snapshot_id is None:
            starts = [parse_snapshot_id(tip) for tip in branches.values()]
        else:
            starts = [self._resolve(branch, tag, snapshot_id)]
        found = {info.id: info for line in self._protocol.ancestries(starts) for info in line}
        infos = [public_snapshot_info(info) for info in found.values()]
        return AncestryGraph(infos, branches=branches, tags=tags, plain=plain)

    ancestry_graph_async = asynchronous(ancestry_graph)

    def _branch_names(self) -> list[str]:
        return sorted(self._protocol.list_branches())

    def lookup_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        """Return information about a snapshot.

        Parameters
        ----------
        snapshot_id
            Id of the snapshot.

        Returns
        -------
        SnapshotInfo
            Its parent, time, message and metadata.

        Raises
        ------
        SnapshotNotFoundError
            If there is no such snapshot.
        """
        return public_snapshot_info(self._protocol.lookup_snapshot(parse_snapshot_id(snapshot_id)))

    lookup_snapshot_async = asynchronous(lookup_snapshot)

    def list_manifest_files(self, snapshot_id: str) -> list[ManifestFileInfo]:
        """Return the manifest files of a snapshot."""
        return inspect.list_manifest_files(self._protocol, parse_snapshot_id(snapshot_id))

    list_manifest_files_async = asynchronous(list_manifest_files)

    def ops_log(self) -> Iterator[Update]:
        """Iterate over the operations log of the repository, newest first."""
        return map(public_update, self._protocol.ops_log())

    def ops_log_async(self) -> AsyncCloseableIterator[Update]:
        """Iterate over the operations log on an event loop; see `ops_log`."""
        return AsyncCloseableIterator(self.ops_log())

    def diff(
        self,
        *,
        from_branch: str | None = None,
        from_tag: str | None = None,
        from_snapshot_id: str | None = None,
        to_branch: str | None = None,
        to_tag: str | None = None,
        to_snapshot_id: str | None = None,
    ) -> Diff:
        """Return the changes from a snapshot to one of its descendants.

        Parameters
        ----------
        from_branch, from_tag, from_snapshot_id
            The older snapshot; exactly one of them.
        to_branch, to_tag, to_snapshot_id
            The newer snapshot; exactly one of them.

        Returns
        -------
        Diff
            The changes of all commits in between.

        Raises
        ------
        InvalidInputError
            If the older snapshot is no ancestor of the newer one.
        """
        refuse_unless_one(from_branch, from_tag, from_snapshot_id)
        refuse_unless_one(to_branch, to_tag, to_snapshot_id)
        start = self._resolve(from_branch, from_tag, from_snapshot_id)
        end = self._resolve(to_branch, to_tag, to_snapshot_id)
        return diff.diff(self._protocol, start, end)

    diff_async = asynchronous(diff)


class Inspection(RepositoryPart):
    """Looks into single files."""

    def inspect_snapshot(self, snapshot_id: str) -> dict[str, Any]:
        """Describe a snapshot file."""
        return inspect.inspect_snapshot(self._protocol, parse_snapshot_id(snapshot_id))

    inspect_snapshot_async = asynchronous(inspect_snapshot)

    def inspect_repo_info(self) -> dict[str, Any]:
        """Describe the repo info file of a V2 repository."""
        return inspect.inspect_repo_info(self._protocol)

    inspect_repo_info_async = asynchronous(inspect_repo_info)

    def inspect_manifest(self, manifest_id: str) -> dict[str, Any]:
        """Describe a manifest file."""
        return inspect.inspect_manifest(self._protocol, _parse_manifest_id(manifest_id))

    inspect_manifest_async = asynchronous(inspect_manifest)

    def inspect_transaction_log(self, snapshot_id: str) -> dict[str, Any]:
        """Describe the transaction log of a snapshot."""
        return inspect.inspect_transaction_log(self._protocol, parse_snapshot_id(snapshot_id))

    inspect_transaction_log_async = asynchronous(inspect_transaction_log)


def _parse_manifest_id(text: str) -> ManifestId:
    try:
        return ManifestId.parse(text)
    except InvalidInputError as error:
        raise InvalidInputError(f"{text!r} is no manifest id", kind=error.kind) from error


class Refs(RepositoryPart):
    """Names for snapshots: branches move, tags stay."""

    def create_branch(self, branch: str, snapshot_id: str) -> None:
        """Create a branch.

        Parameters
        ----------
        branch
            Name of the branch.
        snapshot_id
            Snapshot that it points to.

        Raises
        ------
        AlreadyExistsError
            If the branch exists.
        SnapshotNotFoundError
            If there is no such snapshot.
        """
        self._protocol.create_branch(branch, parse_snapshot_id(snapshot_id))

    create_branch_async = asynchronous(create_branch)

    def list_branches(self) -> set[str]:
        """Return the names of all branches."""
        return set(self._protocol.list_branches())

    list_branches_async = asynchronous(list_branches)

    def lookup_branch(self, branch: str) -> str:
        """Return the id of the snapshot that a branch points to; raises RefNotFoundError."""
        return str(self._protocol.lookup_branch(branch))

    lookup_branch_async = asynchronous(lookup_branch)

    def reset_branch(
        self, branch: str, snapshot_id: str, *, from_snapshot_id: str | None = None
    ) -> None:
        """Point a branch to another snapshot.

        Garbage collection deletes snapshots that no branch or tag can reach any more.

        Parameters
        ----------
        branch
            Name of the branch.
        snapshot_id
            Snapshot that it points to from now on.
        from_snapshot_id
            Reset the branch only if it points to this snapshot.
        """
        expected = None if from_snapshot_id is None else parse_snapshot_id(from_snapshot_id)
        self._protocol.reset_branch(branch, parse_snapshot_id(snapshot_id), expected)

    reset_branch_async = asynchronous(reset_branch)

    def delete_branch(self, branch: str) -> None:
        """Delete a branch other than `main`; raises RefNotFoundError."""
        self._protocol.delete_branch(branch)

    delete_branch_async = asynchronous(delete_branch)

    def create_tag(self, tag: str, snapshot_id: str) -> None:
        """Create a tag.

        Parameters
        ----------
        tag
            Name of the tag.
        snapshot_id
            Snapshot that it points to.

        Raises
        ------
        AlreadyExistsError
            If the tag exists, or existed and was deleted.
        """
        self._protocol.create_tag(tag, parse_snapshot_id(snapshot_id))

    create_tag_async = asynchronous(create_tag)

    def list_tags(self) -> set[str]:
        """Return the names of all tags."""
        return set(self._protocol.list_tags())

    list_tags_async = asynchronous(list_tags)

    def lookup_tag(self, tag: str) -> str:
        """Return the id of the snapshot that a tag points to; raises RefNotFoundError."""
        return str(self._protocol.lookup_tag(tag))

    lookup_tag_async = asynchronous(lookup_tag)

    def delete_tag(self, tag: str) -> None:
        """Delete a tag; its name can't be reused. Raises RefNotFoundError."""
        self._protocol.delete_tag(tag)

    delete_tag_async = asynchronous(delete_tag)


class Sessions(RepositoryPart):
    """Views of the repository, to read and to write."""

    def readonly_session(
        self,
        branch: str | None = None,
        *,
        tag: str | None = None,
        snapshot_id: str | None = None,
        as_of: datetime | None = None,
    ) -> Session:
        """Open a read-only session of a branch, tag or snapshot.

        Parameters
        ----------
        branch, tag, snapshot_id
            What to read; exactly one of them.
        as_of
            With a branch: read its last snapshot written at or before this time, which needs a time
            zone.

        Returns
        -------
        Session
            A read-only session.

        Raises
        ------
        RefNotFoundError
            If there is no such branch or tag.
        SnapshotNotFoundError
            If there is no such snapshot, or none at that time.
        """
        if as_of is None:
            id = self._resolve(branch, tag, snapshot_id)
        elif branch is None or tag is not None or snapshot_id is not None:
            raise InvalidInputError("as_of needs a branch, and nothing else")
        else:
            id = self._snapshot_as_of(branch, as_of)
        return self._open(id)

    readonly_session_async = asynchronous(readonly_session)

    def writable_session(self, branch: str) -> Session:
        """Open a session that collects changes for one commit to a branch.

        Parameters
        ----------
        branch
            Name of the branch.

        Returns
        -------
        Session
            A writable session whose base is the tip of the branch.

        Raises
        ------
        RefNotFoundError
            If there is no such branch.
        """
        self._protocol.refuse_unless_writable()
        return self._open(self._protocol.lookup_branch(branch), SessionMode.writable, branch)

    writable_session_async = asynchronous(writable_session)

    def rearrange_session(self, branch: str) -> Session:
        """Open a session that moves nodes, for one commit to a branch; V2 repositories only.

        Parameters
        ----------
        branch
            Name of the branch.

        Returns
        -------
        Session
            A session for `Session.move`, whose base is the tip of the branch.
        """
        if self._protocol.dialect is not Dialect.V2:
            raise self._protocol.unsupported("rearrange sessions")
        self._protocol.refuse_unless_writable()
        refuse_unless_enabled(self._protocol.read_repo_info(), MOVE_NODE)
        return self._open(self._protocol.lookup_branch(branch), SessionMode.rearrange, branch)

    rearrange_session_async = asynchronous(rearrange_session)

    @contextmanager
    def transaction(
        self,
        branch: str,
        *,
        message: str,
        metadata: dict[str, Any] | None = None,
        rebase_with: ConflictSolver | None = None,
        rebase_tries: int = 1_000,
    ) -> Iterator[IcechunkStore]:
        """Open a writable store, committed at the end of the `with` block unless that raises.

        Parameters
        ----------
        branch
            Branch to commit to.
        message
            Commit message.
        metadata
            Commit metadata, merged over the repository's default commit metadata.
        rebase_with
            Solver to rebase with after a concurrent commit; None to raise ConflictError instead.
        rebase_tries
            Maximum number of rebases.

        Yields
        ------
        IcechunkStore
            The store.
        """
        session = self.writable_session(branch)
        yield session.store
        session.commit(
            message=message, metadata=metadata, rebase_with=rebase_with, rebase_tries=rebase_tries
        )

    def _open(
        self,
        id: SnapshotId,
        mode: SessionMode = SessionMode.readonly,
        branch: str | None = None,
    ) -> Session:
        snapshot: Snapshot = self._context.assets.read_snapshot(id)
        state = SessionState(self._context, snapshot, mode=mode, branch=branch)
        preload(state)
        return Session(state)

    def _snapshot_as_of(self, branch: str, moment: datetime) -> SnapshotId:
        if moment.tzinfo is None:
            raise InvalidTypeError("as_of needs a time zone")
        limit = from_datetime(moment)
        for info in self._protocol.ancestry(self._protocol.lookup_branch(branch)):
            if info.flushed_at <= limit:
                return info.id
        raise SnapshotNotFoundError(
            f"branch {branch} does not have a snapshots before or at {moment.isoformat()}",
            kind="no-snapshot-at-time",
        )


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


def warn_of_none(authorizations: Mapping[str, AnyCredential | None] | None) -> None:
    """Warn of containers with None for credentials, which may use what the environment has."""
    for prefix, credential in (authorizations or {}).items():
        if credential is None:
            instead = _INSTEAD.get(prefix.partition("://")[0], "a credential")
            warnings.warn(
                f"None as the credentials of {prefix!r} is deprecated, because it may take them from"
                f" the environment; say authorize_virtual_chunk_access={{{prefix!r}: {instead}}}",
                DeprecationWarning,
                stacklevel=3,
            )


_DIALECTS = {SpecVersion.v1: Dialect.V1, SpecVersion.v2: Dialect.V2}


def parse_spec_version(version: SpecVersion | int | None) -> Dialect:
    """Return the dialect of a spec version for new repositories; by default the newest."""
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


Credentials = Mapping[str, AnyCredential | None]
"""By the prefix of the container that they are for."""


@check_arguments()
class Repository(Sessions, Refs, History, Condition, Inspection, Upkeep, Editing, Health, Block):
    """A repository of any generation of the format."""

    def __init__(self, repository: Opened) -> None:
        """Create a repository object; internal, use `open`, `create` or `open_or_create`."""
        self._repository = repository

    def shown_title(self) -> str:
        """Return the name with the version of the specification."""
        version = self.spec_version
        return f"{public_name(self)} ({version.name})"

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields of the summary."""
        yield Item("storage", self.storage)
        yield Item("config", "<RepositoryConfig ...>")
        yield Item("generation", self._protocol.dialect.value)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        # There is room to unfold it; nothing is asked of the storage.
        config = {"config": Item("config", self.config)}
        return render_html(self, (config.get(each.name, each) for each in self.shown_items()))

    # Opening

    @classmethod
    def create(
        cls,
        storage: Storage,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Credentials | None = None,
        spec_version: SpecVersion | int | None = None,
        check_clean_root: bool = True,
        attribution: Attribution | None = None,
    ) -> Self:
        """Create a repository.

        Parameters
        ----------
        storage
            Storage of the new repository.
        config
            Configuration; saved in the repository unless it is the default.
        authorize_virtual_chunk_access
            Credentials by URL prefix of the containers whose virtual chunks may be read.
        spec_version
            Version of the format, 1 or 2; by default the newest.
        check_clean_root
            Whether to refuse a storage location that is not empty.
        attribution
            Labels for the User-Agent header of requests.

        Returns
        -------
        Repository
            The new repository.
        """
        warn_of_none(authorize_virtual_chunk_access)
        return cls(
            context.create(
                storage,
                parse_spec_version(spec_version),
                config,
                authorize_virtual_chunk_access,
                attribution,
                check_clean_root=check_clean_root,
            )
        )

    create_async = asynchronous_class_method(create)

    @classmethod
    def open(
        cls,
        storage: Storage,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Credentials | None = None,
        attribution: Attribution | None = None,
    ) -> Self:
        """Open a repository of any generation.

        Parameters
        ----------
        storage
            Storage of the repository.
        config
            Configuration, merged over the one saved with the repository.
        authorize_virtual_chunk_access
            Credentials by URL prefix of the containers whose virtual chunks may be read. Virtual chunks
            in other containers can't be read.
        attribution
            Labels for the User-Agent header of requests.

        Returns
        -------
        Repository
            The open repository.

        Raises
        ------
        RepositoryNotFoundError
            If there is no repository in the storage.
        """
        warn_of_none(authorize_virtual_chunk_access)
        return cls(
            context.open_repository(storage, config, authorize_virtual_chunk_access, attribution)
        )

    open_async = asynchronous_class_method(open)

    @classmethod
    def open_or_create(
        cls,
        storage: Storage,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Credentials | None = None,
        create_version: SpecVersion | int | None = None,
        check_clean_root: bool = True,
        attribution: Attribution | None = None,
    ) -> Self:
        """Open a repository, or create it if there is none.

        Parameters
        ----------
        storage
            Storage of the repository.
        config
            Configuration, merged over the one saved with the repository.
        authorize_virtual_chunk_access
            Credentials by URL prefix of the containers whose virtual chunks may be read.
        create_version
            Version of the format for a new repository, 1 or 2; by default the newest.
        check_clean_root
            Whether to refuse to create a repository in a storage location that is not empty.
        attribution
            Labels for the User-Agent header of requests.

        Returns
        -------
        Repository
            The repository.
        """
        try:
            return cls.open(storage, config, authorize_virtual_chunk_access, attribution)
        except RepositoryNotFoundError:
            return cls.create(
                storage,
                config,
                authorize_virtual_chunk_access,
                create_version,
                check_clean_root,
                attribution,
            )

    open_or_create_async = asynchronous_class_method(open_or_create)

    def reopen(
        self,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Credentials | None = None,
    ) -> Self:
        """Return this repository with another configuration or other credentials.

        Parameters
        ----------
        config
            Configuration, merged over the current one.
        authorize_virtual_chunk_access
            Credentials by container URL prefix, in place of the current ones.

        Returns
        -------
        Repository
            A new repository object.
        """
        warn_of_none(authorize_virtual_chunk_access)
        return type(self)(context.reopen(self._repository, config, authorize_virtual_chunk_access))

    reopen_async = asynchronous(reopen)

    def authorize(self, more: Credentials) -> Self:
        """Authorize access to more virtual chunk containers.

        Parameters
        ----------
        more
            Credentials by container URL prefix, in addition to the current ones.

        Returns
        -------
        Repository
            A new repository object.
        """
        return self.reopen(None, {**self._repository.authorizations, **more})

    authorize_async = asynchronous(authorize)

    # Looking from outside

    @staticmethod
    def exists(storage: Storage, storage_settings: StorageSettings | None = None) -> bool:
        """Return True if there is a repository in a storage."""
        return detect_dialect(_use(storage, storage_settings)) is not None

    exists_async = staticmethod(asynchronous(exists))

    @staticmethod
    def fetch_spec_version(
        storage: Storage, storage_settings: StorageSettings | None = None
    ) -> SpecVersion | None:
        """Return the spec version of the repository in a storage, or None if there is none."""
        dialect = detect_dialect(_use(storage, storage_settings))
        return None if dialect is None else generation_of(dialect)

    fetch_spec_version_async = staticmethod(asynchronous(fetch_spec_version))

    @staticmethod
    def fetch_config(storage: Storage) -> RepositoryConfig | None:
        """Return the configuration saved with the repository in a storage, or None."""
        return context.saved_config(open_protocol(storage))

    fetch_config_async = staticmethod(asynchronous(fetch_config))

    # What it is

    @property
    def spec_version(self) -> SpecVersion:
        """Return the spec version of the repository."""
        return generation_of(self._protocol.dialect)

    @property
    def dialect(self) -> Dialect:
        """Return the exact dialect of the format."""
        return self._protocol.dialect

    @property
    def storage(self) -> Storage:
        """Return the storage of the repository."""
        return self._repository.storage

    @property
    def attribution(self) -> Attribution:
        """Return the labels for the User-Agent header of requests."""
        return self._repository.attribution

    @property
    def authorized_virtual_container_prefixes(self) -> set[str]:
        """Return the URL prefixes of the containers whose virtual chunks may be read."""
        return set(self._context.virtual.authorized_prefixes)

    def set_default_commit_metadata(self, metadata: dict[str, Any]) -> None:
        """Set the default metadata for commits of sessions that are opened from now on.

        Parameters
        ----------
        metadata
            Entries added to the metadata of every commit; the commit's own entries win.
        """
        context = with_metadata(self._context, metadata)
        before = self._repository
        self._repository = Opened(
            before.storage, context, before.authorizations, before.attribution
        )

    def default_commit_metadata(self) -> dict[str, Any]:
        """Return the default metadata for commits."""
        return dict(self._context.default_commit_metadata)


def _use(storage: Storage, settings: StorageSettings | None) -> Storage:
    return storage if settings is None else storage.with_settings(settings)


def create_legacy(
    storage: Storage,
    generation: str = Dialect.ALPHA_H.value,
    config: RepositoryConfig | None = None,
) -> Repository:
    """Make a repository of the draft (`"draft"`) or of an alpha release (such as `"0.1.0-0.1.3"`).

    Their commits only ever create objects, so they are safe on storage that can create an object if
    there is none, but can't replace one only if nobody else did. Raises ValueError for a generation
    that there is not.
    """
    known = {each.value: each for each in Dialect if each not in (Dialect.V1, Dialect.V2)}
    if generation not in known:
        raise InvalidInputError(
            f"{generation!r} is no old generation; there are {', '.join(known)}"
        )
    return Repository(context.create(storage, known[generation], config))


_DEFAULT_CONCURRENCY = 64


class _Outdated:
    """Stands for what a repository object had open before it was migrated."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(
            "this Repository was invalidated by upgrade_icechunk_repository: use the object that it"
            " returned"
        )


def upgrade_icechunk_repository(
    repo: Repository,
    *,
    dry_run: bool,
    delete_unused_v1_files: bool = True,
    prefetch_concurrency: int | None = None,
) -> Repository:
    """Migrate a repository of any older generation to V2 while nobody else uses it, and open it anew.

    Of a V1 repository only refs and the saved configuration are rewritten, so it takes seconds unless
    the history is very long. Of those from before V1 all metadata is: commits get new ids, with the
    old ones in their metadata. Their chunks stay where they are, but the draft's are copied.

    Broken off anywhere, it leaves a repository that can be opened, as what it was or as V2. A second
    call goes on; of a repository from before V1 it also deletes old files that were left. Raises
    SessionStateError where there is nothing to do.

    The given object can't be used afterwards; the new one has the saved configuration and
    is authorized to read no containers. A dry run changes nothing.
    """
    opened = repo._repository
    concurrency = _DEFAULT_CONCURRENCY if prefetch_concurrency is None else prefetch_concurrency
    if concurrency < 1:
        raise InvalidInputError(f"prefetch_concurrency is {concurrency}, and must be at least 1")
    options = migrate.MigrationOptions(
        dry_run, deletes_old_files=delete_unused_v1_files, max_concurrent_snapshots=concurrency
    )
    migrate.migrate_to_v2(opened.protocol, options)
    if not dry_run:
        repo._repository = _Outdated()  # type: ignore[assignment]  # whose use is an error
    return Repository(context.open_repository(opened.storage, attribution=opened.attribution))
