"""Storages on the test servers, as users would make them."""

import time

from frazil.errors import StorageError
from frazil.storage import (
    Storage,
    StorageRetriesSettings,
    StorageSettings,
    azure_storage,
    gcs_storage,
    s3_storage,
)
from frazil.storage.object_store import ObjectStorage

ACCESS_KEY, SECRET_KEY = "access-key", "secret-key"
QUICK = StorageSettings(retries=StorageRetriesSettings(initial_backoff_ms=1, max_backoff_ms=50))
"""Pauses that fit a server that fails on purpose."""


def make_s3(
    url: str,
    *,
    bucket: str = "bucket",
    prefix: str = "folder/repository",
    settings: StorageSettings = QUICK,
    key: str = ACCESS_KEY,
    secret: str = SECRET_KEY,
) -> ObjectStorage:
    """A storage on an S3 server of the loopback interface."""
    storage = s3_storage(
        bucket=bucket,
        prefix=prefix,
        region="us-east-1",
        endpoint_url=url,
        allow_http=True,
        force_path_style=True,
        access_key_id=key,
        secret_access_key=secret,
    )
    return _with(storage, settings)


def make_gcs(
    url: str, *, prefix: str = "folder/repository", settings: StorageSettings = QUICK
) -> ObjectStorage:
    """A storage on a server of Google's dialect."""
    storage = gcs_storage(
        bucket="bucket",
        prefix=prefix,
        bearer_token="bearer-token",
        config={"base_url": url, "allow_http": "true"},
    )
    return _with(storage, settings)


def _with(storage: Storage, settings: StorageSettings) -> ObjectStorage:
    assert isinstance(storage, ObjectStorage)
    return storage.with_settings(settings)


AZURE_ACCOUNT = "devstoreaccount1"
# Azurite's own account and key, the same everywhere and written in its documentation.
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


def make_azure(
    url: str,
    *,
    container: str,
    prefix: str = "folder/repository",
    settings: StorageSettings = QUICK,
) -> ObjectStorage:
    """A storage on Azurite."""
    storage = azure_storage(
        account=AZURE_ACCOUNT,
        container=container,
        prefix=prefix,
        access_key=AZURE_KEY,
        config={"endpoint": f"{url}/{AZURE_ACCOUNT}", "allow_http": "true"},
    )
    return _with(storage, settings)


def wait_until_writable(storage: Storage, timeout_seconds: float = 60.0) -> None:
    """Servers listen before their buckets and users are there."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            storage.put("ready", b"")
            storage.delete_many(["ready"])
            return
        except StorageError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
