"""A storage that a web address leads to."""

import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit, urlunsplit

from obstore.store import ObjectStore

from frazil.credentials import gcs_anonymous_credentials, s3_anonymous_credentials
from frazil.errors import StorageError
from frazil.storage.client import ClientPlan, Headers
from frazil.storage.connections import Connection, GcsConnection, HttpConnection, Traits
from frazil.storage.s3_services import r2_connection, s3_connection, tigris_connection
from frazil.storage.store_config import S3Options
from frazil.version import __version__

_MAX_REDIRECTS = 10
_TIMEOUT_SECONDS = 30.0
_SCHEMES = frozenset(
    ("s3", "gs", "gcs", "r2", "tigris", "http+icechunk", "http+ic", "https+icechunk", "https+ic")
)


@dataclass(frozen=True, slots=True)
class RedirectConnection:
    """Where an address leads, found out when it is first needed."""

    base_url: str
    # Listing fails by itself where the place that is found can't list.
    traits: Traits = field(default_factory=lambda: Traits(is_read_only=True, lists_in_order=False))
    headers: Headers = field(default_factory=Headers)
    silence_seconds: float | None = None

    def describe(self) -> str:
        return f"redirect, {self.base_url.partition('?')[0]}"

    def details(self) -> dict[str, object]:
        return {"type": "redirect", "url": self.base_url.partition("?")[0]}

    def find_secrets(self) -> tuple[str, ...]:
        return (urlsplit(self.base_url).query,)

    def resolve(self) -> Connection:
        return connect(follow(self.base_url))

    def open(self, plan: ClientPlan) -> ObjectStore:
        return self.resolve().open(plan)


def follow(url: str) -> str:
    """The first address on the way that is one of a storage."""
    for _ in range(_MAX_REDIRECTS + 1):
        location = _find_location(url)
        if location is None:
            raise StorageError(f"{url} redirects to no storage", kind="bad-redirect")
        url = urljoin(url, location)
        if urlsplit(url).scheme in _SCHEMES:
            return url
    raise StorageError(f"more than {_MAX_REDIRECTS} redirects, now at {url}", kind="bad-redirect")


def connect(url: str) -> Connection:
    """The connection that an address of a storage means."""
    parts = urlsplit(url)
    bucket, prefix = parts.netloc, parts.path.strip("/")
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    if parts.scheme.startswith("http"):
        scheme = parts.scheme.partition("+")[0]
        return HttpConnection(urlunsplit(parts._replace(scheme=scheme)))
    if not bucket:
        raise StorageError(f"{url} names no bucket", kind="bad-redirect")
    if parts.scheme in ("gs", "gcs"):
        return GcsConnection(bucket, prefix, gcs_anonymous_credentials())
    options = S3Options(region=query.get("region"), anonymous=True)
    credentials, headers = s3_anonymous_credentials(), Headers()
    if parts.scheme == "r2":
        return r2_connection(options, bucket, prefix, query.get("account_id"), credentials, headers)
    if parts.scheme == "tigris":
        return tigris_connection(
            options, bucket, prefix, credentials, headers, is_weakly_consistent=True
        )
    if options.region is None:
        raise StorageError(f"{url} names no region", kind="bad-redirect")
    return s3_connection(options, bucket, prefix, credentials, headers)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    # Followed by hand: the last address is one that no HTTP client understands.
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _find_location(url: str) -> str | None:
    if urlsplit(url).scheme not in ("http", "https"):
        raise StorageError(f"{url} is no web address", kind="bad-redirect")
    request = urllib.request.Request(url, headers={"User-Agent": f"frazil/{__version__}"})
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(request, timeout=_TIMEOUT_SECONDS):
            return None
    except urllib.error.HTTPError as error:
        with error:
            if error.code in (301, 302, 303, 307, 308):
                return error.headers.get("Location")
            problem = f"status {error.code}"
    except OSError as error:
        problem = str(error)
    raise StorageError(f"can't follow {url}: {problem}", kind="bad-redirect")
