"""The configuration that an ingest needs, added where it is missing, and saved with the repository."""

from collections.abc import Sequence

from frazil.config import RepositoryConfig
from frazil.config.split_conditions import SplitSizes
from frazil.repository import Repository
from frazil.spark.arrays.splitting import add_rules
from frazil.virtual import VirtualChunkContainer
from frazil.virtual.default_credentials import default_credential
from frazil.virtual.locations import index_containers
from frazil.virtual.readers.stores import Credentials


def current_config(repository: Repository) -> RepositoryConfig:
    """What was saved with the repository up to now, under what it was opened with."""
    saved = Repository.fetch_config(repository.storage)
    return repository.config if saved is None else saved.merge(repository.config)


def add_to(
    config: RepositoryConfig, containers: Sequence[VirtualChunkContainer], rules: SplitSizes
) -> RepositoryConfig:
    """A configuration with the containers and, behind its own, the rules that it lacks."""
    added = add_rules(config, rules)
    for container in containers:
        if container.url_prefix not in (added.virtual_chunk_containers or {}):
            added.set_virtual_chunk_container(container)
    return added


def configure(
    repository: Repository,
    config: RepositoryConfig,
    folders: Sequence[str],
    credentials: Credentials,
) -> Repository:
    """The repository with a configuration, and with leave to read what is in some folders."""
    index = index_containers(config.virtual_chunk_containers or {})
    needed = {each.url_prefix: each for each in map(index.find_container, folders)}
    access = {
        prefix: credentials.get(prefix) or default_credential(container)
        for prefix, container in needed.items()
        if prefix not in repository.authorized_virtual_container_prefixes
    }
    return repository.reopen(config).authorize(access)


def save(
    repository: Repository, containers: Sequence[VirtualChunkContainer], rules: SplitSizes
) -> None:
    """Save what is added, and nothing else of what this repository was opened with."""
    saved = Repository.open(repository.storage)
    wanted = add_to(saved.config, containers, rules)
    if wanted != saved.config:
        saved.reopen(wanted).save_config()
