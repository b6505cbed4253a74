"""Stores of source files, opened with Frazil's own connections and handed to VirtualiZarr.

VirtualiZarr takes URLs whose path is the key as it is, without percent-escapes. Locations of virtual
chunks are escaped. `key_url` and `escape_url` lead from one to the other.
"""

from collections.abc import Iterable, Mapping
from urllib.parse import quote

from obstore.store import LocalStore, ObjectStore

from frazil.credentials import AnyCredential
from frazil.errors import InvalidInputError
from frazil.storage.client import SIZE_CLASSES, Purpose, plan_client
from frazil.storage.connections import Connection
from frazil.storage.settings import StorageSettings, resolve_settings
from frazil.storage.store_config import AnyObjectStoreConfig, ObjectStoreConfig, S3Options
from frazil.storage.store_connections import connect_bucket, connect_server
from frazil.virtual.containers import VirtualChunkContainer
from frazil.virtual.locations import Address, index_containers, normalize_location, parse_address

Credentials = Mapping[str, AnyCredential | None]
"""Credentials by URL prefix, as repositories take them."""

# What each scheme means where no container says more.
_PLAIN_CONFIGS: Mapping[str, AnyObjectStoreConfig] = {
    "s3": ObjectStoreConfig.S3(S3Options()),
    "gs": ObjectStoreConfig.Gcs({}),
    "gcs": ObjectStoreConfig.Gcs({}),
    "http": ObjectStoreConfig.Http({}),
    "https": ObjectStoreConfig.Http({}),
}


class SourceStores:
    """The store of each URL, opened when it is first asked for; VirtualiZarr takes it as a registry."""

    def __init__(
        self,
        containers: Iterable[VirtualChunkContainer] = (),
        credentials: Credentials | None = None,
    ) -> None:
        self._containers = index_containers({each.url_prefix: each for each in containers})
        self._credentials = dict(credentials or {})
        self._opened: dict[tuple[str, str, str], ObjectStore] = {}
        self._connections: dict[tuple[str, str, str], Connection] = {}

    def resolve(self, url: str) -> tuple[ObjectStore, str]:
        """The store that has a key, and the key."""
        address = _split(url)
        prefix, config = self._find_config(url, address)
        name = (prefix, address.scheme, address.host)
        if name not in self._opened:
            self._opened[name] = self._open(name, config, address)
        return self._opened[name], address.key

    def find_secrets(self) -> tuple[str, ...]:
        """What must not be told of any connection."""
        return tuple(s for each in self._connections.values() for s in each.find_secrets())

    def _find_config(self, url: str, address: Address) -> tuple[str, AnyObjectStoreConfig]:
        escaped = escape_url(url)
        if self._containers.has_container(escaped):
            container = self._containers.find_container(escaped)
            return container.url_prefix, container.store
        if address.scheme == "file":
            return "file://", ObjectStoreConfig.LocalFileSystem("/")
        if address.scheme not in _PLAIN_CONFIGS:
            raise InvalidInputError(
                f"nothing is known of the store of {url}: give a container for it with containers=",
                kind="no-container-for-virtual-chunk",
            )
        return self._find_prefix(escaped), _PLAIN_CONFIGS[address.scheme]

    def _find_prefix(self, url: str) -> str:
        fitting = [prefix for prefix in self._credentials if url.startswith(prefix)]
        return max(fitting, key=len, default="")

    def _open(
        self, name: tuple[str, str, str], config: AnyObjectStoreConfig, address: Address
    ) -> ObjectStore:
        if isinstance(config, ObjectStoreConfig.LocalFileSystem):
            return LocalStore()
        credential = self._credentials.get(name[0])
        if isinstance(config, ObjectStoreConfig.Http):
            base_url = f"{address.scheme}://{address.host}"
            connection = connect_server(config, base_url, credential)
        else:
            bucket = address.host.partition("@")[0]
            connection = connect_bucket(config, bucket, credential)
        self._connections[name] = connection
        plan = plan_client(
            resolve_settings(StorageSettings()),
            Purpose.READ,
            SIZE_CLASSES[0],
            connection.headers,
            connection.silence_seconds,
            "",
        )
        return connection.open(plan)


def key_url(location: str) -> str:
    """The URL of a location with its key as it is, the way VirtualiZarr wants it."""
    address = parse_address(normalize_location(location))
    if any(sign in address.key for sign in "?#"):
        raise InvalidInputError(
            f"{location} can't be parsed: VirtualiZarr takes no '?' and no '#' in the name of a file",
            kind="invalid-virtual-ref",
        )
    return f"{address.scheme}://{address.host}/{address.key}"


def escape_url(url: str) -> str:
    """The location of a URL that has its key as it is."""
    address = _split(url)
    if address.scheme == "file":
        return normalize_location("file:///" + quote(address.key, errors="surrogateescape"))
    return f"{address.scheme}://{address.host}/{quote(address.key, safe=_KEPT)}"


# Locations in object stores are kept as they are but for what ends a path.
_KEPT = "/:@!$&'()*+,;=|^[]~{}`\\\"<> "


def _split(url: str) -> Address:
    scheme, _, rest = url.partition("://")
    host, _, key = rest.partition("/")
    return Address(scheme, host, key)
