"""What an ingest is told by its caller."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from frazil.errors import InvalidInputError
from frazil.spark.checks.subjects import AnyCheck
from frazil.spark.ingesting.encodings import Wishes
from frazil.spark.ingesting.region_options import RegionOption
from frazil.virtual import VirtualChunkContainer
from frazil.virtual.readers.stores import Credentials

Mode = Literal["auto", "virtual", "native"]
OnOverlap = Literal["refuse", "replace"]
OnBadFile = Literal["fail", "skip"]
OnFailedCheck = Literal["fail", "quarantine"]

_ALTERNATIVES = {
    "mode": get_args(Mode), "on_overlap": get_args(OnOverlap), "on_bad_file": get_args(OnBadFile),
    "on_failed_check": get_args(OnFailedCheck),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """How to ingest, and what to do where something is wrong."""

    branch: str
    group: str
    """Without slashes around it; empty for the root."""
    append_dim: str | None
    on_overlap: OnOverlap
    on_bad_file: OnBadFile
    mode: Mode
    message: str | None
    dry_run: bool
    files_per_task: int
    checks: tuple[AnyCheck, ...] = ()
    on_failed_check: OnFailedCheck = "fail"
    containers: Sequence[VirtualChunkContainer] = ()
    credentials: Credentials = field(default_factory=dict, repr=False)
    wishes: Wishes = field(default_factory=Wishes)
    region: RegionOption | None = None
    statistics: bool = False


def refuse_unknown(**given: str) -> None:
    """Raise InvalidInputError for an option that is none."""
    for name, value in given.items():
        if value not in _ALTERNATIVES[name]:
            known = ", ".join(map(repr, _ALTERNATIVES[name]))
            raise InvalidInputError(f"{name}={value!r} is none of {known}")
