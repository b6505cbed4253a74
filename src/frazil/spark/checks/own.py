"""Functions of users as checks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import xarray as xr

from frazil.errors import InvalidInputError
from frazil.spark.checks.findings import Finding
from frazil.spark.checks.subjects import AnyCheck, FileRegion, NewRegion

Told = None | str | Finding | Iterable[str | Finding]
Function = Callable[[xr.Dataset, FileRegion], Told]


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """A function that is called for the region of each file."""

    function: Function
    share_read: float = 1.0

    @property
    def name(self) -> str:
        """That of the function."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def check_region(self, region: NewRegion) -> Sequence[Finding]:
        """What the function tells, with the file and the region."""
        told = self.function(region.dataset, region.region)
        return [self._complete(each, region) for each in _listed(told)]

    def _complete(self, told: str | Finding, region: NewRegion) -> Finding:
        if not isinstance(told, Finding):
            return region.find(self.name, str(told))
        return replace(
            told,
            check=told.check or self.name,
            files=told.files or (region.region.file,),
            region=told.region or region.region.ends,
        )


def as_checks(given: Iterable[AnyCheck | Function]) -> tuple[AnyCheck, ...]:
    """Checks, and functions as checks; raises InvalidInputError for what is neither."""
    return tuple(map(_as_check, given))


def _as_check(given: AnyCheck | Function) -> AnyCheck:
    if hasattr(given, "check_whole") or hasattr(given, "check_region"):
        return given  # type: ignore[return-value]
    if isinstance(given, type) or not callable(given):
        raise InvalidInputError(f"{given!r} is neither a check nor a function")
    return OwnFunction(given)


def _listed(told: Told) -> Iterator[str | Finding]:
    if told is None:
        return
    if isinstance(told, str | Finding):
        yield told
    else:
        yield from told
