"""Virtual chunk containers, and the locations they cover."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from urllib.parse import SplitResult, quote, unquote, urlsplit

from frazil.display import Called, Rendered, public_name
from frazil.errors import InvalidInputError, InvalidTypeError
from frazil.lazy import dataclass
from frazil.storage.store_config import AnyObjectStoreConfig, ObjectStoreConfig

_S3 = frozenset(("s3",))
_SCHEMES: dict[type, frozenset[str]] = {
    ObjectStoreConfig.InMemory: frozenset(),
    ObjectStoreConfig.LocalFileSystem: frozenset(("file",)),
    ObjectStoreConfig.S3: _S3,
    ObjectStoreConfig.S3Compatible: _S3,
    ObjectStoreConfig.Tigris: _S3 | {"tigris"},
    ObjectStoreConfig.Gcs: frozenset(("gcs", "gs")),
    ObjectStoreConfig.Azure: frozenset(("abfs", "az", "azure")),
    ObjectStoreConfig.Http: frozenset(("http", "https")),
}
_PUBLIC_GCS = {"skip_signature": "true"}


@dataclass(slots=True, repr=False)
class VirtualChunkContainer(Rendered):
    """URL prefix that virtual references may point to, and the store configuration to read it.

    With a name, references can be relative to the container: `vcc://name/path`.

    Parameters
    ----------
    url_prefix
        Prefix of the locations that the container covers.
    store
        Configuration of the object store.
    name
        Name for relative locations.
    """

    url_prefix: str
    store: AnyObjectStoreConfig
    name: str | None = None


def validate_container(container: VirtualChunkContainer) -> VirtualChunkContainer:
    """Return the container; raise InvalidInputError if it can't be used."""
    problem = _find_problem(container)
    if problem is not None:
        message = f"virtual chunk container {container.url_prefix!r}: {problem}"
        raise InvalidInputError(message, kind="bad-prefix")
    return container


def is_valid_container(container: VirtualChunkContainer) -> bool:
    """Return whether `validate_container` accepts a container."""
    return _find_problem(container) is None


def is_public(container: VirtualChunkContainer) -> bool:
    """Return whether a container can be read without authorization.

    This holds for anonymous access to a cloud provider's own endpoints, which reveals nothing and
    reaches only public data. Other servers may be reachable only from this machine.
    """
    match container.store:
        case ObjectStoreConfig.S3(options):
            return options.anonymous and not (options.endpoint_url or options.requester_pays)
        case ObjectStoreConfig.Gcs(opts):
            return (
                opts is not None and {k.lower(): v.lower() for k, v in opts.items()} == _PUBLIC_GCS
            )
    return False


def _find_problem(container: VirtualChunkContainer) -> str | None:
    name = container.name
    if name is not None and (not name or "/" in name):
        return f"the name {name!r} is empty or has a '/'"
    if not container.url_prefix.endswith("/"):
        return "the prefix does not end in '/'"
    try:
        url = urlsplit(container.url_prefix)
    except ValueError as error:
        return f"the prefix is no URL: {error}"
    return _find_problem_of_url(url, container.store)


def _find_problem_of_url(url: SplitResult, store: AnyObjectStoreConfig) -> str | None:
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*", url.scheme):
        return "the prefix is no URL: it has no scheme"
    if url.scheme not in _SCHEMES.get(type(store), frozenset()):
        return f"the scheme {url.scheme!r} is none of {public_name(store)}"
    if url.scheme == "file":
        return None if url.netloc or url.path.strip("/") else "the prefix has no path"
    return None if url.netloc else "the prefix has no host"


@dataclass(frozen=True, slots=True, repr=False)
class VirtualChunkSpec(Called):
    """Location of one chunk of an array in a source file.

    Parameters
    ----------
    index
        Coordinates of the chunk in the chunk grid.
    location
        URL of the source file; `?`, `#` and `%` in its path are percent-encoded.
    offset, length
        Bytes of the file that are the chunk.
    etag_checksum
        ETag of the file; reads fail if the file has another one.
    last_updated_at_checksum
        Time with a time zone; reads fail if the file was modified after it.
    """

    index: Sequence[int]
    location: str
    offset: int
    length: int
    etag_checksum: str | None = None
    last_updated_at_checksum: datetime | None = None

    def __post_init__(self) -> None:
        moment = self.last_updated_at_checksum
        if moment is not None and moment.tzinfo is None:
            raise InvalidTypeError(
                f"invalid last_updated_at_checksum {moment}: it has no time zone, give one"
            )

    def __hash__(self) -> int:
        return hash((tuple(self.index), self.location, self.offset, self.length))


Containers = Mapping[str, VirtualChunkContainer]
"""Containers by URL prefix, as in a configuration."""

_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*):"
_DOTS = {".": ".", "%2e": ".", "..": "..", ".%2e": "..", "%2e.": "..", "%2e%2e": ".."}
# Characters that are not escaped in the parts of a normalized `file:` URL.
_KEPT_IN_PATH = "%/:@!$&'()*+,;=|^[]~"
_KEPT_IN_QUERY = "%/:@!$&()*+,;=|^[]~{}`?\\"
_KEPT_IN_FRAGMENT = "%/:@!$&'()*+,;=|^[]~{}?#\\"


@dataclass(frozen=True, slots=True)
class Address:
    """Scheme, host and key of a location."""

    scheme: str
    host: str
    """Bucket, Azure container, or host name of a web server."""
    key: str
    """Path without its leading slash, percent-decoded."""


def normalize_location(location: str) -> str:
    """Return a location as references store it; raise InvalidInputError if it is invalid."""
    found = re.match(_SCHEME, location)
    if found is None:
        raise _refuse(location, "it has no scheme")
    scheme, rest = found[1].lower(), location[found.end() :]
    if scheme == "file":
        return _normalize_file(rest)
    if not rest.startswith("//"):
        raise _refuse(location, f"'//' must follow {scheme!r}:")
    host, slash, _ = rest[2:].partition("/")
    if scheme == "vcc" and not (host and slash):
        raise InvalidInputError(
            f"{location!r} has no container name: expected vcc://name/path",
            kind="no-container-for-virtual-chunk",
        )
    if not host:
        raise _refuse(location, "it names no bucket or server")
    return f"{scheme}:{rest}"


@dataclass(frozen=True, slots=True)
class ContainerIndex:
    """Usable containers, indexed for lookups of many locations."""

    named: Mapping[str, VirtualChunkContainer]
    prefixes: Sequence[tuple[str, VirtualChunkContainer]]
    """Comparable prefixes, longest first."""

    def absolute_location(self, location: str) -> str:
        """Return the normalized location, with a container's name replaced by its prefix."""
        return self._absolute(normalize_location(location))

    def _absolute(self, normal: str) -> str:
        if not normal.startswith("vcc://"):
            return normal
        name, _, path = normal.removeprefix("vcc://").partition("/")
        if name in self.named:
            return normalize_location(self.named[name].url_prefix + path)
        raise InvalidInputError(
            f"no virtual chunk container is named {name!r}, which {normal!r} is relative to",
            kind="no-container-for-virtual-chunk",
        )

    def find_container(self, location: str) -> VirtualChunkContainer:
        """Return the container with the longest matching prefix; raise InvalidInputError if none."""
        return self.locate(location)[1]

    def locate(self, location: str) -> tuple[str, VirtualChunkContainer]:
        """Return the absolute location and its container."""
        absolute = self.absolute_location(location)
        container = self._find(absolute)
        if container is not None:
            return absolute, container
        raise InvalidInputError(
            f"invalid chunk location, no matching virtual chunk container: {location!r}, edit the"
            " repository configuration with RepositoryConfig.set_virtual_chunk_container to add one",
            kind="no-container-for-virtual-chunk",
        )

    def has_container(self, normal: str) -> bool:
        """Return whether a container covers a normalized location."""
        try:
            return self._find(self._absolute(normal)) is not None
        except InvalidInputError:
            return False

    def _find(self, absolute: str) -> VirtualChunkContainer | None:
        wanted = _comparable(absolute)
        for prefix, container in self.prefixes:
            if wanted.startswith(prefix):
                return container
        return None


def index_containers(containers: Containers) -> ContainerIndex:
    """Index the usable containers of a configuration."""
    usable = [container for container in containers.values() if is_valid_container(container)]
    prefixes = [
        (_comparable(normalize_location(container.url_prefix)), container) for container in usable
    ]
    return ContainerIndex(
        {container.name: container for container in usable if container.name is not None},
        sorted(prefixes, key=lambda each: -len(each[0])),
    )


def absolute_location(containers: Containers, location: str) -> str:
    """Return `ContainerIndex.absolute_location` of one location."""
    return index_containers(containers).absolute_location(location)


def find_container(containers: Containers, location: str) -> VirtualChunkContainer:
    """Return `ContainerIndex.find_container` of one location."""
    return index_containers(containers).find_container(location)


def parse_address(location: str) -> Address:
    """Parse an absolute, normalized location; raise InvalidInputError for an invalid key.

    Keys with empty segments, `.` or `..` can't be requested, and could escape a folder.
    """
    scheme, _, rest = location.partition("://")
    host, _, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    key = unquote(path, errors="surrogateescape")
    if any(segment in ("", ".", "..") for segment in key.split("/")) or "\0" in key:
        raise _refuse(location, f"no store can be asked for the key {key!r}")
    return Address(scheme, host, key)


def _comparable(location: str) -> str:
    if "/." in location or "%" in location:
        scheme, _, rest = location.partition("://")
        host, slash, path = rest.partition("/")
        location = (
            f"{scheme}://{host}{slash}{unquote(_resolve_dots(path), errors='surrogateescape')}"
        )
    return location


@lru_cache(maxsize=256)
def _normalize_file(rest: str) -> str:
    plain = re.sub(r"[\t\r\n]", "", rest).strip("\0 ")
    plain, hash_sign, fragment = plain.partition("#")
    plain, question_mark, query = plain.partition("?")
    plain = plain.replace("\\", "/")
    host, path = "", plain.removeprefix("/")
    if plain.startswith("//"):
        host, _, path = plain[2:].partition("/")
    host = "" if host.lower() == "localhost" else host.lower()
    if not re.fullmatch(r"[a-z0-9._-]*", host):
        raise _refuse(f"file:{rest}", f"{host!r} is no host")
    # Several leading slashes of a path are equivalent to one.
    path = _escape(_resolve_dots(path).lstrip("/"), _KEPT_IN_PATH)
    query = question_mark + _escape(query, _KEPT_IN_QUERY)
    return f"file://{host}/{path}{query}{hash_sign}{_escape(fragment, _KEPT_IN_FRAGMENT)}"


def _escape(text: str, kept: str) -> str:
    return quote(text, safe=kept, errors="surrogateescape")


def _resolve_dots(path: str) -> str:
    """Resolve `.` and `..` as the URL standard does, percent-encoded ones included."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        match _DOTS.get(segment.lower()):
            case None:
                kept.append(segment)
            case "..":
                del kept[-1:]
    if segments[-1].lower() in _DOTS:
        kept.append("")
    return "/".join(kept)


def _refuse(location: str, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"error parsing virtual ref URL {location!r}: {reason}", kind="invalid-virtual-ref"
    )
