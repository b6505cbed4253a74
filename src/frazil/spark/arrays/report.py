"""What a job did, for people and for the metadata of its commit."""

from dataclasses import dataclass, replace
from typing import Self

from frazil.rendering import Listed, render_plain

METRICS = "frazil_job"
"""The name that commits have the metrics of their job by."""


@dataclass(frozen=True, slots=True, repr=False)
class JobReport(Listed):
    """What became of a job; shown as a table."""

    job: str
    """Which one: the name of its function."""
    snapshot_id: str | None
    """The commit; None where nothing was to do."""
    branch: str
    ran_on: str
    """`spark`, or `driver` if the job was too small for tasks."""
    chunks: int
    """How many were written."""
    bytes_written: int
    """As they are stored."""
    tasks: int
    retries: int
    seconds: float
    task_seconds: float
    """Of all tasks together."""
    job_id: str
    application_id: str | None
    notes: tuple[str, ...] = ()
    """How it was done."""

    def __str__(self) -> str:
        rows = [(item.name.replace("_", " "), item.value) for item in self.shown_items()]
        shown = [(name, _render(value)) for name, value in rows if value not in (None, ())]
        width = max(len(name) for name, _ in shown)
        return "\n".join(f"{name:{width}}  {value}" for name, value in shown)

    def committed_as(self, snapshot_id: str) -> Self:
        """The same once it has landed."""
        return replace(self, snapshot_id=snapshot_id)

    def metrics(self) -> dict[str, object]:
        """What the commit's metadata says about the job."""
        return {
            "job": self.job,
            "job_id": self.job_id,
            "ran_on": self.ran_on,
            "chunks": self.chunks,
            "bytes": self.bytes_written,
            "seconds": round(self.seconds, 3),
            "task_seconds": round(self.task_seconds, 3),
            "tasks": self.tasks,
            "retries": self.retries,
            "application_id": self.application_id,
        }


def _render(value: object) -> str:
    match value:
        case float():
            return f"{value:.2f}"
        case int():
            return f"{value:,}"
        case tuple():
            return "; ".join(map(str, value))
    return render_plain(value)
