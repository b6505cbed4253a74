"""Where links lead to: other pages of a site, or other parts of a report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from frazil.web.html import address, tag


class Links(Protocol):
    """Addresses; None where there is nothing to lead to."""

    def to_version(self, ref: str) -> str | None:
        """The nodes of a version."""

    def to_array(self, ref: str, path: str) -> str | None:
        """An array."""

    def to_changes(self, old: str, new: str) -> str | None:
        """What changed between two versions."""


class SiteLinks:
    """Every page is there."""

    def to_version(self, ref: str) -> str:
        """The nodes of a version."""
        return address("tree", ref=ref)

    def to_array(self, ref: str, path: str) -> str:
        """An array."""
        return address("array", ref=ref, path=path)

    def to_changes(self, old: str, new: str) -> str:
        """What changed between two versions."""
        return address("diff", from_=old, to=new)


@dataclass(frozen=True, slots=True)
class ReportLinks:
    """Only what is in the report is there."""

    arrays: Mapping[str, str] = field(default_factory=dict)
    """The anchor of each array that is shown."""

    def to_version(self, ref: str) -> None:
        """A report has one version."""
        del ref

    def to_array(self, ref: str, path: str) -> str | None:
        """An array of the one version."""
        del ref
        return f"#{self.arrays[path]}" if path in self.arrays else None

    def to_changes(self, old: str, new: str) -> None:
        """A report has one version."""
        del old, new


def link_to(target: str | None, text: str) -> object:
    """A link, or the text alone."""
    return text if target is None else tag("a", text, href=target)
