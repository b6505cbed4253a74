"""What virtual chunks may be read with: credentials for each container."""

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.credentials.azure import AnyAzureCredential, AzureCredentials
from frazil.credentials.gcs import AnyGcsCredential, GcsCredentials
from frazil.credentials.s3 import AnyS3Credential, S3Credentials


class Credentials:
    """Credentials with the kind of store they are for."""

    @dataclass(frozen=True, slots=True)
    class S3:
        """For S3 and what speaks like it."""

        credentials: AnyS3Credential

    @dataclass(frozen=True, slots=True)
    class Gcs:
        """For Google Cloud Storage."""

        credentials: AnyGcsCredential

    @dataclass(frozen=True, slots=True)
    class Azure:
        """For Azure Blob Storage."""

        credentials: AnyAzureCredential

    @dataclass(frozen=True, slots=True)
    class LocalFileSystemAccess:
        """Leave to read files, which takes no credentials."""

    @dataclass(frozen=True, slots=True)
    class HttpAccess:
        """Leave to read from web servers, which takes no credentials."""


AnyCredential = (
    Credentials.S3
    | Credentials.Gcs
    | Credentials.Azure
    | Credentials.LocalFileSystemAccess
    | Credentials.HttpAccess
)

LocalFileSystemAccess = Credentials.LocalFileSystemAccess()
"""Leave to read a container of files."""

HttpAccess = Credentials.HttpAccess()
"""Leave to read a container on a web server."""

_S3 = (
    S3Credentials.FromEnv,
    S3Credentials.Anonymous,
    S3Credentials.Static,
    S3Credentials.Refreshable,
)
_GCS = (
    GcsCredentials.FromEnv,
    GcsCredentials.Anonymous,
    GcsCredentials.Static,
    GcsCredentials.Refreshable,
)
_AZURE = (
    AzureCredentials.FromEnv,
    AzureCredentials.Anonymous,
    AzureCredentials.Static,
    AzureCredentials.Refreshable,
)


def containers_credentials(
    m: Mapping[
        str,
        AnyS3Credential
        | AnyGcsCredential
        | AnyAzureCredential
        | Credentials.LocalFileSystemAccess
        | Credentials.HttpAccess
        | None,
    ],
) -> dict[str, AnyCredential | None]:
    """Credentials by the URL prefix of the container that they are for.

    Containers that need none take `LocalFileSystemAccess` or `HttpAccess`; None is accepted still.
    Raises ValueError for what is no credential.
    """
    return {prefix: _wrap(credential) for prefix, credential in m.items()}


def _wrap(credential: object) -> AnyCredential | None:
    if credential is None:
        return None
    if isinstance(credential, Credentials.LocalFileSystemAccess | Credentials.HttpAccess):
        return credential
    if isinstance(credential, _S3):
        return Credentials.S3(credential)
    if isinstance(credential, _GCS):
        return Credentials.Gcs(credential)
    if isinstance(credential, _AZURE):
        return Credentials.Azure(credential)
    raise ValueError(f"Unknown credential type {type(credential)}")
