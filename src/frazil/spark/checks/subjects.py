"""What checks look at."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import xarray as xr

from frazil.spark.checks.findings import Finding


@dataclass(frozen=True, slots=True)
class FileRegion:
    """Where the data of a source file is, along the dimension that files follow each other along."""

    file: str
    dim: str | None = None
    """None for a file that is all there is."""
    start: int = 0
    stop: int = 0

    @property
    def indexers(self) -> dict[str, slice]:
        """What `Dataset.isel` takes."""
        return {} if self.dim is None else {self.dim: slice(self.start, self.stop)}

    @property
    def ends(self) -> tuple[int, int] | None:
        """From where to where."""
        return None if self.dim is None else (self.start, self.stop)


@dataclass(frozen=True, slots=True, eq=False)
class TellsOf:
    """What some files tell of a variable."""

    variable: str
    data_type: Any
    attributes: Mapping[str, Any]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NewVersion:
    """A group as it would be published."""

    dataset: xr.Dataset
    """Lazy, decoded."""
    metadata: Mapping[str, Mapping[str, Any]]
    """The `zarr.json` of each array."""
    before: Mapping[str, Mapping[str, Any]]
    """The same in the version before; empty where there is none."""
    dim: str | None
    regions: Sequence[FileRegion]
    """Of the files that would come with it, in their order."""
    told: Sequence[TellsOf] = ()

    def files_from(self, position: int) -> tuple[str, ...]:
        """The files behind a position along the dimension."""
        return tuple(each.file for each in self.regions if each.start >= position)

    def files_at(self, position: int) -> tuple[str, ...]:
        """The file that a position along the dimension comes from, if it is one of these."""
        return tuple(each.file for each in self.regions if each.start <= position < each.stop)


@dataclass(frozen=True, slots=True, eq=False)
class NewRegion:
    """What a file brings."""

    dataset: xr.Dataset
    """Lazy, decoded, of the region only."""
    region: FileRegion
    open_source: Callable[[], xr.Dataset]
    """The file itself."""

    def find(self, check: str, message: str, variable: str | None = None) -> Finding:
        """A finding about this file."""
        return Finding(message, check, variable, (self.region.file,), self.region.ends)


class WholeCheck(Protocol):
    """Looks at coordinates and metadata of the whole."""

    @property
    def name(self) -> str:
        """What findings call it."""

    def check_whole(self, version: NewVersion) -> Sequence[Finding]:
        """What is wrong."""


class RegionCheck(Protocol):
    """Looks at the data of a source file."""

    @property
    def name(self) -> str:
        """What findings call it."""

    @property
    def share_read(self) -> float:
        """How much of the data it reads, to size tasks by."""

    def check_region(self, region: NewRegion) -> Sequence[Finding]:
        """What is wrong."""


AnyCheck = WholeCheck | RegionCheck
