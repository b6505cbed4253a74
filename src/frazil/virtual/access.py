"""Read virtual chunks from authorized containers, and only from unchanged source files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from frazil.errors import InvalidInputError, StorageError
from frazil.format.manifest import Checksum, ETag, LastModified, VirtualRef
from frazil.lazy import lazy_modules
from frazil.storage.interface import Buffer, ByteRange

if TYPE_CHECKING:
    from frazil import credentials
    from frazil.credentials import AnyCredential
    from frazil.storage import source_objects, store_config
    from frazil.storage.source_objects import Check, ForeignObjects, Observed
    from frazil.storage.store_config import AnyObjectStoreConfig
    from frazil.virtual import containers as known
    from frazil.virtual.containers import Address, ContainerIndex, VirtualChunkContainer
else:
    # Most repositories have no virtual chunks.
    credentials, source_objects, store_config, known = lazy_modules(
        "frazil.credentials", "frazil.storage.source_objects", "frazil.storage.store_config",
        "frazil.virtual.containers",
    )  # fmt: skip

MODIFIED = "virtual-chunk-modified"
"""Error kind for a source file that was modified."""
_REMEMBERED_LOCATIONS = 4096
_CALL = "frazil.credentials."
_EXAMPLES = {
    "S3": "s3_from_env_credentials()",
    "S3Compatible": "s3_from_env_credentials()",
    "Tigris": "s3_from_env_credentials()",
    "Gcs": "gcs_from_env_credentials()",
    "Azure": "azure_from_env_credentials()",
    "Http": "HttpAccess",
    "LocalFileSystem": "LocalFileSystemAccess",
}
"""Calls that make credentials, by the class of the store's configuration."""


class VirtualChunkAccess:
    """Reads bytes of virtual chunks, by container.

    Stores are opened on first use in each process. A pickle holds the arguments, credentials included.
    """

    def __init__(
        self,
        containers: "Mapping[str, VirtualChunkContainer]",
        authorized: "Mapping[str, AnyCredential | None]",
    ) -> None:
        self._containers = dict(containers)
        self._authorized = dict(authorized)
        self._index: ContainerIndex | None = None
        self._sources: dict[tuple[str, str, str], ForeignObjects] = {}
        self._refused: set[str] = set()
        # A file has many chunks, and resolving a location takes as long as a small read.
        self._find_source = lru_cache(_REMEMBERED_LOCATIONS)(self._locate)

    def __reduce__(self) -> tuple[object, ...]:
        return (VirtualChunkAccess, (self._containers, self._authorized))

    @property
    def containers(self) -> "Mapping[str, VirtualChunkContainer]":
        """Return the containers by URL prefix."""
        return self._containers

    @property
    def index(self) -> "ContainerIndex":
        """Return the index of the containers, for lookups of many locations."""
        if self._index is None:
            self._index = known.index_containers(self._containers)
        return self._index

    @property
    def authorized_prefixes(self) -> set[str]:
        """Return the URL prefixes that the user has authorized, with or without a container."""
        return set(self._authorized)

    @property
    def refused_prefixes(self) -> set[str]:
        """Return the URL prefixes of containers whose reads were refused for lack of authorization."""
        return set(self._refused)

    def validate(self) -> None:
        """Raise StorageError if a credential does not match the kind of its store."""
        for prefix, credential in self._authorized.items():
            if prefix in self._containers:
                _open(self._containers[prefix].store, _address_of_prefix(prefix), credential)

    def find_refusal(self, prefix: str) -> str | None:
        """Return why chunks of a container can't be read, and how to authorize it, or None."""
        container = self._containers[prefix]
        return None if self._is_authorized(container) else _refuse(container).message

    @property
    def is_restricted(self) -> bool:
        """Return whether any container is not authorized."""
        return not all(map(self._is_authorized, self._containers.values()))

    def check_location(self, location: str) -> None:
        """Raise InvalidInputError if chunks at a location can't be read, as `read` would."""
        self._find_source(location)

    def read(self, ref: VirtualRef, start: int, end: int) -> Buffer:
        """Return bytes of a chunk; `start` and `end` are relative to the chunk.

        Raises
        ------
        InvalidInputError
            If no container matches the location, or it is not authorized.
        StorageError
            If the source can't be read, is too short, or was modified.
        """
        location, source, key = self._find_source(ref.location)
        wanted = ByteRange(ref.offset + start, ref.offset + end)
        with _naming(location):
            return source.get(key, wanted, _expect(ref.checksum, location))

    async def read_async(self, ref: VirtualRef, start: int, end: int) -> Buffer:
        """Return bytes of a chunk, as `read` does, without blocking the event loop."""
        location, source, key = self._find_source(ref.location)
        wanted = ByteRange(ref.offset + start, ref.offset + end)
        with _naming(location):
            return await source.get_async(key, wanted, _expect(ref.checksum, location))

    def _locate(self, given: str) -> "tuple[str, ForeignObjects, str]":
        location, container = self.index.locate(given)
        prefix = container.url_prefix
        if not self._is_authorized(container):
            self._refused.add(prefix)
            raise _refuse(container)
        address = known.parse_address(location)
        # No lock: creating a source is cheap and opens no connection, and the first one is kept.
        name = (prefix, address.scheme, address.host)
        source = self._sources.get(name)
        if source is None:
            opened = _open(container.store, address, self._authorized.get(prefix))
            source = self._sources.setdefault(name, opened)
        return location, source, address.key

    def _is_authorized(self, container: "VirtualChunkContainer") -> bool:
        return container.url_prefix in self._authorized or known.is_public(container)


def _open(
    config: "AnyObjectStoreConfig", address: "Address", credential: "AnyCredential | None"
) -> "ForeignObjects":
    match config:
        case store_config.ObjectStoreConfig.LocalFileSystem():
            if (
                credential is not None
                and credential != credentials.Credentials.LocalFileSystemAccess()
            ):
                raise source_objects.mismatch(config, credential)
            return source_objects.ForeignFiles()
        case store_config.ObjectStoreConfig.Http():
            base_url = f"{address.scheme}://{address.host}"
            connect = partial(source_objects.connect_server, config, base_url)
            return source_objects.ForeignStore(connect, credential)
    # abfs://container@account/path: the Azure container is in the place of the user name.
    name = address.host.partition("@")[0]
    connect = partial(source_objects.connect_bucket, config, name)
    return source_objects.ForeignStore(connect, credential)


def _address_of_prefix(prefix: str) -> "Address":
    scheme, _, rest = prefix.partition("://")
    return known.Address(scheme, rest.partition("/")[0], "")


def _expect(checksum: Checksum | None, location: str) -> "Check":
    def check(found: "Observed") -> None:
        problem = _find_change(checksum, found)
        if problem is not None:
            raise StorageError(
                f"the checksum of the object owning the virtual chunk has changed ({location}): "
                f"{problem}",
                kind=MODIFIED,
            )

    return check


def _find_change(checksum: Checksum | None, found: "Observed") -> str | None:
    match checksum:
        case ETag(value) if found.e_tag is None or _strip(found.e_tag) != _strip(value):
            shown = "none" if found.e_tag is None else _strip(found.e_tag)
            return f"its etag was to be {_strip(value)}, and is {shown}"
        case LastModified(seconds) if int(found.modified_at.timestamp()) > seconds:
            since = datetime.fromtimestamp(seconds, UTC).isoformat()
            return (
                f"it was to be unmodified since {since}, and is of {found.modified_at.isoformat()}"
            )
    return None


def _strip(e_tag: str) -> str:
    """Strip quotes and the weak marker from an ETag; some stores and users omit them."""
    return re.sub(r'^(?:W/)?"(.*)"$', r"\1", e_tag)


@contextmanager
def _naming(location: str) -> Iterator[None]:
    """Add the location to storage errors of the block."""
    try:
        yield
    except StorageError as error:
        if error.kind == MODIFIED:
            raise
        message = f"can't read a virtual chunk of {location}: {error.message}"
        raise type(error)(message, kind="virtual-chunk-fetch") from error


def _refuse(container: "VirtualChunkContainer") -> InvalidInputError:
    prefix = container.url_prefix
    example = _CALL + _EXAMPLES[type(container.store).__name__]
    granted = f'{{"{prefix}": {example}}}'
    if example.endswith(")"):
        granted = f"{_CALL}containers_credentials({granted})"
    name = f" {container.name!r}" if container.name else ""
    return InvalidInputError(
        f"the virtual chunk container{name} at {prefix} is not authorized: to read its chunks, add "
        f'authorize="{prefix}", or authorize="*" for all containers, to frazil.open_repository, '
        "frazil.open_session or xarray.open_dataset; to Repository.open, add "
        f"authorize_virtual_chunk_access={granted}",
        kind="unauthorized-virtual-chunk-container",
    )


Authorize = str | Sequence[str] | Mapping[str, "AnyCredential | None"]
"""Containers to read: `"*"` for all that a repository declares, URL prefixes, or credentials by
prefix. Credentials that are not given come from the environment."""
EVERY_CONTAINER = "*"


def list_prefixes(authorize: Authorize) -> tuple[str, ...]:
    """Return the prefixes to authorize; raises InvalidInputError for credentials."""
    if isinstance(authorize, Mapping):
        raise InvalidInputError(
            "queries take URL prefixes in authorize, and credentials from the environment: give"
            " credentials to open_repository, and the repository to the query"
        )
    return (authorize,) if isinstance(authorize, str) else tuple(authorize)


def find_credentials(
    containers: "Mapping[str, VirtualChunkContainer]", authorize: Authorize
) -> "dict[str, AnyCredential | None]":
    """Return credentials by prefix, from the environment unless they are given.

    Raises
    ------
    InvalidInputError
        If a prefix without credentials is none of a container.
    """
    if isinstance(authorize, Mapping):
        return dict(authorize)
    prefixes = list_prefixes(authorize)
    wanted = [*containers] if EVERY_CONTAINER in prefixes else list(prefixes)
    unknown = [prefix for prefix in wanted if prefix not in containers]
    if unknown:
        declared = ", ".join(sorted(containers)) or "none"
        raise InvalidInputError(
            f"invalid authorize {', '.join(unknown)}: the containers of the repository are {declared}"
        )
    return {prefix: default_credential(containers[prefix]) for prefix in wanted}


def default_credential(container: "VirtualChunkContainer") -> "AnyCredential":
    """Return credentials from the environment, of the kind that the container's store takes."""
    match container.store:
        case store_config.ObjectStoreConfig.LocalFileSystem():
            return credentials.LocalFileSystemAccess
        case store_config.ObjectStoreConfig.Http():
            return credentials.HttpAccess
        case store_config.ObjectStoreConfig.Gcs():
            return credentials.Credentials.Gcs(credentials.gcs_from_env_credentials())
        case store_config.ObjectStoreConfig.Azure():
            return credentials.Credentials.Azure(credentials.azure_from_env_credentials())
    return credentials.Credentials.S3(credentials.s3_from_env_credentials())
