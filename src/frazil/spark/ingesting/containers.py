"""Which containers the configuration of a repository lacks for some sources."""

from collections.abc import Iterable, Mapping, Sequence
from posixpath import commonpath

from frazil.errors import InvalidInputError
from frazil.storage.store_config import AnyObjectStoreConfig, ObjectStoreConfig, S3Options
from frazil.virtual import VirtualChunkContainer
from frazil.virtual.locations import index_containers

_PLAIN_STORES: Mapping[str, AnyObjectStoreConfig] = {
    "file": ObjectStoreConfig.LocalFileSystem("/"),
    "s3": ObjectStoreConfig.S3(S3Options()),
    "gs": ObjectStoreConfig.Gcs({}),
    "gcs": ObjectStoreConfig.Gcs({}),
    "http": ObjectStoreConfig.Http({}),
    "https": ObjectStoreConfig.Http({}),
}


def common_folders(locations: Iterable[str]) -> tuple[str, ...]:
    """The smallest folders that hold all locations, one for each store."""
    folders: dict[str, list[str]] = {}
    for location in locations:
        scheme, _, rest = location.partition("://")
        host, _, key = rest.partition("/")
        folders.setdefault(f"{scheme}://{host}", []).append("/" + key.rpartition("/")[0])
    return tuple(
        f"{store}{commonpath(paths).rstrip('/')}/" for store, paths in sorted(folders.items())
    )


def plan_containers(
    folders: Sequence[str],
    existing: Mapping[str, VirtualChunkContainer],
    given: Sequence[VirtualChunkContainer],
) -> tuple[VirtualChunkContainer, ...]:
    """Containers for folders that none of the existing ones holds: the given ones, or plain ones."""
    present = index_containers(existing)
    offered = index_containers({each.url_prefix: each for each in given})
    missing = [folder for folder in folders if not present.has_container(folder)]
    chosen: dict[str, VirtualChunkContainer] = {}
    for folder in missing:
        if offered.has_container(folder):
            container = offered.find_container(folder)
        else:
            container = VirtualChunkContainer(folder, _plain_store(folder))
        chosen[container.url_prefix] = container
    return tuple(chosen.values())


def _plain_store(folder: str) -> AnyObjectStoreConfig:
    scheme = folder.partition("://")[0]
    if scheme not in _PLAIN_STORES:
        raise InvalidInputError(
            f"nothing is known of the store of {folder}: give a container for it with containers=",
            kind="no-container-for-virtual-chunk",
        )
    return _PLAIN_STORES[scheme]
