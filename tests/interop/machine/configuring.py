"""Configurations of either library, from the settings of a step."""

from pathlib import Path
from typing import Any

from tests.interop.machine.steps import Settings

CONTAINER = "local"
"""The name of the container whose virtual chunks may be read."""

INLINE_BYTES = 8
"""So few that programs write chunks of both kinds."""


def build_config(
    library: Any, files: Path, settings: Settings | None = None
) -> tuple[Any, dict[str, Any]]:
    """A configuration, and the access to its container."""
    config = library.RepositoryConfig(inline_chunk_threshold_bytes=INLINE_BYTES)
    prefix = f"file://{files}/"
    store = library.storage.local_filesystem_store(str(files))
    config.set_virtual_chunk_container(library.VirtualChunkContainer(prefix, store, name=CONTAINER))
    if settings is not None:
        _apply(library, config, settings)
    return config, {prefix: library.credentials.LocalFileSystemAccess}


def _apply(library: Any, config: Any, settings: Settings) -> None:
    if settings.inline_chunk_threshold_bytes is not None:
        config.inline_chunk_threshold_bytes = settings.inline_chunk_threshold_bytes
    if settings.num_updates_per_repo_info_file is not None:
        config.num_updates_per_repo_info_file = settings.num_updates_per_repo_info_file
    if settings.split:
        sizes = {_dimension(library, which): size for which, size in settings.split}
        anything = library.ManifestSplitCondition.AnyArray()
        splitting = library.ManifestSplittingConfig.from_dict({anything: sizes})
        config.manifest = library.ManifestConfig(splitting=splitting)


def _dimension(library: Any, which: str | int | None) -> Any:
    conditions = library.ManifestSplitDimCondition
    match which:
        case None:
            return conditions.Any()
        case int():
            return conditions.Axis(which)
    return conditions.DimensionName(which)
