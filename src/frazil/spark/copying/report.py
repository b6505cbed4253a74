"""What a copy, an export or an import did, for people."""

from dataclasses import dataclass

from frazil.rendering import Listed, render_plain
from frazil.rendering.sizes import show_bytes


@dataclass(frozen=True, slots=True)
class Copied:
    """Objects that went from one storage to another."""

    objects: int = 0
    bytes: int = 0
    present: int = 0
    """Those that were there already, and were left as they are."""

    def __add__(self, other: "Copied") -> "Copied":
        return Copied(
            self.objects + other.objects, self.bytes + other.bytes, self.present + other.present
        )


class _Table(Listed):
    """A line for each field that says something."""

    __slots__ = ()

    def __str__(self) -> str:
        shown = [
            (item.name.replace("_", " "), _render(item.name, item.value))
            for item in self.shown_items()
            if item.value not in (None, ())
        ]
        width = max(len(name) for name, _ in shown)
        return "\n".join(f"{name:{width}}  {text}" for name, text in shown)


@dataclass(frozen=True, slots=True, repr=False)
class CopyReport(_Table):
    """What became of a copy; shown as a table."""

    has_changed: bool
    """Whether the target says something else than before."""
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    snapshots: int
    """That the target has now."""
    new_snapshots: int
    objects: int
    """That were copied."""
    bytes_copied: int
    present: int
    """Objects that were looked at and were there already."""
    ran_on: str
    """`spark`, or `driver` if the job was too small for tasks."""
    tasks: int
    retries: int
    seconds: float
    job_id: str
    application_id: str | None


@dataclass(frozen=True, slots=True, repr=False)
class ExportReport(_Table):
    """What became of an export; shown as a table."""

    snapshot_id: str
    """Which version was exported."""
    groups: int
    arrays: int
    chunks: int
    """That were written."""
    bytes_written: int
    present: int
    """Chunks that an earlier attempt had written."""
    ran_on: str
    """`spark`, or `driver` if the job was too small for tasks."""
    tasks: int
    retries: int
    seconds: float
    job_id: str
    application_id: str | None


def _render(name: str, value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.2f}"
        case int():
            return show_bytes(value) if name.startswith("bytes") else f"{value:,}"
        case tuple():
            return ", ".join(map(str, value))
    return render_plain(value)
