"""Folders of links that stand for an installation, with a part of it exchanged: they cost no space."""

import os
from collections.abc import Mapping
from pathlib import Path


def find_overlay(kind: str, installed: Path, environment: Mapping[str, str]) -> Path:
    """Where in the user's cache the folder is that stands for an installation."""
    base = environment.get("XDG_CACHE_HOME")
    cache = (Path(base) if base else Path.home() / ".cache") / "frazil"
    return cache / (kind + str(installed.resolve()).replace(os.sep, "-")[-200:])


def link_all(installed: Path, folder: Path, *, but: str) -> None:
    """Link to all that an installation has, but for one part."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in installed.iterdir():
        if each.name != but:
            link(folder / each.name, each)


def link(place: Path, target: Path) -> None:
    """A link to a target, unless there is one."""
    if place.exists():
        return
    # Beside its place and then moved, because another process may be doing the same.
    building = place.with_name(f"{place.name}-{os.getpid()}")
    building.symlink_to(target)
    building.replace(place)
