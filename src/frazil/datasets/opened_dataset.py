"""A declared dataset with its repository, its sources and the options of its ingest."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import xarray as xr

from frazil.datasets.declaration import Check, Declaration, find_function
from frazil.datasets.guards import (
    Version,
    read_version,
)
from frazil.datasets.named_credentials import AwsProfile, TemporaryS3, find_credential
from frazil.datasets.steps import Values, expand, find_placeholders
from frazil.errors import (
    InvalidInputError,
)
from frazil.repository.repository import Repository
from frazil.spark.audit import NewRegion
from frazil.spark.checks import as_checks, fill_share, values_between
from frazil.spark.ingestion.discovery import SourceFile, discover
from frazil.spark.ingestion.ingest_job import ingest
from frazil.spark.ingestion.ingest_report import IngestReport
from frazil.spark.ingestion.source_data import SourceOptions, find_by_prefix
from frazil.spark.job import Job, RunOn
from frazil.storage.constructors import storage_from_url
from frazil.urls import parse_location
from frazil.virtual.source_formats import SourceStores

log = logging.getLogger("frazil.datasets")

_LOOKBACK = timedelta(days=3)
_DRIVER_FILES, _DRIVER_BYTES = 500, 256 << 20
"""Most files and bytes that a cycle ingests without Spark."""


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A declaration with its repository and what opens its sources."""

    declaration: Declaration
    repository: Repository
    credentials: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, declaration: Declaration, *, create: bool = False) -> "Opened":
        """Open the repository of a declaration, or create it."""
        location = parse_location(declaration.resolve(declaration.repository))
        storage = storage_from_url(location, **_find_storage_options(declaration))
        credentials = dict(_find_credentials(declaration))
        if create and not Repository.exists(storage):
            log.info("creating the repository", extra={"repository": declaration.repository})
            return cls(declaration, Repository.create(storage), credentials)
        return cls(declaration, Repository.open(storage), credentials)

    @classmethod
    def open_in(cls, declaration: Declaration, repository: Repository) -> "Opened":
        """Use a repository in place of the declared one."""
        return cls(declaration, repository, dict(_find_credentials(declaration)))

    def readable(self) -> Repository:
        """Return the repository with access to the source files of virtual chunks."""
        found = self.repository.authorize("*")
        containers = self.repository.config.virtual_chunk_containers or {}
        own = {each: find_by_prefix(self.credentials, each) for each in containers}
        return found.authorize({each: value for each, value in own.items() if value is not None})

    def read_published(self) -> Version:
        """Return the published version."""
        session = self.repository.readonly_session(self.declaration.branch)
        return read_version(session, self.declaration)

    def discover(self, patterns: Sequence[str]) -> pa.Table:
        """Return the files that some patterns match, as columns."""
        stores = SourceStores((), self.credentials)
        return discover(patterns, stores, may_be_none=True)

    def ingest(
        self,
        files: Sequence[SourceFile],
        published: Version,
        branch: str,
        metadata: str,
        *,
        spark: Any = None,
        dry_run: bool = False,
        progress: bool | None = False,
    ) -> IngestReport:
        """Ingest files into a branch, as declared."""
        declaration, guards = self.declaration, self.declaration.guards
        late = guards.late or ("set_aside" if declaration.steps is not None else "insert")
        variables = declaration.variables
        return ingest(
            self.repository,
            files,
            append_dim=list(declaration.dimensions) or None,
            coords={
                dim: each.coordinate.to_function()
                for dim, each in declaration.dimensions.items()
                if each.coordinate is not None
            },
            expected=dict(list_expected(declaration, published)),
            group=declaration.group or "/",
            branch=branch,
            mode=declaration.mode,
            chunks={
                **declaration.chunks,
                **{name: each.chunks for name, each in variables.items() if each.chunks},
            },
            encoding={name: each.encoding for name, each in variables.items() if each.encoding},
            on_overlap=guards.duplicates,
            on_late=late,
            checks=list_checks(declaration),
            message=metadata,
            dry_run=dry_run,
            source_options=SourceOptions(
                source_group=declaration.sources.group,
                load=declaration.sources.load,
                skip=declaration.sources.skip,
                rename=dict(declaration.sources.rename),
                take=tuple(variables) if declaration.sources.take == "declared" else (),
                convert={
                    name: [step.to_function() for step in each.convert]
                    for name, each in variables.items()
                    if each.convert
                },
                credentials=self.credentials,
                on_bad_file=guards.bad_files,
                on_failed_check=guards.failed_checks,
            ),
            job=Job(run_on=self._choose_engine(files), progress=progress),
            spark=spark,
        )

    def _choose_engine(self, files: Sequence[SourceFile]) -> RunOn:
        """Return `driver` for little work: Spark takes longer to start than that."""
        size = sum(each.version.size_bytes for each in files)
        is_little = len(files) <= _DRIVER_FILES and size <= _DRIVER_BYTES
        return (
            "driver" if self.declaration.engine == "auto" and is_little else self.declaration.engine
        )


def _find_credentials(declaration: Declaration) -> Iterator[tuple[str, Any]]:
    """Yield the credentials of the sources, by the beginning of their URLs."""
    name = declaration.sources.credentials
    if name is None:
        return
    credential = find_credential(declaration.credentials[name])
    for each in declaration.sources.files:
        scheme, found, rest = each.partition("://")
        if found and scheme != "file":
            yield f"{scheme}://{rest.partition('/')[0]}/", credential


def _find_storage_options(declaration: Declaration) -> dict[str, Any]:
    """Return the credentials of the repository, as arguments of its storage."""
    if declaration.storage_credentials is None:
        return {}
    declared = declaration.credentials[declaration.storage_credentials]
    match declared.kind:
        case "environment":
            return {"from_env": True}
        case "anonymous":
            return {"anonymous": True}
        case "aws_profile":
            return {"get_credentials": AwsProfile(declared.profile)}
        case "earthdata":
            return {"get_credentials": TemporaryS3(declared)}
        case "function":
            return {"get_credentials": find_function(str(declared.function))}
    raise InvalidInputError(
        "storage_credentials can't be a bearer token: web servers are read-only"
    )


def list_expected(declaration: Declaration, published: Version) -> Iterator[tuple[str, Any]]:
    """Yield the axis of each dimension that has declared steps or values."""
    for dim, each in declaration.dimensions.items():
        steps, values = each.steps, each.list_values()
        if steps is not None:
            axis = published.axes.get(dim)
            if axis is not None and axis.moments and declaration.retention.steps is not None:
                # A rolling archive begins with the first step that it keeps.
                steps = replace(steps, start=max(steps.start, axis.moments[0]))
            yield dim, steps
        elif values is not None:
            yield dim, Values(tuple(values))


@dataclass(frozen=True, slots=True)
class CheckAt:
    """Check of a part of each region, such as all lead times but the first."""

    check: Any
    at: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the check."""
        return str(self.check.name)

    @property
    def share_read(self) -> float:
        """Fraction of the data it reads."""
        return float(self.check.share_read)

    def check_region(self, region: NewRegion) -> Sequence[Any]:
        """Return the findings of the selected part."""
        dataset = self.select(region.dataset)
        if dataset is None:
            return []
        found: Sequence[Any] = self.check.check_region(replace(region, dataset=dataset))
        return found

    def select(self, dataset: xr.Dataset) -> xr.Dataset | None:
        """Return the part that is checked; None if it is empty."""
        for dim, wanted in self.at.items():
            if dim not in dataset.coords:
                raise KeyError(f"there is no coordinate {dim}")
            first, last = wanted if isinstance(wanted, list | tuple) else (wanted, wanted)
            values = dataset[dim].values
            if values.dtype.kind == "m":
                values = values.astype("m8[s]").astype(float) / 3600
            is_in = (values >= first) & (values <= last)
            if not is_in.any():
                return None
            dataset = dataset.isel({dim: is_in}) if dataset[dim].ndim else dataset
        return dataset


def list_checks(declaration: Declaration) -> list[Any]:
    """Return the declared checks, and those of variables."""
    found: list[Any] = []
    for name, each in declaration.variables.items():
        if each.between is not None:
            found.append(_optional(values_between(*each.between, variables=[name])))
        if each.missing_at_most is not None:
            found.append(_optional(fill_share(each.missing_at_most, variables=[name])))
    return [*found, *map(_make_check, declaration.checks)]


def _make_check(declared: Check) -> Any:
    (check,) = as_checks([declared.make()])
    if declared.variables and declared.kind in ("values_between", "fill_share"):
        check = _optional(check)
    return CheckAt(check, declared.at) if declared.at else check


@dataclass(frozen=True, slots=True)
class _OfBrought:
    """Check of variables, of those that a file has: files may bring some of them."""

    check: Any

    @property
    def name(self) -> str:
        return str(self.check.name)

    @property
    def share_read(self) -> float:
        return float(self.check.share_read)

    def check_region(self, region: NewRegion) -> Sequence[Any]:
        names = [each for each in self.check.variables if each in region.dataset.variables]
        if not names:
            return []
        found: Sequence[Any] = replace(self.check, variables=names).check_region(region)
        return found


def _optional(check: Any) -> Any:
    return _OfBrought(check)


def list_patterns(
    declaration: Declaration, published: Version, now: datetime, until: datetime | None = None
) -> list[str]:
    """Return the patterns of the files that a run looks at.

    Patterns that name a step are those of the steps from some time before the newest published one
    to now; the others are as declared.
    """
    growing, steps = declaration.growing, declaration.steps
    patterns = [*declaration.sources.files, *_read_listings(declaration)]
    if steps is None or growing is None:
        return [declaration.resolve(each) for each in patterns]
    axis = published.axes.get(growing)
    newest = axis.moments[-1] if axis is not None and axis.moments else None
    first = steps.start
    lookback = declaration.sources.lookback
    if lookback is not None:
        first = max(first, lookback.before(newest or now))
    elif newest is not None:
        first = max(first, newest - _LOOKBACK)
    moments = steps.between(first, until or now)
    return [
        declaration.resolve(name)
        for pattern in patterns
        for name in (expand(pattern, growing, moments) if find_placeholders(pattern) else [pattern])
    ]


def _read_listings(declaration: Declaration) -> Iterator[str]:
    for each in declaration.sources.listing:
        text = Path(declaration.resolve(each)).read_text(encoding="utf-8")
        yield from (line.strip() for line in text.splitlines() if line.strip())
