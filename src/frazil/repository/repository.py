"""The repository as users see it: sessions, refs, history, state and maintenance."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from frazil import ops
from frazil.arguments import check_arguments
from frazil.async_names import asynchronous, asynchronous_class_method, in_a_thread
from frazil.config.settings import Attribution, FeatureFlag, RepositoryConfig, RetentionPolicy
from frazil.display import Block, Item, public_name, render_html
from frazil.errors import InvalidInputError, RepositoryNotFoundError
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.metadata import from_datetime, require_zone
from frazil.lazy import lazy_modules
from frazil.ops import AsyncCloseableIterator, CommitMethod, SessionMode, SpecVersion
from frazil.protocols import repo_changes
from frazil.protocols.detection import detect_dialect, open_protocol
from frazil.protocols.protocol import CommitProtocol, parse_id
from frazil.repository import context
from frazil.repository.context import Opened, RepositoryContext, open_state
from frazil.repository.session import Session
from frazil.storage.interface import Storage, StorageSettings
from frazil.virtual.access import Authorize, find_credentials

if TYPE_CHECKING:
    from frazil import snapshots
    from frazil.config import saved_config
    from frazil.credentials import AnyCredential
    from frazil.maintenance import check as check_verb
    from frazil.maintenance import doctor, expire, findings, gc, reachability, repair, rewrite
    from frazil.maintenance import stats as stats
    from frazil.repository import conflicts, diff, history_edits, inspect
    from frazil.repository import store as zarr_store
else:
    # Most programs open a repository and never maintain it: verbs are loaded when they are called.
    (conflicts, snapshots, saved_config, diff, history_edits, inspect, check_verb, doctor, expire,
     findings, gc, reachability, repair, rewrite, stats) = lazy_modules(
        "frazil.repository.conflicts", "frazil.snapshots", "frazil.config.saved_config",
        "frazil.repository.diff", "frazil.repository.history_edits", "frazil.repository.inspect",
        "frazil.maintenance.check", "frazil.maintenance.doctor", "frazil.maintenance.expire",
        "frazil.maintenance.findings", "frazil.maintenance.gc", "frazil.maintenance.reachability",
        "frazil.maintenance.repair", "frazil.maintenance.rewrite", "frazil.maintenance.stats",
    )  # fmt: skip

_MEBIBYTE = 1024 * 1024
Metadata = dict[str, Any]
Policies = Mapping[str, RetentionPolicy]
Credentials = Mapping[str, "AnyCredential | None"]
"""Credentials by the URL prefix of their container."""


@check_arguments()
class Repository(Block):
    """Icechunk repository of any spec version, from `open`, `create` or `open_or_create`.

    Methods whose names end in `_async` do the same on an event loop.

    Examples
    --------
    >>> repo = Repository.open(s3_storage(bucket="bucket", prefix="weather"))
    >>> dataset = xarray.open_zarr(repo.readonly_session("main").store, consolidated=False)
    """

    def __init__(self, repository: Opened) -> None:
        """Create a repository object; internal, use `open`, `create` or `open_or_create`."""
        self._repository = repository

    @property
    def context(self) -> RepositoryContext:
        """Return what all sessions of the repository share; internal."""
        return self._repository.context

    @property
    def protocol(self) -> CommitProtocol:
        """Return the commit protocol, which reads and moves refs; internal."""
        return self._repository.context.protocol

    def shown_title(self) -> str:
        """Return the name with the version of the specification."""
        return f"{public_name(self)} ({self.spec_version.name})"

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields of the summary."""
        yield Item("storage", self.storage)
        yield Item("config", "<RepositoryConfig ...>")
        yield Item("generation", self.dialect.value)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        # There is room to unfold it; nothing is asked of the storage.
        config = {"config": Item("config", self.config)}
        return render_html(self, (config.get(each.name, each) for each in self.shown_items()))

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
        """
        access, dialect = authorize_virtual_chunk_access, context.parse_spec_version(spec_version)
        context.warn_of_none(access)
        return cls(context.create(storage, dialect, config, access, attribution, check_clean_root))

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
        authorize_virtual_chunk_access, attribution
            As in `create`. Virtual chunks in other containers can't be read.

        Raises
        ------
        RepositoryNotFoundError
            If there is no repository in the storage.
        """
        context.warn_of_none(access := authorize_virtual_chunk_access)
        return cls(context.open_repository(storage, config, access, attribution))

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
        """Open a repository, or create it if there is none; see `open` and `create`."""
        opened = storage, config, authorize_virtual_chunk_access
        try:
            return cls.open(*opened, attribution)
        except RepositoryNotFoundError:
            return cls.create(*opened, create_version, check_clean_root, attribution)

    def reopen(
        self,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Credentials | None = None,
    ) -> Self:
        """Return this repository with a configuration merged over its own, or other credentials.

        Without `authorize_virtual_chunk_access`, the new object keeps the current credentials.
        """
        context.warn_of_none(authorize_virtual_chunk_access)
        return type(self)(context.reopen(self._repository, config, authorize_virtual_chunk_access))

    def authorize(self, authorize: Authorize) -> Self:
        """Return this repository with access to the source files of more virtual chunks.

        Parameters
        ----------
        authorize
            `"*"` for every container that the repository declares, or one or more URL prefixes, with
            credentials from the environment. Or credentials by URL prefix.

        Returns
        -------
        Repository
            This repository, if there is nothing to authorize.

        Raises
        ------
        InvalidInputError
            If the repository declares no such container.

        Examples
        --------
        >>> repo = Repository.open(storage).authorize("*")  # doctest: +SKIP
        """
        more = find_credentials(self.config.virtual_chunk_containers or {}, authorize)
        return self.reopen(None, {**self._repository.authorizations, **more}) if more else self

    @staticmethod
    def exists(storage: Storage, storage_settings: StorageSettings | None = None) -> bool:
        """Return True if there is a repository in a storage, read with the given settings."""
        return detect_dialect(context.with_settings(storage, storage_settings)) is not None

    @staticmethod
    def fetch_spec_version(
        storage: Storage, storage_settings: StorageSettings | None = None
    ) -> SpecVersion | None:
        """Return the spec version of the repository in a storage, or None if there is none."""
        dialect = detect_dialect(context.with_settings(storage, storage_settings))
        return None if dialect is None else context.generation_of(dialect)

    @staticmethod
    def fetch_config(storage: Storage) -> RepositoryConfig | None:
        """Return the configuration saved with the repository in a storage, or None."""
        return context.saved_config(open_protocol(storage))

    create_async = asynchronous_class_method(create)
    open_async = asynchronous_class_method(open)
    open_or_create_async = asynchronous_class_method(open_or_create)
    reopen_async = asynchronous(reopen)
    authorize_async = asynchronous(authorize)
    exists_async = staticmethod(in_a_thread(exists))
    fetch_spec_version_async = staticmethod(in_a_thread(fetch_spec_version))
    fetch_config_async = staticmethod(in_a_thread(fetch_config))

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

        Raises
        ------
        RefNotFoundError
            If there is no such branch or tag.
        SnapshotNotFoundError
            If there is no such snapshot, or none at that time.
        """
        if as_of is None:
            names = (branch, tag, snapshot_id)
            resolve = partial(self.protocol.resolve, *names)
            return Session(open_state(self.context, resolve, self.protocol.guess(*names)))
        if branch is None or tag is not None or snapshot_id is not None:
            raise InvalidInputError("as_of needs a branch: leave out tag and snapshot_id")
        resolve = partial(self.protocol.resolve_as_of, branch, as_of)
        return Session(open_state(self.context, resolve, None))

    def writable_session(self, branch: str) -> Session:
        """Open a session on the tip of a branch that collects changes for one commit to it.

        Raises RefNotFoundError, and ReadOnlyError if the repository is read-only.
        """
        protocol = self.protocol
        resolve, guess = partial(protocol.resolve_to_write, branch), protocol.guess(branch)
        return Session(open_state(self.context, resolve, guess, SessionMode.writable, branch))

    def rearrange_session(self, branch: str) -> Session:
        """Open a session for `Session.move`, for one commit to a branch; see `writable_session`.

        Raises FormatError before V2, which can't move nodes.
        """
        resolve, guess = partial(self.protocol.resolve_to_move, branch), self.protocol.guess(branch)
        return Session(open_state(self.context, resolve, guess, SessionMode.rearrange, branch))

    @contextmanager
    def transaction(
        self,
        branch: str,
        *,
        message: str,
        metadata: Metadata | None = None,
        rebase_with: "conflicts.ConflictSolver | None" = None,
        rebase_tries: int = 1_000,
    ) -> "Iterator[zarr_store.IcechunkStore]":
        """Open a writable store, committed at the end of the `with` block unless that raises.

        `message`, `metadata`, `rebase_with` and `rebase_tries` are those of `Session.commit`.
        """
        session = self.writable_session(branch)
        yield session.store
        session.commit(message, metadata, rebase_with=rebase_with, rebase_tries=rebase_tries)

    readonly_session_async = asynchronous(readonly_session)
    writable_session_async = asynchronous(writable_session)
    rearrange_session_async = asynchronous(rearrange_session)

    def create_branch(self, branch: str, snapshot_id: str) -> None:
        """Create a branch at a snapshot; raises AlreadyExistsError or SnapshotNotFoundError."""
        self.protocol.create_branch(branch, parse_id(SnapshotId, snapshot_id))

    def list_branches(self) -> set[str]:
        """Return the names of all branches."""
        return set(self.protocol.list_branches())

    def lookup_branch(self, branch: str) -> str:
        """Return the id of the snapshot that a branch points to; raises RefNotFoundError."""
        return str(self.protocol.lookup_branch(branch))

    def reset_branch(
        self, branch: str, snapshot_id: str, *, from_snapshot_id: str | None = None
    ) -> None:
        """Point a branch to another snapshot.

        Garbage collection deletes snapshots that no branch or tag can reach any more. Raises
        ConflictError if `from_snapshot_id` is given and the branch does not point to it.
        """
        expected = None if from_snapshot_id is None else parse_id(SnapshotId, from_snapshot_id)
        self.protocol.reset_branch(branch, parse_id(SnapshotId, snapshot_id), expected)

    def delete_branch(self, branch: str) -> None:
        """Delete a branch other than `main`; raises RefNotFoundError."""
        self.protocol.delete_branch(branch)

    def create_tag(self, tag: str, snapshot_id: str) -> None:
        """Create a tag of a snapshot; raises AlreadyExistsError, also for a deleted tag."""
        self.protocol.create_tag(tag, parse_id(SnapshotId, snapshot_id))

    def list_tags(self) -> set[str]:
        """Return the names of all tags."""
        return set(self.protocol.list_tags())

    def lookup_tag(self, tag: str) -> str:
        """Return the id of the snapshot that a tag points to; raises RefNotFoundError."""
        return str(self.protocol.lookup_tag(tag))

    def delete_tag(self, tag: str) -> None:
        """Delete a tag; its name can't be reused. Raises RefNotFoundError."""
        self.protocol.delete_tag(tag)

    create_branch_async = asynchronous(create_branch)
    list_branches_async = asynchronous(list_branches)
    lookup_branch_async = asynchronous(lookup_branch)
    reset_branch_async = asynchronous(reset_branch)
    delete_branch_async = asynchronous(delete_branch)
    create_tag_async = asynchronous(create_tag)
    list_tags_async = asynchronous(list_tags)
    lookup_tag_async = asynchronous(lookup_tag)
    delete_tag_async = asynchronous(delete_tag)

    def ancestry(
        self, *, branch: str | None = None, tag: str | None = None, snapshot_id: str | None = None
    ) -> "Iterator[snapshots.SnapshotInfo]":
        """Iterate over a branch, tag or snapshot and its ancestors, newest first.

        Give exactly one parameter. Raises RefNotFoundError or SnapshotNotFoundError.
        """
        found = self.protocol.resolve_ancestry(branch, tag, snapshot_id)
        return map(snapshots.public_snapshot_info, found)

    def async_ancestry(
        self, *, branch: str | None = None, tag: str | None = None, snapshot_id: str | None = None
    ) -> "AsyncCloseableIterator[snapshots.SnapshotInfo]":
        """Iterate over a snapshot and its ancestors on an event loop; see `ancestry`."""
        found = self.ancestry(branch=branch, tag=tag, snapshot_id=snapshot_id)
        return AsyncCloseableIterator(found)

    def ancestry_graph(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        plain: bool = False,
    ) -> "snapshots.AncestryGraph":
        """Return the history as a graph for terminals and notebooks.

        It starts at one branch, tag or snapshot, by default at all branches; `plain` has no colours.
        """
        return inspect.ancestry_graph(self.protocol, branch, tag, snapshot_id, plain=plain)

    def lookup_snapshot(self, snapshot_id: str) -> "snapshots.SnapshotInfo":
        """Return parent, time, message and metadata of a snapshot; raises SnapshotNotFoundError."""
        id = parse_id(SnapshotId, snapshot_id)
        return snapshots.public_snapshot_info(self.protocol.lookup_snapshot(id))

    def list_manifest_files(self, snapshot_id: str) -> "list[snapshots.ManifestFileInfo]":
        """Return the manifest files of a snapshot; raises ObjectNotFoundError."""
        return inspect.list_manifest_files(self.protocol, parse_id(SnapshotId, snapshot_id))

    def ops_log(self) -> Iterator[ops.Update]:
        """Iterate over the operations log of the repository, newest first."""
        return map(ops.public_update, self.protocol.ops_log())

    def ops_log_async(self) -> AsyncCloseableIterator[ops.Update]:
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
    ) -> "snapshots.Diff":
        """Return the changes of all commits from a snapshot to one of its descendants.

        Give exactly one `from_…` for the older snapshot and one `to_…` for the newer one. Raises
        InvalidInputError if the older is not an ancestor of the newer.
        """
        older = (from_branch, from_tag, from_snapshot_id)
        newer = (to_branch, to_tag, to_snapshot_id)
        return diff.diff_versions(self.protocol, older, newer)

    def inspect_snapshot(self, snapshot_id: str) -> Metadata:
        """Describe a snapshot file as JSON values; raises ObjectNotFoundError."""
        return inspect.inspect_snapshot(self.protocol, parse_id(SnapshotId, snapshot_id))

    def inspect_repo_info(self) -> Metadata:
        """Describe the repo info file of a V2 repository as JSON values."""
        return inspect.inspect_repo_info(self.protocol)

    def inspect_manifest(self, manifest_id: str) -> Metadata:
        """Describe a manifest file as JSON values."""
        return inspect.inspect_manifest(self.protocol, parse_id(ManifestId, manifest_id))

    def inspect_transaction_log(self, snapshot_id: str) -> Metadata:
        """Describe the transaction log of a snapshot as JSON values."""
        return inspect.inspect_transaction_log(self.protocol, parse_id(SnapshotId, snapshot_id))

    ancestry_graph_async = asynchronous(ancestry_graph)
    lookup_snapshot_async = asynchronous(lookup_snapshot)
    list_manifest_files_async = asynchronous(list_manifest_files)
    diff_async = asynchronous(diff)
    inspect_snapshot_async = asynchronous(inspect_snapshot)
    inspect_repo_info_async = asynchronous(inspect_repo_info)
    inspect_manifest_async = asynchronous(inspect_manifest)
    inspect_transaction_log_async = asynchronous(inspect_transaction_log)

    @property
    def spec_version(self) -> SpecVersion:
        """Return the spec version of the repository."""
        return context.generation_of(self.dialect)

    @property
    def dialect(self) -> Dialect:
        """Return the exact dialect of the format."""
        return self.protocol.dialect

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
        return set(self.context.virtual.authorized_prefixes)

    @property
    def config(self) -> RepositoryConfig:
        """Return the configuration of the repository: the saved one merged with the given one."""
        return self.context.config

    def save_config(self) -> None:
        """Save the configuration in the repository, as the default for everybody who opens it."""
        self.protocol.write_config(saved_config.encode_config(self.context.config))

    def set_default_commit_metadata(self, metadata: Metadata) -> None:
        """Set metadata for all commits of sessions opened from now on; their own entries win."""
        changed = replace(self.context, default_commit_metadata=dict(metadata))
        self._repository = replace(self._repository, context=changed)

    def default_commit_metadata(self) -> Metadata:
        """Return the default metadata for commits."""
        return dict(self.context.default_commit_metadata)

    def get_metadata(self) -> Metadata:
        """Return the user metadata of the repository."""
        return dict(self.protocol.read_repo_info().metadata)

    @property
    def metadata(self) -> Metadata:
        """Return the user metadata of the repository."""
        return self.get_metadata()

    def set_metadata(self, metadata: Metadata) -> None:
        """Replace the user metadata of the repository; Frazil's reserved entry is kept unless set."""
        self.protocol.update_metadata(lambda old: repo_changes.keep_reserved(old, metadata))

    def update_metadata(self, metadata: Metadata) -> Metadata:
        """Merge entries over the user metadata of the repository, and return all of it."""
        return dict(self.protocol.update_metadata(lambda old: {**old, **metadata}))

    def get_status(self) -> ops.RepoStatus:
        """Return the status of the repository: its availability, since when, and why."""
        return ops.public_status(self.protocol.read_repo_info().status)

    @property
    def status(self) -> ops.RepoStatus:
        """Return the status of the repository: its availability, since when, and why."""
        return self.get_status()

    def set_status(self, status: ops.RepoStatus) -> None:
        """Set the status of the repository, for example to make it read-only."""
        self.protocol.set_status(ops.stored_status(status))

    def feature_flags(self) -> list[FeatureFlag]:
        """Return all feature flags."""
        return repo_changes.list_feature_flags(self.protocol.read_repo_info())

    def enabled_feature_flags(self) -> list[FeatureFlag]:
        """Return the feature flags that are enabled."""
        return [flag for flag in self.feature_flags() if flag.enabled]

    def disabled_feature_flags(self) -> list[FeatureFlag]:
        """Return the feature flags that are disabled."""
        return [flag for flag in self.feature_flags() if not flag.enabled]

    def set_feature_flag(self, name: str, setting: bool | None) -> None:
        """Enable (True), disable (False) or reset (None) a feature; V2 repositories only."""
        # A generation without flags refuses all of them, whatever their name.
        flag = repo_changes.feature_flag_named(name).id if self.protocol.has_repo_info else 0
        self.protocol.set_feature_flag(flag, setting)

    save_config_async = asynchronous(save_config)
    get_metadata_async = asynchronous(get_metadata)
    set_metadata_async = asynchronous(set_metadata)
    update_metadata_async = asynchronous(update_metadata)
    get_status_async = asynchronous(get_status)
    set_status_async = asynchronous(set_status)
    feature_flags_async = asynchronous(feature_flags)
    enabled_feature_flags_async = asynchronous(enabled_feature_flags)
    disabled_feature_flags_async = asynchronous(disabled_feature_flags)
    set_feature_flag_async = asynchronous(set_feature_flag)

    def squash(
        self,
        branch: str,
        since: str,
        *,
        message: str | None = None,
        metadata: Metadata | None = None,
    ) -> str:
        """Replace all commits of a branch after the snapshot `since` with one, and return its id.

        The default message lists those of the commits. Only a snapshot and a transaction log are
        written; garbage collection deletes the commits. Raises ConflictError if somebody commits to
        the branch meanwhile, and then changes nothing.
        """
        start = parse_id(SnapshotId, since)
        return str(history_edits.squash(self.context, branch, start, message, metadata or {}))

    def cherry_pick(
        self,
        snapshot_id: str,
        *,
        onto: str,
        message: str | None = None,
        rebase_with: "conflicts.ConflictSolver | None" = None,
    ) -> str:
        """Commit the changes of one commit to the branch `onto` as well, and return the new id.

        Message and metadata are those of the commit; the metadata also has its id. A commit that
        moved nodes can't be picked. Raises RebaseFailedError with all conflicts that the solver does
        not resolve.
        """
        id, solver = parse_id(SnapshotId, snapshot_id), rebase_with or conflicts.ConflictDetector()
        return str(history_edits.cherry_pick(self.context, id, onto, message, solver))

    def fast_forward(self, branch: str, to: str) -> str:
        """Move a branch to the tip of `to`, and return its id; raises DivergedError if it can't."""
        return str(history_edits.fast_forward(self.protocol, branch, to))

    def protect_branch(self, branch: str, *, by: str | None = None) -> None:
        """Let a branch move by `fast_forward` only; V2 repositories only.

        Other changes through Frazil raise a ReadOnlyError that names `by`. The official library
        ignores the protection.
        """
        self.protocol.protect_branch(branch, by)

    def unprotect_branch(self, branch: str) -> None:
        """Remove the protection of a branch; raises RefNotFoundError if it is not protected."""
        self.protocol.unprotect_branch(branch)

    def protected_branches(self) -> dict[str, str | None]:
        """Return the protected branches, with who protects each, if known."""
        return repo_changes.read_protected(self.protocol.read_repo_info().metadata)

    def set_retention(self, policies: Policies) -> None:
        """Replace the retention policies of `expire`, by patterns of ref names; V2 only."""
        expire.set_policies(self.protocol, policies)

    def retention(self) -> dict[str, RetentionPolicy]:
        """Return the retention policies, by patterns of branch and tag names."""
        return expire.read_policies(self.protocol.read_repo_info().metadata)

    def expire(
        self,
        *,
        now: datetime | None = None,
        policies: Policies | None = None,
        dry_run: bool = False,
    ) -> ops.ExpirySummary:
        """Remove snapshots from the history that no branch or tag retains by its policies.

        Policies are those of the repository unless others are given. A ref without a policy retains
        all its ancestors. Garbage collection deletes the files. A dry run only reports.
        """
        time = from_datetime(require_zone(now or datetime.now(UTC), "now"))
        return expire.expire_by_policies(self.protocol, time, policies, dry_run=dry_run)

    def expire_snapshots(
        self,
        older_than: datetime,
        *,
        delete_expired_branches: bool = False,
        delete_expired_tags: bool = False,
    ) -> set[str]:
        """Remove snapshots before a time from the history, and return their ids.

        The first snapshot and the tips of refs stay. With the options, branches other than `main` and
        tags that point to an old snapshot are deleted. Garbage collection deletes the files.
        """
        policy = expire.policy_of(older_than, delete_expired_branches, delete_expired_tags)
        return set(map(str, expire.expire_snapshots(self.protocol, policy)))

    def find_expired_snapshots(
        self,
        older_than: datetime,
        *,
        delete_expired_branches: bool = False,
        delete_expired_tags: bool = False,
    ) -> set[str]:
        """Return what `expire_snapshots` would remove, without changing anything."""
        policy = expire.policy_of(older_than, delete_expired_branches, delete_expired_tags)
        return set(map(str, expire.find_expired(self.protocol, policy)))

    def rewrite_manifests(
        self,
        message: str,
        *,
        branch: str,
        metadata: Metadata | None = None,
        commit_method: CommitMethod = "new_commit",
    ) -> str:
        """Rewrite the manifests of a branch, split as the configuration says; return the new id.

        The commit method is `"new_commit"`, or `"amend"` to replace the last commit (V2 only).
        """
        said = metadata or {}
        return str(rewrite.rewrite_manifests(self.context, branch, message, said, commit_method))

    def garbage_collect(
        self,
        delete_object_older_than: datetime,
        *,
        dry_run: bool = False,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * _MEBIBYTE,
        max_decoded_manifest_mem_bytes: int = 4096 * _MEBIBYTE,
        max_concurrent_manifest_fetches: int = 500,
        max_concurrent_deletes: int = 10,
        max_consecutive_delete_failures: int = 50,
        max_concurrent_listings: int | None = None,
    ) -> ops.GCSummary:
        """Delete objects that no branch or tag can reach, and count them.

        Parameters
        ----------
        delete_object_older_than
            Only delete objects written before this time. It must be before the start of every session
            that is still to be committed: nothing else protects the objects they have written.
        dry_run
            Whether to only count.
        max_consecutive_delete_failures
            Number of failed deletions in a row after which to stop.
        max_snapshots_in_memory, max_compressed_manifest_mem_bytes, max_decoded_manifest_mem_bytes
            Limits of memory.
        max_concurrent_manifest_fetches, max_concurrent_deletes, max_concurrent_listings
            Limits of concurrent requests.
        """
        total, fetches = max_snapshots_in_memory, max_concurrent_manifest_fetches
        memory = max_compressed_manifest_mem_bytes, max_decoded_manifest_mem_bytes
        sweep = reachability.SweepLimits(
            max_concurrent_deletes, max_consecutive_delete_failures, max_concurrent_listings
        )
        walk = reachability.WalkLimits(total, *memory, fetches)
        cutoff = require_zone(delete_object_older_than, "delete_object_older_than")
        return gc.collect_garbage(self.protocol, gc.CollectionOptions(cutoff, walk, sweep, dry_run))

    def chunk_storage_stats(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * _MEBIBYTE,
        max_decoded_manifest_mem_bytes: int = 4096 * _MEBIBYTE,
        max_concurrent_manifest_fetches: int = 500,
    ) -> ops.ChunkStorageStats:
        """Return the bytes of all chunks that refs can reach, each chunk counted once.

        The limits are those of `garbage_collect`.
        """
        total, fetches = max_snapshots_in_memory, max_concurrent_manifest_fetches
        memory = max_compressed_manifest_mem_bytes, max_decoded_manifest_mem_bytes
        return stats.measure_chunks(self.protocol, reachability.WalkLimits(total, *memory, fetches))

    def total_chunks_storage(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * _MEBIBYTE,
        max_decoded_manifest_mem_bytes: int = 4096 * _MEBIBYTE,
        max_concurrent_manifest_fetches: int = 500,
    ) -> int:
        """Return the bytes of native chunks; deprecated in favour of `chunk_storage_stats`."""
        warnings.warn(
            "total_chunks_storage and total_chunks_storage_async are deprecated: use"
            " chunk_storage_stats().native_bytes",
            DeprecationWarning,
            stacklevel=2,
        )
        total, fetches = max_snapshots_in_memory, max_concurrent_manifest_fetches
        memory = max_compressed_manifest_mem_bytes, max_decoded_manifest_mem_bytes
        limits = reachability.WalkLimits(total, *memory, fetches)
        return stats.measure_chunks(self.protocol, limits).native_bytes

    def check(
        self, *, branch: str | None = None, deep: bool = False, virtual: bool = False
    ) -> "findings.CheckReport":
        """Report everything that is wrong with the files of the repository; writes nothing.

        With a branch, check only what it can reach. `deep` reads and decodes every chunk, `virtual`
        checks the source files of virtual chunks in authorized containers.
        `frazil.maintenance.check.check_storage` does it for a repository that can't be opened.
        """
        options = check_verb.CheckOptions(branch, decodes_chunks=deep, asks_sources=virtual)
        return check_verb.check_repository(self.protocol, self.context.virtual, options)

    def repair(
        self, report: "findings.CheckReport", *, dry_run: bool = False
    ) -> "repair.RepairReport":
        """Repair what a report proposes a safe repair for; a dry run writes nothing.

        Nothing that a branch or a tag can reach is ever deleted. For a repository that can't be opened,
        `frazil.maintenance.check.restore_repo` restores `repo` from its backups.
        """
        return repair.repair_repository(self.protocol, report, dry_run=dry_run)

    def doctor(self, *, branch: str = "main", probe: bool = True) -> "doctor.DoctorReport":
        """Report which virtual chunk containers can be read, and the arguments to authorize the others.

        With `probe`, read one byte of a file in each container that arrays of the branch use.
        """
        return doctor.examine_branch(self.context, branch, probe=probe)

    squash_async = asynchronous(squash)
    cherry_pick_async = asynchronous(cherry_pick)
    fast_forward_async = asynchronous(fast_forward)
    protect_branch_async = asynchronous(protect_branch)
    unprotect_branch_async = asynchronous(unprotect_branch)
    protected_branches_async = asynchronous(protected_branches)
    set_retention_async = asynchronous(set_retention)
    retention_async = asynchronous(retention)
    expire_async = asynchronous(expire)
    expire_snapshots_async = asynchronous(expire_snapshots)
    rewrite_manifests_async = asynchronous(rewrite_manifests)
    garbage_collect_async = asynchronous(garbage_collect)
    chunk_storage_stats_async = asynchronous(chunk_storage_stats)
    total_chunks_storage_async = asynchronous(total_chunks_storage)
    check_async = asynchronous(check)
    repair_async = asynchronous(repair)
    doctor_async = asynchronous(doctor)
