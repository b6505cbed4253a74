"""Connections to S3-compatible services, and redirects."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urljoin, urlsplit, urlunsplit

from obstore.store import ObjectStore

from frazil import __version__
from frazil.credentials import AnyS3Credential, gcs_anonymous_credentials, s3_anonymous_credentials
from frazil.errors import InvalidInputError, StorageError
from frazil.lazy import dataclass, lazy_modules
from frazil.storage.connections import (
    ClientPlan,
    Connection,
    GcsConnection,
    Headers,
    HttpConnection,
    S3Connection,
    Traits,
    normalize_prefix,
    require_name,
)
from frazil.storage.interface import StorageSettings
from frazil.storage.store_config import S3Options

if TYPE_CHECKING:
    from urllib import error as http_errors
    from urllib import request as http
else:
    http_errors, http = lazy_modules("urllib.error", "urllib.request")  # for redirects

_TIGRIS_HOSTS = ("fly.storage.tigris.dev", "t3.storage.dev")


def s3_connection(
    options: S3Options,
    bucket: str,
    prefix: str | None,
    credentials: AnyS3Credential,
    headers: Headers,
) -> S3Connection:
    """Return a connection to S3 or to an S3-compatible server."""
    if any(host in (options.endpoint_url or "") for host in _TIGRIS_HOSTS):
        # Without its own headers Tigris serves the nearest copy, not the newest.
        raise StorageError(
            "Tigris has a constructor of its own: use tigris_storage", kind="storage-config"
        )
    return S3Connection(bucket, normalize_prefix(prefix), replace(options), credentials, headers)


def tigris_connection(
    options: S3Options,
    bucket: str,
    prefix: str | None,
    credentials: AnyS3Credential,
    headers: Headers,
    *,
    is_weakly_consistent: bool,
) -> S3Connection:
    """Return a connection to Tigris in one region, for consistency; read-only if weakly consistent."""
    options = replace(options, endpoint_url=options.endpoint_url or "https://t3.storage.dev")
    if not is_weakly_consistent:
        if options.region is None:
            raise StorageError(
                "Tigris needs a region to be consistent; without one it can only be read, with "
                "use_weak_consistency=True",
                kind="storage-config",
            )
        required = {"X-Tigris-Regions": options.region, "X-Tigris-Consistent": "true"}
        headers = Headers(
            _require(headers.read, {**required, "Cache-Control": "no-cache"}),
            _require(headers.write, required),
        )
    return S3Connection(
        bucket, normalize_prefix(prefix), options, credentials, headers, "Tigris",
        Traits(is_read_only=is_weakly_consistent),
    )  # fmt: skip


def r2_connection(
    options: S3Options,
    bucket: str | None,
    prefix: str | None,
    account_id: str | None,
    credentials: AnyS3Credential,
    headers: Headers,
) -> S3Connection:
    """Return a connection to Cloudflare R2."""
    place = normalize_prefix(prefix)
    if bucket is None:
        bucket, _, place = place.partition("/")
    if not bucket:
        raise InvalidInputError("either bucket or prefix must be given", kind="storage-config")
    if options.endpoint_url is None and account_id is None:
        raise InvalidInputError("endpoint_url or account_id must be given", kind="storage-config")
    if account_id is not None:
        require_name("account", account_id)
    options = replace(
        options,
        region=options.region or "auto",
        endpoint_url=options.endpoint_url or f"https://{account_id}.r2.cloudflarestorage.com",
        force_path_style=True,
    )
    return S3Connection(bucket, place, options, credentials, headers, "R2")


def hf_connection(
    options: S3Options,
    bucket: str,
    prefix: str | None,
    namespace: str,
    credentials: AnyS3Credential,
    headers: Headers,
) -> S3Connection:
    """Return a connection to a Hugging Face bucket behind its S3 gateway."""
    require_name("namespace", namespace)
    options = replace(
        options,
        region="us-east-1",
        endpoint_url=f"https://s3.hf.co/{namespace}",
        force_path_style=True,
    )
    traits = Traits(settings=StorageSettings(unsafe_use_metadata=False))
    place = normalize_prefix(prefix)
    return S3Connection(bucket, place, options, credentials, headers, "Hugging Face", traits)


def refuse_rooted_keys(legacy_rooted_keys: bool | None) -> None:
    """Raise InvalidInputError for the key layout of old clients, with a leading slash."""
    if legacy_rooted_keys:
        raise InvalidInputError(
            "keys that begin with a slash, as old clients wrote at an empty prefix, can't be asked"
            " for: copy the objects to a prefix",
            kind="storage-config",
        )


def _require(given: Mapping[str, str], required: Mapping[str, str]) -> dict[str, str]:
    names = {name.lower() for name in required}
    kept = {name: value for name, value in given.items() if name.lower() not in names}
    return {**kept, **required}


_MAX_REDIRECTS = 10
_TIMEOUT_SECONDS = 30.0
_SCHEMES = frozenset(
    ("s3", "gs", "gcs", "r2", "tigris", "http+icechunk", "http+ic", "https+icechunk", "https+ic")
)


@dataclass(frozen=True, slots=True)
class RedirectConnection:
    """HTTP redirect to a storage, resolved on first use."""

    base_url: str
    # Listing fails at the target if it does not support it.
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
    """Follow redirects to the first URL of a storage, and return it."""
    for _ in range(_MAX_REDIRECTS + 1):
        location = _find_location(url)
        if location is None:
            raise StorageError(f"{url} does not redirect to a storage", kind="bad-redirect")
        url = urljoin(url, location)
        if urlsplit(url).scheme in _SCHEMES:
            return url
    raise StorageError(f"more than {_MAX_REDIRECTS} redirects, now at {url}", kind="bad-redirect")


def connect(url: str) -> Connection:
    """Return the connection for the URL of a storage."""
    parts = urlsplit(url)
    bucket, prefix = parts.netloc, parts.path.strip("/")
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    if parts.scheme.startswith("http"):
        scheme = parts.scheme.partition("+")[0]
        return HttpConnection(urlunsplit(parts._replace(scheme=scheme)))
    if not bucket:
        raise StorageError(f"{url} has no bucket", kind="bad-redirect")
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
        raise StorageError(f"{url} has no region", kind="bad-redirect")
    return s3_connection(options, bucket, prefix, credentials, headers)


def _find_location(url: str) -> str | None:
    if urlsplit(url).scheme not in ("http", "https"):
        raise StorageError(f"{url} is no web address", kind="bad-redirect")
    request = http.Request(url, headers={"User-Agent": f"frazil/{__version__}"})
    # Redirects are followed by hand: HTTP clients do not know the scheme of the last URL.
    stay = type("NoRedirects", (http.HTTPRedirectHandler,), {"redirect_request": lambda *_: None})
    opener = http.build_opener(stay)
    try:
        with opener.open(request, timeout=_TIMEOUT_SECONDS):
            return None
    except http_errors.HTTPError as error:
        with error:
            if error.code in (301, 302, 303, 307, 308):
                return error.headers.get("Location")
            problem = f"status {error.code}"
    except OSError as error:
        problem = str(error)
    raise StorageError(f"can't follow {url}: {problem}", kind="bad-redirect")
