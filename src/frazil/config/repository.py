"""The configuration of a repository, as users write it: None where they leave the choice."""

import os
from dataclasses import dataclass, field, replace

from frazil.config.manifests import ManifestConfig
from frazil.config.parts import CachingConfig, CompressionConfig, RepoUpdateRetryConfig
from frazil.rendering import Rendered, effective
from frazil.storage.settings import StorageSettings, merge_settings
from frazil.virtual.containers import VirtualChunkContainer, validate_container


@dataclass(slots=True, repr=False)
class RepositoryConfig(Rendered):
    """Everything that can be set about a repository; it can be saved in it."""

    inline_chunk_threshold_bytes: int | None = field(default=None, metadata=effective(512))
    """Chunks up to this size are kept in the manifest."""
    get_partial_values_concurrency: int | None = field(default=None, metadata=effective(10))
    compression: CompressionConfig | None = field(
        default=None, metadata=effective(CompressionConfig())
    )
    max_concurrent_requests: int | None = field(default=None, metadata=effective(256))
    caching: CachingConfig | None = field(default=None, metadata=effective(CachingConfig()))
    storage: StorageSettings | None = None
    virtual_chunk_containers: dict[str, VirtualChunkContainer] | None = None
    """By URL prefix."""
    manifest: ManifestConfig | None = field(default=None, metadata=effective(ManifestConfig()))
    repo_update_retries: RepoUpdateRetryConfig | None = field(
        default=None, metadata=effective(RepoUpdateRetryConfig())
    )
    num_updates_per_repo_info_file: int | None = field(default=None, metadata=effective(1000))
    max_concurrent_decodes: int | None = field(
        default=None, metadata=effective(os.cpu_count() or 1)
    )
    _previous_file: str | None = field(default=None, init=False, repr=False)

    @property
    def previous_file(self) -> str | None:
        """What a saved configuration says under this name; merging and saving keep it.

        It can't be set: nothing uses it, in the official library either.
        """
        return self._previous_file

    @staticmethod
    def default() -> "RepositoryConfig":
        """One that sets nothing."""
        return RepositoryConfig()

    def merge(self, other: "RepositoryConfig") -> "RepositoryConfig":
        """A configuration in which `other` wins wherever it says something.

        Containers, and the rules for fetching and splitting manifests, are taken as a whole. Raises
        InvalidInputError if a container of `other` can't be used.
        """
        for container in (other.virtual_chunk_containers or {}).values():
            validate_container(container)
        return merge_configs(self, other)

    def get_virtual_chunk_container(self, name: str) -> VirtualChunkContainer | None:
        """The container of this URL prefix, or else of this name."""
        containers = self.virtual_chunk_containers or {}
        named = (each for each in containers.values() if each.name == name)
        return containers.get(name) or next(named, None)

    def set_virtual_chunk_container(self, cont: VirtualChunkContainer) -> None:
        """Add a container, in place of those with its prefix or name.

        Raises InvalidInputError, a ValueError, if it can't be used.
        """
        validate_container(cont)
        kept = {
            prefix: each
            for prefix, each in (self.virtual_chunk_containers or {}).items()
            if each.name is None or each.name != cont.name
        }
        self.virtual_chunk_containers = kept | {cont.url_prefix: replace(cont)}

    def clear_virtual_chunk_containers(self) -> None:
        """Remove all containers, so that merging this configuration removes them, too."""
        self.virtual_chunk_containers = {}


def merge_configs(below: RepositoryConfig, above: RepositoryConfig) -> RepositoryConfig:
    """What `above` sets, and elsewhere what `below` does; containers are not checked."""
    return merge_settings(below, above, whole=_WHOLE)


# Parts of two rules make no rule.
_WHOLE = frozenset(("preload", "splitting", "virtual_chunk_containers"))
