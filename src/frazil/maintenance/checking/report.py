"""What a check tells in the end."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from frazil.maintenance.checking.problems import Problem, Severity
from frazil.rendering import Block, Item


@dataclass(frozen=True, slots=True)
class Counts:
    """How much was looked at."""

    branches: int = 0
    tags: int = 0
    snapshots: int = 0
    nodes: int = 0
    """Of all snapshots together."""
    manifests: int = 0
    transaction_logs: int = 0
    native_chunks: int = 0
    """Distinct chunk files that manifests refer to."""
    native_refs: int = 0
    inline_refs: int = 0
    virtual_refs: int = 0
    virtual_sources: int = 0
    """Distinct files outside of the repository that were asked for."""
    decoded_chunks: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Counts)))


@dataclass(frozen=True, slots=True)
class Orphans:
    """Objects of a kind that nothing refers to."""

    kind: str
    count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport(Block):
    """What was found in a repository."""

    generation: str
    problems: tuple[Problem, ...]
    counts: Counts
    orphans: tuple[Orphans, ...] = ()
    has_counted_orphans: bool = False
    """Not where one branch was checked, or where files that refer to others can't be read."""

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is lost: there may be warnings and notes."""
        return not self.errors

    @property
    def errors(self) -> tuple[Problem, ...]:
        """What is lost."""
        return self._of(Severity.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is not as it should be."""
        return self._of(Severity.WARNING)

    @property
    def notes(self) -> tuple[Problem, ...]:
        """What is to be known."""
        return self._of(Severity.NOTE)

    def _of(self, severity: Severity) -> tuple[Problem, ...]:
        return tuple(each for each in self.problems if each.severity is severity)

    def shown_items(self) -> Iterator[Item]:
        """Whether it is healthy, what was looked at, and what was found."""
        yield Item("generation", self.generation)
        yield Item("healthy", "yes" if self.is_healthy else "no")
        seen = {name: count for name, count in asdict(self.counts).items() if count}
        yield Item(
            "checked", ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in seen.items())
        )
        if self.has_counted_orphans:
            told = [f"{each.count} {each.kind} ({each.size_bytes} bytes)" for each in self.orphans]
            yield Item("orphans", ", ".join(told) or "none")
        for name, problems in (
            ("errors", self.errors), ("warnings", self.warnings), ("notes", self.notes)
        ):  # fmt: skip
            if problems:
                yield Item(name, "\n".join(map(str, problems)))

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "generation": self.generation,
            "is_healthy": self.is_healthy,
            "problems": [each.to_dict() for each in self.problems],
            "counts": asdict(self.counts),
            "orphans": [asdict(each) for each in self.orphans],
            "has_counted_orphans": self.has_counted_orphans,
        }
