"""Credentials for virtual chunks, as users give them."""

import warnings
from collections.abc import Mapping

from frazil.credentials import AnyCredential

_INSTEAD = {
    "s3": "frazil.s3_from_env_credentials()",
    "tigris": "frazil.s3_from_env_credentials()",
    "gs": "frazil.credentials.gcs_anonymous_credentials()",
    "gcs": "frazil.credentials.gcs_anonymous_credentials()",
    "az": "frazil.azure_from_env_credentials()",
    "azure": "frazil.azure_from_env_credentials()",
    "abfs": "frazil.azure_from_env_credentials()",
    "file": "frazil.credentials.LocalFileSystemAccess",
    "http": "frazil.credentials.HttpAccess",
    "https": "frazil.credentials.HttpAccess",
}


def warn_of_none(authorizations: Mapping[str, AnyCredential | None] | None) -> None:
    """Warn of containers with None for credentials, which may use what the environment has."""
    for prefix, credential in (authorizations or {}).items():
        if credential is None:
            instead = _INSTEAD.get(prefix.partition("://")[0], "a credential")
            warnings.warn(
                f"None as the credentials of {prefix!r} is deprecated, because it may take them from"
                f" the environment; say authorize_virtual_chunk_access={{{prefix!r}: {instead}}}",
                DeprecationWarning,
                stacklevel=3,
            )
