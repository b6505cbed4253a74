"""What a value has to show: its public name, and its fields as items."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from frazil.install import package_name


@dataclass(frozen=True, slots=True)
class Item:
    """One line, or block, of what is shown."""

    name: str
    value: object
    is_default: bool = False
    """Whether nothing is set, and the value is what holds therefore."""


class Shown:
    """A value with something to show."""

    __slots__ = ()

    def shown_title(self) -> str:
        """Return the first line."""
        return public_name(self)

    @abstractmethod
    def shown_items(self) -> Iterator[Item]:
        """What is shown, in this order."""


def effective(default: object) -> dict[str, object]:
    """Metadata of a field: what holds as long as it is None."""
    return {"effective": default}


def effective_value(value: Any, name: str) -> Any:
    """A field of a dataclass, or what holds as long as it is None."""
    found = getattr(value, name)
    if found is not None:
        return found
    return next(each for each in fields(value) if each.name == name).metadata["effective"]


def field_items(value: Any) -> Iterator[Item]:
    """The fields of a dataclass that are shown, with what holds where they are None."""
    for field in fields(value):
        if not field.repr:
            continue
        found, default = getattr(value, field.name), field.metadata.get("effective")
        is_default = found is None and default is not None
        yield Item(field.name, default if is_default else found, is_default)


# Types that the official library shows as part of another module than the one they are in here.
_OFFICIAL_NAMES = {
    "repository.Repository": "Repository",
    "states.ChunkStorageStats": "stats.ChunkStorageStats",
    "states.RepoStatus": "repository.RepoStatus",
    "storage.ObjectStoreConfig": "config.ObjectStoreConfig",
    "store.IcechunkStore": "IcechunkStore",
}


def public_name(value: object) -> str:
    """Return the name that users know a value's type by: that of the public module it is in."""
    package, *modules = type(value).__module__.split(".")[:2]
    name = ".".join([*modules, type(value).__qualname__])
    if package != "frazil":
        return f"{package}.{name}"
    for ours, theirs in _OFFICIAL_NAMES.items():
        if name == ours or name.startswith(f"{ours}."):
            name = theirs + name.removeprefix(ours)
    return f"{package_name()}.{name}"
