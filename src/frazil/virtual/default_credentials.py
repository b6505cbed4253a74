"""What authorizes a container where the caller gives nothing."""

from frazil.credentials import (
    AnyCredential,
    Credentials,
    HttpAccess,
    LocalFileSystemAccess,
    azure_from_env_credentials,
    gcs_from_env_credentials,
    s3_from_env_credentials,
)
from frazil.storage.store_config import ObjectStoreConfig
from frazil.virtual.containers import VirtualChunkContainer


def default_credential(container: VirtualChunkContainer) -> AnyCredential:
    """What the environment knows, of the kind that the store of a container takes."""
    match container.store:
        case ObjectStoreConfig.LocalFileSystem():
            return LocalFileSystemAccess
        case ObjectStoreConfig.Http():
            return HttpAccess
        case ObjectStoreConfig.Gcs():
            return Credentials.Gcs(gcs_from_env_credentials())
        case ObjectStoreConfig.Azure():
            return Credentials.Azure(azure_from_env_credentials())
    return Credentials.S3(s3_from_env_credentials())
