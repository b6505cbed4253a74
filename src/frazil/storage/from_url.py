"""The storage that a URL of a repository means.

What the URL does not say comes from the environment, credentials above all.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from frazil.errors import InvalidInputError
from frazil.storage.constructors import (
    azure_storage,
    gcs_storage,
    http_storage,
    local_filesystem_storage,
)
from frazil.storage.interface import Storage
from frazil.storage.memory import MemoryStorage
from frazil.storage.s3_constructors import s3_storage
from frazil.urls import SWITCHES, Location, RepositoryUrl, Scheme, parse_location


def storage_from_url(url: Location, **options: Any) -> Storage:
    """The storage at a URL, whatever version it names.

    `options` are arguments of the function that makes such a storage (`s3_storage` and so on), and win
    over those in the URL; credentials can be given here, and come from the environment otherwise.
    """
    parsed = parse_location(url)
    said: dict[str, Any] = {name: _decode(name, value) for name, value in parsed.options}
    try:
        return _MAKERS[parsed.scheme](parsed, said | options)
    except TypeError as error:
        raise InvalidInputError(f"options of {parsed.scheme}: {error}") from error


def _decode(name: str, value: str) -> str | bool:
    return value == "true" if name in SWITCHES else value


def _make_local(url: RepositoryUrl, options: dict[str, Any]) -> Storage:
    return local_filesystem_storage(url.path, **options)


def _make_s3(url: RepositoryUrl, options: dict[str, Any]) -> Storage:
    return s3_storage(bucket=url.host, prefix=url.path or None, **options)


def _make_gcs(url: RepositoryUrl, options: dict[str, Any]) -> Storage:
    config = _take_config(options, "base_url")
    return gcs_storage(bucket=url.host, prefix=url.path or None, config=config, **options)


def _make_azure(url: RepositoryUrl, options: dict[str, Any]) -> Storage:
    if "account" not in options:
        raise InvalidInputError(
            f"the account is missing, as in az://{url.host}/{url.path}?account=name"
        )
    config = _take_config(options, "endpoint")
    return azure_storage(container=url.host, prefix=url.path, config=config, **options)


def _take_config(options: dict[str, Any], endpoint: str) -> dict[str, str]:
    """What obstore knows by names of its own, taken out of the options."""
    config: dict[str, str] = dict(options.pop("config", None) or {})
    if "endpoint_url" in options:
        config[endpoint] = options.pop("endpoint_url")
    if "allow_http" in options:
        config["allow_http"] = "true" if options.pop("allow_http") else "false"
    return config


def _make_http(url: RepositoryUrl, options: dict[str, Any]) -> Storage:
    path = quote(url.path, safe="/:@!$&'()*+,;=~")
    return http_storage(f"{url.scheme}://{url.host}/{path}", **options)


def _make_memory(url: RepositoryUrl, options: dict[str, Any]) -> Storage:
    if options:
        raise InvalidInputError(f"a storage in memory has no options, such as {min(options)!r}")
    name = f"{url.host}/{url.path}"
    with _SHARED_LOCK:
        return _SHARED.setdefault(name, MemoryStorage())


_MAKERS: Mapping[Scheme, Callable[[RepositoryUrl, dict[str, Any]], Storage]] = {
    "file": _make_local,
    "s3": _make_s3,
    "gs": _make_gcs,
    "az": _make_azure,
    "http": _make_http,
    "https": _make_http,
    "memory": _make_memory,
}

_SHARED: dict[str, MemoryStorage] = {}
"""Storages in memory by name, kept until the process ends."""
_SHARED_LOCK = threading.Lock()
