"""What a collection found and deleted, and what an upkeep did, for people and for programs."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from frazil.ops import ExpirySummary, GCSummary
from frazil.rendering import Listed
from frazil.rendering.sizes import show_bytes
from frazil.spark.garbage.mark_table import Place
from frazil.spark.garbage.reviewing import SCHEMA, Found


@dataclass(frozen=True, slots=True, repr=False)
class GarbageReport(Listed):
    """What became of a collection; shown as a table."""

    is_dry_run: bool
    cutoff: datetime
    """What was asked for, or when the oldest running job began."""
    protected_jobs: tuple[str, ...]
    """Those that run."""
    found: dict[str, Found]
    """What is garbage, by its kind."""
    summary: GCSummary
    """What was deleted, or would be."""
    ran_on: str
    manifests: int
    """How many stay."""
    manifests_reused: int
    """How many of them earlier collections had marked."""
    tasks: int
    retries: int
    seconds: float
    job_id: str
    reviews: Place | None = field(default=None)
    """Where the list is; None if it was not kept."""

    def __str__(self) -> str:
        verb = "would be deleted" if self.is_dry_run else "deleted"
        lines = [f"garbage from before {self.cutoff:%Y-%m-%d %H:%M:%S %Z}"]
        for kind, each in self.found.items():
            oldest = "" if each.oldest is None else f", the oldest of {each.oldest:%Y-%m-%d %H:%M}"
            name = kind.replace("_", " ")
            lines.append(f"  {name}: {each.count:,}, {show_bytes(each.size_bytes)}{oldest}")
        deleted = f"{verb}: {show_bytes(self.summary.bytes_deleted)}"
        if self.summary.objects_failed_to_delete:
            deleted += f"; {self.summary.objects_failed_to_delete:,} objects could not be"
        lines.append(deleted)
        if self.summary.skipped_phases:
            lines.append(f"left for the next time: {', '.join(self.summary.skipped_phases)}")
        if self.protected_jobs:
            lines.append(f"running jobs are spared: {', '.join(self.protected_jobs)}")
        lines.append(
            f"{self.manifests:,} manifests stay, {self.manifests_reused:,} were known; "
            f"{self.tasks:,} tasks, {self.retries:,} retries, {self.seconds:.1f} s on {self.ran_on}"
        )
        return "\n".join(lines)

    def read(self) -> pa.Table:
        """All that was found, an object a row: kind, key, bytes, created_at and why."""
        if self.reviews is None:
            raise LookupError("the list was not kept: give `review=` a place, or make a dry run")
        place = self.reviews
        files = [info.key for info in place.storage.list_sorted(f"{place.folder}/")]
        tables = [pq.read_table(pa.BufferReader(bytes(place.storage.get(key)))) for key in files]
        return pa.concat_tables([SCHEMA.empty_table(), *tables])

    def frame(self, spark: SparkSession) -> DataFrame:
        """The same as a DataFrame."""
        table: Any = self.read()
        plain = table.cast(_without_dictionaries())
        frame: DataFrame = spark.createDataFrame(plain)
        return frame


@dataclass(frozen=True, slots=True, repr=False)
class MaintenanceReport(Listed):
    """What an upkeep did."""

    expired: ExpirySummary
    garbage: GarbageReport

    def __str__(self) -> str:
        count = len(self.expired.released_snapshots)
        return f"{count:,} snapshots left the history\n{self.garbage}"


def _without_dictionaries() -> pa.Schema:
    return pa.schema([(each.name, getattr(each.type, "value_type", each.type)) for each in SCHEMA])
