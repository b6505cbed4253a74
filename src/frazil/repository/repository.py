"""The repository as users see it."""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from frazil.arguments import check_arguments
from frazil.asynchronous import asynchronous, asynchronous_class_method
from frazil.config import Attribution, RepositoryConfig
from frazil.credentials import AnyCredential
from frazil.engine import opening
from frazil.engine.opening import Opened
from frazil.engine.state import with_metadata
from frazil.errors import RepositoryNotFoundError
from frazil.format.dialect import Dialect
from frazil.protocols.detection import detect_dialect, open_protocol
from frazil.rendering import Block, Item, public_name, render_html
from frazil.repository.authorizing import warn_of_none
from frazil.repository.condition import Condition
from frazil.repository.editing import Editing
from frazil.repository.generations import generation_of, parse_spec_version
from frazil.repository.health import Health
from frazil.repository.history import History
from frazil.repository.inspection import Inspection
from frazil.repository.refs import Refs
from frazil.repository.sessions import Sessions
from frazil.repository.upkeep import Upkeep
from frazil.states import SpecVersion
from frazil.storage import Storage, StorageSettings

Credentials = Mapping[str, AnyCredential | None]
"""By the prefix of the container that they are for."""


@check_arguments()
class Repository(Sessions, Refs, History, Condition, Inspection, Upkeep, Editing, Health, Block):
    """A repository of any generation of the format."""

    def __init__(self, repository: Opened) -> None:
        """Not for users, who call `open`, `create` or `open_or_create`."""
        self._repository = repository

    def shown_title(self) -> str:
        """Return the name with the version of the specification."""
        version = self.spec_version
        return f"{public_name(self)} ({version.name})"

    def shown_items(self) -> Iterator[Item]:
        """What a person wants to know first."""
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
        """Make a repository where nothing is, of the newest generation unless told otherwise."""
        warn_of_none(authorize_virtual_chunk_access)
        return cls(
            opening.create(
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
        """Open a repository of any generation; raises RepositoryNotFoundError.

        What `config` says wins over what was saved with the repository. Virtual chunks are read only
        from containers that `authorize_virtual_chunk_access` names.
        """
        warn_of_none(authorize_virtual_chunk_access)
        return cls(
            opening.open_repository(storage, config, authorize_virtual_chunk_access, attribution)
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
        """Open a repository, or make it if there is none."""
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
        """The same repository with another configuration or other credentials."""
        warn_of_none(authorize_virtual_chunk_access)
        return type(self)(opening.reopen(self._repository, config, authorize_virtual_chunk_access))

    reopen_async = asynchronous(reopen)

    def authorize(self, more: Credentials) -> Self:
        """The same repository with credentials for more containers of virtual chunks."""
        return self.reopen(None, {**self._repository.authorizations, **more})

    authorize_async = asynchronous(authorize)

    # Looking from outside

    @staticmethod
    def exists(storage: Storage, storage_settings: StorageSettings | None = None) -> bool:
        """Whether there is a repository in a storage."""
        return detect_dialect(_use(storage, storage_settings)) is not None

    exists_async = staticmethod(asynchronous(exists))

    @staticmethod
    def fetch_spec_version(
        storage: Storage, storage_settings: StorageSettings | None = None
    ) -> SpecVersion | None:
        """The generation of the repository in a storage, if there is one."""
        dialect = detect_dialect(_use(storage, storage_settings))
        return None if dialect is None else generation_of(dialect)

    fetch_spec_version_async = staticmethod(asynchronous(fetch_spec_version))

    @staticmethod
    def fetch_config(storage: Storage) -> RepositoryConfig | None:
        """The configuration that was saved with the repository in a storage, if there is one."""
        return opening.saved_config(open_protocol(storage))

    fetch_config_async = staticmethod(asynchronous(fetch_config))

    # What it is

    @property
    def spec_version(self) -> SpecVersion:
        """The generation of the format."""
        return generation_of(self._protocol.dialect)

    @property
    def dialect(self) -> Dialect:
        """The generation of the format to the letter."""
        return self._protocol.dialect

    @property
    def storage(self) -> Storage:
        """Where it is."""
        return self._repository.storage

    @property
    def attribution(self) -> Attribution:
        """What its requests say about who asks."""
        return self._repository.attribution

    @property
    def authorized_virtual_container_prefixes(self) -> set[str]:
        """The containers whose virtual chunks may be read."""
        return set(self._surroundings.virtual.authorized_prefixes)

    def set_default_commit_metadata(self, metadata: dict[str, Any]) -> None:
        """Metadata for every commit of sessions that are opened from now on."""
        surroundings = with_metadata(self._surroundings, metadata)
        before = self._repository
        self._repository = Opened(
            before.storage, surroundings, before.authorizations, before.attribution
        )

    def default_commit_metadata(self) -> dict[str, Any]:
        """Metadata for every commit."""
        return dict(self._surroundings.default_commit_metadata)


def _use(storage: Storage, settings: StorageSettings | None) -> Storage:
    return storage if settings is None else storage.with_settings(settings)
