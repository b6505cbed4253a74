"""What can be switched on and off in a repository."""

from collections.abc import Iterator
from dataclasses import dataclass

from frazil.rendering import Item, Listed, field_items


@dataclass(frozen=True, slots=True, repr=False)
class FeatureFlag(Listed):
    """A switch: its default, and what it was set to, if it was."""

    id: int
    name: str
    default_enabled: bool
    setting: bool | None = None

    @property
    def enabled(self) -> bool:
        """What holds."""
        return self.default_enabled if self.setting is None else self.setting

    def shown_items(self) -> Iterator[Item]:
        """The fields, and what holds."""
        yield from field_items(self)
        yield Item("enabled", self.enabled)
