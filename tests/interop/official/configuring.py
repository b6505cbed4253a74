"""Configurations, made by the expressions that make ours."""

from typing import Any

import icechunk
from icechunk import _icechunk_python


def write_config(path: str, spec_version: int, expression: str) -> None:
    """Create a repository on the local disk, and save the configuration of an expression in it."""
    storage = icechunk.local_filesystem_storage(path)
    config = _make(expression)
    icechunk.Repository.create(storage, config, spec_version=spec_version).save_config()


def compare_config(path: str, expression: str) -> list[list[str]]:
    """The saved configuration of a repository, and that of an expression, as texts."""
    storage = icechunk.local_filesystem_storage(path)
    return [_describe(icechunk.Repository.fetch_config(storage)), _describe(_make(expression))]


def _describe(config: Any) -> list[str]:
    """Containers, which come in any order, and the rest."""
    containers = (config.virtual_chunk_containers or {}).items()
    texts = sorted(f"{prefix}: {container!r}" for prefix, container in containers)
    config.clear_virtual_chunk_containers()
    return [*texts, repr(config)]


def _make(expression: str) -> Any:
    # The one class of configurations that the official library keeps to itself.
    vars(icechunk.config)["RepoUpdateRetryConfig"] = _icechunk_python.RepoUpdateRetryConfig
    return eval(expression, {"frazil": icechunk})
