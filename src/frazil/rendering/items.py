"""What a value has to show: its public name, and its fields as items."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any


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
    """The fields of a dataclass, with what holds where they are None."""
    for field in fields(value):
        found, default = getattr(value, field.name), field.metadata.get("effective")
        is_default = found is None and default is not None
        yield Item(field.name, default if is_default else found, is_default)


def public_name(value: object) -> str:
    """Where users find a value's type: the module of `frazil` that it is in, however deep."""
    module = ".".join(type(value).__module__.split(".")[:2])
    return f"{module}.{type(value).__qualname__}"
