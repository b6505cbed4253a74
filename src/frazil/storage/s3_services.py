"""Services that speak like S3, and what each wants to be told."""

from collections.abc import Mapping
from dataclasses import replace

from frazil.credentials import AnyS3Credential
from frazil.errors import InvalidInputError, StorageError
from frazil.storage.client import Headers
from frazil.storage.connections import S3Connection, Traits, normalize_prefix, require_name
from frazil.storage.settings import StorageSettings
from frazil.storage.store_config import S3Options

_TIGRIS_HOSTS = ("fly.storage.tigris.dev", "t3.storage.dev")


def s3_connection(
    options: S3Options,
    bucket: str,
    prefix: str | None,
    credentials: AnyS3Credential,
    headers: Headers,
) -> S3Connection:
    """S3 itself, or a server of one's own."""
    if any(host in (options.endpoint_url or "") for host in _TIGRIS_HOSTS):
        # Without its own headers Tigris reads and writes what is near, not what is newest.
        raise StorageError("Tigris has a constructor of its own", kind="storage-config")
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
    """Tigris, asked in one region so that all see the same; weakly consistent, it is only read."""
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
    """R2 of Cloudflare."""
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
    """A bucket of Hugging Face, behind its gateway."""
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
    """Raise InvalidInputError for the layout of old clients, keys that begin with a slash."""
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
