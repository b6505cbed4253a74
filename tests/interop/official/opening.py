"""Repositories of the official library, from the plain values that requests carry."""

from typing import Any

import icechunk
from icechunk.credentials import LocalFileSystemAccess


def open_repository(path: str, containers: list[dict[str, Any]]) -> icechunk.Repository:
    """Open a repository on the local disk; containers are directories that it may read from.

    Without containers those of its saved configuration count, and none of them may be read.
    """
    storage = icechunk.local_filesystem_storage(path)
    config = icechunk.RepositoryConfig()
    for container in containers:
        config.set_virtual_chunk_container(
            icechunk.VirtualChunkContainer(
                container["url_prefix"],
                icechunk.storage.local_filesystem_store(container["path"]),
                name=container["name"],
            )
        )
    access: Any = {each["url_prefix"]: LocalFileSystemAccess for each in containers}
    return icechunk.Repository.open(storage, config, access)
