"""The configuration that an ingest needs, added where it is missing, and saved with the repository."""

from collections.abc import Mapping, Sequence
from copy import deepcopy

from frazil.config import ManifestConfig, ManifestSplittingConfig, RepositoryConfig
from frazil.config.split_conditions import SplitSizes
from frazil.credentials import AnyCredential
from frazil.repository import Repository
from frazil.spark.ingesting.containers import default_credential
from frazil.virtual import VirtualChunkContainer


def configured_rules(config: RepositoryConfig) -> SplitSizes | None:
    """The rules for splitting that somebody has set."""
    splitting = config.manifest.splitting if config.manifest is not None else None
    return splitting.split_sizes if splitting is not None else None


def add_to(
    config: RepositoryConfig, containers: Sequence[VirtualChunkContainer], rules: SplitSizes
) -> RepositoryConfig:
    """A configuration with more containers, and more rules behind those that it has."""
    added = deepcopy(config)
    for container in containers:
        added.set_virtual_chunk_container(container)
    before = configured_rules(config) or ()
    new = tuple(rule for rule in rules if rule not in before)
    if new:
        added.manifest = added.manifest or ManifestConfig()
        added.manifest.splitting = ManifestSplittingConfig((*before, *new))
    return added


def configure(
    repository: Repository,
    containers: Sequence[VirtualChunkContainer],
    rules: SplitSizes,
    credentials: Mapping[str, AnyCredential | None],
) -> Repository:
    """The repository with what it lacks, allowed to read the new containers."""
    if not containers and not rules:
        return repository
    known = repository.authorized_virtual_container_prefixes
    access = {
        each.url_prefix: credentials.get(each.url_prefix) or default_credential(each)
        for each in containers
        if each.url_prefix not in known
    }
    return repository.reopen(add_to(repository.config, containers, rules)).authorize(access)


def save(
    repository: Repository, containers: Sequence[VirtualChunkContainer], rules: SplitSizes
) -> None:
    """Save what is added, and nothing else of what this repository was opened with."""
    if containers or rules:
        saved = Repository.open(repository.storage)
        saved.reopen(add_to(saved.config, containers, rules)).save_config()
