"""The declaration of a dataset: `dataset.toml`, or `Declaration` in Python."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import date, datetime
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)

from frazil import virtual
from frazil.datasets.steps import STANDARD, Span, Steps, find_placeholders, in_utc, parse_span
from frazil.display import suggest
from frazil.errors import InvalidInputError
from frazil.spark import checks as quality
from frazil.spark.arrays.derivation import Derivation
from frazil.urls import parse_location


class DeclarationError(InvalidInputError):
    """A declaration that can't be used; `problems` lists all that is wrong, with lines."""

    def __init__(
        self, message: str, problems: Sequence[str] = (), *, kind: str | None = None
    ) -> None:
        super().__init__(message, kind=kind)
        self.problems = tuple(problems)


class ProblemsError(ValueError):
    """Problems of a table, each with the keys below it that it is about."""

    def __init__(self, problems: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(text for _, text in problems))


def _as_span(value: object) -> object:
    if isinstance(value, Span):
        return value
    if not isinstance(value, str):
        raise ValueError(f"expected a time span such as '6h', not {value!r}")
    return parse_span(value)


def _as_moment(value: object) -> object:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{value!r} is no time: write 2026-01-31T12:00:00Z") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return in_utc(value) if isinstance(value, datetime) else value


Duration = Annotated[Span, BeforeValidator(_as_span)]
Moment = Annotated[datetime, BeforeValidator(_as_moment)]


class _Table(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True
    )


class Sources(_Table):
    """Source files of a dataset, and how they are read.

    Attributes
    ----------
    files
        Paths, URLs, prefixes and patterns; `{time:%Y/%m}` stands for the steps of a dimension.
    listing
        Text files with a path or URL in each line.
    lookback
        How far behind the newest published step a run looks for files of earlier steps. Used by
        patterns that name a step.
    group, skip, load, rename
        As for an ingest: group inside each file, arrays to leave out, to load, to rename.
    take
        `"all"` variables of the files, or `"declared"` ones alone.
    credentials
        Name of the credentials that the files are read with.
    """

    files: tuple[str, ...] = ()
    listing: tuple[str, ...] = ()
    lookback: Duration | None = None
    group: str = ""
    skip: tuple[str, ...] = ()
    load: tuple[str, ...] = ()
    rename: Mapping[str, str] = Field(default_factory=dict)
    take: Literal["all", "declared"] = "all"
    credentials: str | None = None

    @model_validator(mode="after")
    def _require_files(self) -> "Sources":
        if not self.files and not self.listing:
            raise ValueError("it has neither files nor a listing: give at least one")
        return self


class Coordinate(_Table):
    """Where the coordinate of a dimension comes from, if it is no variable of the files.

    Attributes
    ----------
    path
        Regular expression that finds it in the path of a file.
    attribute, variable
        Attribute that holds it: of the file, or of a variable.
    format
        Format of `datetime.strptime`, for times.
    """

    path: str | None = None
    attribute: str | None = None
    variable: str | None = None
    format: str | None = None

    @model_validator(mode="after")
    def _require_one(self) -> "Coordinate":
        if (self.path is None) == (self.attribute is None):
            raise ValueError("give either path or attribute")
        if self.path is not None:
            virtual.from_path(self.path, self.format)
        return self

    def to_function(self) -> Any:
        """Return the value for `coords=` of an ingest."""
        if self.path is not None:
            return virtual.from_path(self.path, self.format)
        assert self.attribute is not None
        return virtual.from_attribute(self.attribute, self.variable, format=self.format)


class Range(_Table):
    """Numbers from a first to a last one, both inclusive."""

    first: float
    last: float
    step: float = 1.0

    def list_values(self) -> list[float]:
        """Return the numbers, integers if all are."""
        count = round((self.last - self.first) / self.step) + 1
        found = [self.first + each * self.step for each in range(count)]
        return [int(each) for each in found] if all(each == int(each) for each in found) else found


class Dimension(_Table):
    """A dimension that files are placed along.

    Attributes
    ----------
    coordinate
        Where its coordinate comes from. Default: a variable of the files.
    start, step
        First time and regular step of a dimension that grows.
    calendar
        CF calendar of the steps.
    delay
        How long after the time of a step its files are due.
    values
        All values of a dimension that does not grow, such as lead times and members.
    """

    coordinate: Coordinate | None = None
    start: Moment | None = None
    step: Duration | None = None
    calendar: str = "standard"
    delay: Duration | None = None
    values: tuple[int | float | str, ...] | Range | None = None

    @model_validator(mode="after")
    def _require_axis(self) -> "Dimension":
        if (self.start is None) != (self.step is None):
            raise ValueError("start and step belong together: give both or none")
        if self.step is not None and self.values is not None:
            raise ValueError("a dimension has either steps or values")
        if self.delay is not None and self.step is None:
            raise ValueError("delay needs start and step")
        return self

    @property
    def steps(self) -> Steps | None:
        """The regular steps, if they are declared."""
        if self.start is None or self.step is None:
            return None
        return Steps(self.start, self.step, self.calendar)

    def list_values(self) -> list[Any] | None:
        """Return the declared values, or None."""
        if self.values is None:
            return None
        return self.values.list_values() if isinstance(self.values, Range) else list(self.values)


class Conversion(_Table):
    """One conversion of values; exactly one field is given.

    Attributes
    ----------
    to_units
        Units to convert to.
    round_bits
        Bits of the mantissa to keep.
    deaccumulate
        Dimension along which accumulated values become those of each step.
    function
        Function of a block of values, as `module:name`.
    """

    to_units: str | None = None
    round_bits: int | None = None
    deaccumulate: str | None = None
    function: str | None = None

    @model_validator(mode="after")
    def _require_one(self) -> "Conversion":
        if sum(value is not None for value in self.__dict__.values()) != 1:
            raise ValueError("give one of to_units, round_bits, deaccumulate, function")
        return self

    def to_function(self) -> Any:
        """Return the value for `convert=` of an ingest."""
        if self.to_units is not None:
            return virtual.to_units(self.to_units)
        if self.round_bits is not None:
            return virtual.round_bits(self.round_bits)
        if self.deaccumulate is not None:
            return virtual.deaccumulate(self.deaccumulate)
        assert self.function is not None
        return find_function(self.function)


class Variable(_Table):
    """Requirements of a variable, and its storage.

    Attributes
    ----------
    dtype, units
        Data type and units; a file with others is left out.
    between
        Smallest and largest value; a file with others is left out.
    missing_at_most
        Largest fraction of missing values of a file.
    mask
        Variable that is zero or missing where this one has no values, such as a land mask.
    chunks, shards, compressors, filters, fill_value
        How values are stored that are written, as for `zarr.create_array`.
    convert
        Conversions, in order.
    attributes
        Attributes to set.
    optional
        Whether a step is complete without this variable.
    """

    dtype: str | None = None
    units: str | None = None
    between: tuple[float, float] | None = None
    missing_at_most: float | None = Field(None, ge=0, le=1)
    mask: str | None = None
    chunks: Mapping[str, int] = Field(default_factory=dict)
    shards: tuple[int, ...] | None = None
    compressors: tuple[Mapping[str, Any], ...] | None = None
    filters: tuple[Mapping[str, Any], ...] | None = None
    fill_value: Any = None
    convert: tuple[Conversion, ...] = ()
    attributes: Mapping[str, Any] = Field(default_factory=dict)
    optional: bool = False

    @model_validator(mode="after")
    def _check(self) -> "Variable":
        if problems := list(self._find_problems()):
            raise ProblemsError(problems)
        return self

    def _find_problems(self) -> Iterator[tuple[tuple[str, ...], str]]:
        if self.dtype is not None:
            try:
                np.dtype(self.dtype)
            except TypeError:
                yield ("dtype",), f"{self.dtype!r} is no data type: write float32, int16, …"
        if self.between is not None and self.between[0] > self.between[1]:
            low, high = self.between
            yield ("between",), f"{low} is larger than {high}: write the smallest value first"
        for name in sorted(set(self.attributes) & set(quality.CF_ATTRIBUTES)):
            yield (
                ("attributes", name),
                f"attributes can't set {name!r}, which defines what values mean: "
                + ("use units" if name == "units" else "convert values instead"),
            )

    @property
    def encoding(self) -> dict[str, Any]:
        """Arguments of `zarr.create_array`."""
        found = {
            "shards": self.shards, "compressors": self.compressors, "filters": self.filters,
            "fill_value": self.fill_value,
        }  # fmt: skip
        return {
            name: [dict(each) for each in value] if name in ("compressors", "filters") else value
            for name, value in found.items()
            if value is not None
        }


class Check(_Table):
    """A quality check before publishing, and of `frazil validate`.

    Attributes
    ----------
    kind
        Name of a check of `frazil.spark.checks`, or `"function"`.
    variables
        Variables to check. Default: all that the check suits.
    low, high, at_most, share, at_least, step, dim
        Parameters of the check of this name.
    function
        Function of a dataset and a `FileRegion`, as `module:name`.
    at
        Part of each dimension that is checked: a value, or `[first, last]`.
    """

    kind: Literal[
        "values_between", "fill_share", "monotonic", "unique", "complete", "same_metadata",
        "samples_equal_source", "function",
    ]  # fmt: skip
    variables: tuple[str, ...] | None = None
    low: float | None = None
    high: float | None = None
    at_most: float | None = None
    share: float | None = None
    at_least: int | None = None
    step: str | float | None = None
    dim: str | None = None
    function: str | None = None
    at: Mapping[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> "Check":
        given = {
            name
            for name, value in self.__dict__.items()
            if name not in ("kind", "at") and value is not None
        }
        allowed, required = _PARAMETERS[self.kind]
        wrong, missing = sorted(given - allowed), sorted(required - given)
        if missing:
            raise ValueError(f"{self.kind} needs {missing[0]}")
        if wrong:
            raise ValueError(f"{self.kind} has no {wrong[0]}: {suggest(wrong[0], sorted(allowed))}")
        if self.at and self.kind not in _OF_REGIONS:
            raise ValueError(f"{self.kind} checks the whole dataset, and has no at")
        return self

    def make(self) -> Any:
        """Return the check, without `at`."""
        if self.function is not None:
            return find_function(self.function)
        given = {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("kind", "at") and value is not None
        }
        return getattr(quality, self.kind)(**given)


_OF_REGIONS = ("values_between", "fill_share", "function")
_PARAMETERS: Mapping[str, tuple[set[str], set[str]]] = {
    "values_between": ({"low", "high", "variables"}, {"low", "high"}),
    "fill_share": ({"at_most", "variables"}, {"at_most"}),
    "monotonic": ({"dim"}, set()),
    "unique": ({"dim"}, set()),
    "complete": ({"dim", "step"}, set()),
    "same_metadata": (set(), set()),
    "samples_equal_source": ({"share", "at_least", "variables"}, set()),
    "function": ({"function"}, {"function"}),
}
"""Parameters of each check, and those that it needs."""


class Guards(_Table):
    """Conditions that a published version must keep.

    Attributes
    ----------
    newest
        `"complete"`: a step is published when all its files are there. `"partial"`: at once.
    partial_after
        Publish an incomplete newest step this long after it was due.
    freshness
        Largest age of the newest complete step; `frazil status` fails if it is older.
    duplicates
        Another file for a place that is filled: `"refuse"` leaves it out, `"replace"` takes it.
    late
        Files before or between published steps, of an axis without room for them: `"insert"`,
        `"set_aside"` or `"refuse"`. Default: `"insert"`, and `"set_aside"` with regular steps.
    bad_files
        Files that can't be read: `"skip"` leaves them out until they change, `"fail"` stops the run.
    failed_checks
        Files that a check blames: `"quarantine"` leaves them out, `"fail"` stops the run.
    """

    newest: Literal["complete", "partial"] = "partial"
    partial_after: Duration | None = None
    freshness: Duration | None = None
    duplicates: Literal["refuse", "replace"] = "refuse"
    late: Literal["insert", "set_aside", "refuse"] | None = None
    bad_files: Literal["skip", "fail"] = "skip"
    failed_checks: Literal["quarantine", "fail"] = "quarantine"


class Retention(_Table):
    """Versions and steps that are kept.

    Attributes
    ----------
    steps
        Keep the steps of this span before the newest one, and drop those behind: a rolling archive.
    versions
        Keep versions of this age; older ones expire.
    """

    steps: Duration | None = None
    versions: Duration | None = None


class Maintenance(_Table):
    """When garbage is collected.

    Attributes
    ----------
    every
        How often a run expires versions and collects garbage.
    garbage_age
        Minimum age of garbage.
    """

    every: Duration = parse_span("1d")
    garbage_age: Duration = parse_span("7d")


class Validation(_Table):
    """Sample that `frazil validate` reads.

    Attributes
    ----------
    steps
        Number of steps in the sample; the newest one is always in it.
    replica
        URL of a repository that must be equal.
    """

    steps: int = Field(5, ge=1)
    replica: str | None = None


class Notify(_Table):
    """A hook: a command or a webhook that gets the report of a run as JSON.

    Attributes
    ----------
    on
        Outcomes that it is called for.
    command
        Program with its arguments, which reads the report from its standard input.
    url, url_env
        Address that the report is sent to, or the environment variable that holds it.
    headers_env
        Environment variables that hold the values of headers.
    tries
        Number of attempts.
    timeout
        Time that one attempt may take.
    """

    on: tuple[Literal["published", "unchanged", "incomplete", "refused", "stale", "failed"], ...] = (
        "published", "incomplete", "refused", "stale", "failed",
    )  # fmt: skip
    command: tuple[str, ...] | None = None
    url: str | None = None
    url_env: str | None = None
    headers_env: Mapping[str, str] = Field(default_factory=dict)
    tries: int = Field(3, ge=1, le=20)
    timeout: Duration = parse_span("10s")

    @model_validator(mode="after")
    def _require_one(self) -> "Notify":
        if sum(each is not None for each in (self.command, self.url, self.url_env)) != 1:
            raise ValueError("give one of command, url, url_env")
        return self


class Observe(_Table):
    """Where traces, metrics, lineage and a catalog of what is published go.

    Attributes
    ----------
    prometheus
        File for the textfile collector of the node exporter.
    traces, metrics
        Whether to send traces and metrics to the global providers of OpenTelemetry.
    lineage, namespace
        Whether to send events to the OpenLineage of the environment, and their namespace.
    stac
        Folder of a STAC collection that describes what is published.
    """

    prometheus: str | None = None
    traces: bool = False
    metrics: bool = False
    lineage: bool = False
    namespace: str = "frazil"
    stac: str | None = None


class NamedCredentials(_Table):
    """Credentials by name; values are never part of a declaration.

    Attributes
    ----------
    kind
        `"environment"`, `"anonymous"`, `"aws_profile"`, `"bearer"`, `"earthdata"` or `"function"`.
    profile
        Profile of `~/.aws`, also of SSO; by default that of `AWS_PROFILE`.
    token_env, token_file, token_command
        Where a bearer token is found: an environment variable, a file, or the output of a command.
    endpoint
        Address that gives temporary S3 credentials for a token or a login of `~/.netrc`.
    function
        Function that returns credentials, as `module:name`.
    """

    kind: Literal["environment", "anonymous", "aws_profile", "bearer", "earthdata", "function"]
    profile: str | None = None
    token_env: str | None = None
    token_file: str | None = None
    token_command: tuple[str, ...] | None = None
    endpoint: str | None = None
    function: str | None = None

    @model_validator(mode="after")
    def _check(self) -> "NamedCredentials":
        tokens = sum(e is not None for e in (self.token_env, self.token_file, self.token_command))
        if self.kind == "bearer" and tokens != 1:
            raise ValueError("bearer needs one of token_env, token_file, token_command")
        if self.kind == "earthdata" and self.endpoint is None:
            raise ValueError("earthdata needs the endpoint that gives S3 credentials")
        if self.kind == "function" and self.function is None:
            raise ValueError("function needs a function, as module:name")
        return self


def _no_slashes(path: str) -> str:
    return path.strip("/")


class Declaration(_Table):
    """A dataset: where it is, what it is made from, and what it must be.

    Attributes
    ----------
    repository
        Path or URL of the repository.
    branch, group
        Branch that is published, and group of the dataset.
    mode
        `"virtual"`, `"native"` or `"auto"`, as for an ingest.
    engine
        `"auto"` runs small cycles in this process and large ones on Spark; or `"driver"`, `"spark"`.
    sources
        The source files.
    dimensions
        Dimensions that files are placed along, the one that grows first.
    variables
        Variables by name.
    chunks
        Chunk lengths of all variables, by dimension.
    attributes
        Attributes of the group.
    checks, guards
        What a version must pass before it is published.
    retention, maintenance, validation
        What is kept, and what is looked at later.
    derive
        Datasets that are derived from this one.
    notify, observe
        Hooks; traces, metrics, lineage and a catalog.
    credentials
        Credentials by name.
    storage_credentials
        Name of the credentials that the repository is opened with. Default: the environment.
    """

    repository: str
    branch: str = "main"
    group: Annotated[str, AfterValidator(_no_slashes)] = ""
    mode: Literal["auto", "virtual", "native"] = "auto"
    engine: Literal["auto", "driver", "spark"] = "auto"
    sources: Sources
    dimensions: Mapping[str, Dimension] = Field(default_factory=dict)
    variables: Mapping[str, Variable] = Field(default_factory=dict)
    chunks: Mapping[str, int] = Field(default_factory=dict)
    attributes: Mapping[str, Any] = Field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    guards: Guards = Guards()
    retention: Retention = Retention()
    maintenance: Maintenance = Maintenance()
    validation: Validation = Field(default_factory=lambda: Validation.model_validate({}))
    derive: tuple[Mapping[str, Any], ...] = ()
    notify: tuple[Notify, ...] = ()
    observe: Observe = Observe()
    credentials: Mapping[str, NamedCredentials] = Field(default_factory=dict)
    storage_credentials: str | None = None
    _folder: str | None = PrivateAttr(None)

    @field_validator("derive")
    @classmethod
    def _check_derived(cls, tables: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
        if problems := list(_find_wrong_tables(tables)):
            raise ProblemsError(problems)
        return tables

    @model_validator(mode="after")
    def _check(self) -> "Declaration":
        if problems := list(self._find_problems()):
            raise ProblemsError(problems)
        return self

    def _find_problems(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        try:
            if parse_location(self.repository).ref is not None:
                yield ("repository",), f"{self.repository!r} names a version: declare the branch"
        except InvalidInputError as error:
            yield ("repository",), error.message
        for place, name in (
            (("sources", "credentials"), self.sources.credentials),
            (("storage_credentials",), self.storage_credentials),
        ):
            if name is not None and name not in self.credentials:
                yield place, f"there are no credentials {name!r}: {suggest(name, self.credentials)}"
        growing = self.growing
        for number, pattern in enumerate(self.sources.files):
            for dim in sorted(find_placeholders(pattern)):
                if dim != growing or self.dimensions[dim].steps is None:
                    text = f"{pattern!r} names {dim!r}, which is no first dimension with start and step"
                    yield ("sources", "files", number), text
        for name, each in self.dimensions.items():
            if name != growing and each.step is not None:
                text = f"only the first dimension, {growing!r}, can grow by steps"
                yield ("dimensions", name, "step"), text
            if each.calendar not in STANDARD and any(map(find_placeholders, self.sources.files)):
                text = f"patterns can't name steps of the calendar {each.calendar!r}"
                yield ("dimensions", name, "calendar"), text
        steps, kept = self.steps, self.retention.steps
        for place, value in (
            (("guards", "partial_after"), self.guards.partial_after),
            (("guards", "freshness"), self.guards.freshness),
            (("retention", "steps"), kept),
        ):
            if value is not None and steps is None:
                yield place, f"{place[1]} needs a first dimension with start and step"
        if steps and kept and kept.after(steps.start) < steps.step.after(steps.start):
            yield ("retention", "steps"), f"{kept} is shorter than one step of {steps.step}"
        if self.guards.newest == "complete" and growing is None:
            yield ("guards", "newest"), "'complete' needs a dimension"
        if self.mode == "virtual" and (
            self.has_storage or any(each.convert for each in self.variables.values())
        ):
            yield ("mode",), "chunks, codecs and convert need mode = 'auto' or 'native'"
        if self.sources.take == "declared" and not self.variables:
            yield ("sources", "take"), "'declared' needs variables"

    @property
    def has_storage(self) -> bool:
        """True if chunks or codecs are declared, which references to files can't have."""
        return bool(self.chunks) or any(e.chunks or e.encoding for e in self.variables.values())

    @property
    def growing(self) -> str | None:
        """Name of the dimension that grows, the first one."""
        return next(iter(self.dimensions), None)

    @property
    def steps(self) -> Steps | None:
        """Regular steps of the dimension that grows, if they are declared."""
        return None if self.growing is None else self.dimensions[self.growing].steps

    @property
    def delay(self) -> Span:
        """Return the time after a step at which its files are due."""
        found = None if self.growing is None else self.dimensions[self.growing].delay
        return found or Span()

    def make_derivation(self, table: Mapping[str, Any]) -> Derivation:
        """Return a derived dataset as `derive` takes it."""
        return _make_derivation(table, f"/{self.group}")

    @property
    def digest(self) -> str:
        """Digest of the declaration, which commits name."""
        return sha256(self.model_dump_json(fallback=str).encode()).hexdigest()[:16]

    def resolve(self, location: str) -> str:
        """Return a location, with a relative path below the folder of the declaration."""
        is_url = "://" in location or location.startswith(("file:", "/"))
        return location if is_url or self._folder is None else str(Path(self._folder) / location)


_PLACE = ("repository", "branch")
"""Keys of a derived dataset that say where it is written."""


def _make_derivation(table: Mapping[str, Any], source: str) -> Derivation:
    given = {name: each for name, each in table.items() if name not in _PLACE}
    return Derivation(**{"source": source, **given})


def _find_wrong_tables(
    tables: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the problems of the tables of derived datasets, with the keys that they are about."""
    known = [*(each.name for each in fields(Derivation)), *_PLACE]
    outputs = dict[tuple[Any, ...], int]()
    for number, table in enumerate(tables):
        unknown = [name for name in table if name not in known]
        for name in unknown:
            yield (number, name), f"unknown key {name!r}: {suggest(name, known)}"
        if "output" not in table:
            yield (number,), "output is missing"
            continue
        try:
            _make_derivation({name: table[name] for name in table if name not in unknown}, "/")
        except InvalidInputError as error:
            yield (number,), error.message
        except (TypeError, AttributeError, ValueError) as error:
            yield (number,), f"it has a value of a wrong type ({error})"
        place = tuple(str(table.get(name, "")) for name in _PLACE)
        first = outputs.setdefault((*place, str(table["output"]).strip("/")), number)
        if first != number:
            text = f"{table['output']!r} is the output of derived dataset {first + 1}, too"
            yield (number, "output"), text


def find_function(name: str) -> Any:
    """Return the function that `module:name` names; raises InvalidInputError."""
    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(
            f"there is no function {name!r}: write module:name ({error})"
        ) from error
    return found
