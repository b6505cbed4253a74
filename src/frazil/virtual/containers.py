"""Where virtual chunks may live: URL prefixes, with the store that serves each.

As in the official library a container is checked when it is put into a configuration or used, not when
it is made: its fields can be changed, and configurations of old repositories hold some that never pass.
"""

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from frazil.errors import InvalidInputError
from frazil.rendering import Rendered, public_name
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
    """Leave to refer to objects below a URL prefix, and how to reach them.

    With a name, references can be relative to it: `vcc://name/path`.
    """

    url_prefix: str
    store: AnyObjectStoreConfig
    name: str | None = None


def validate_container(container: VirtualChunkContainer) -> VirtualChunkContainer:
    """The container itself, if it can be used; raises InvalidInputError where it can't."""
    problem = _find_problem(container)
    if problem is not None:
        message = f"virtual chunk container {container.url_prefix!r}: {problem}"
        raise InvalidInputError(message, kind="bad-prefix")
    return container


def is_valid_container(container: VirtualChunkContainer) -> bool:
    """Whether `validate_container` lets it pass."""
    return _find_problem(container) is None


def is_public(container: VirtualChunkContainer) -> bool:
    """Whether reading it needs nobody's leave.

    It does not where a cloud's own servers are asked without credentials: that tells nobody anything,
    and reaches nothing that is not everybody's. Other servers may be such as only this machine reaches.
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
