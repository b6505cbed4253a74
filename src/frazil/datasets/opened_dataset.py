"""A declared dataset with its repository, credentials, sources and the options of its ingest."""

import json
import logging
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha1
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

import obstore
import pyarrow as pa
import xarray as xr

from frazil.credentials import (
    Credentials,
    S3StaticCredentials,
    s3_anonymous_credentials,
    s3_from_env_credentials,
    s3_refreshable_credentials,
)
from frazil.datasets.declaration import Check, Declaration, NamedCredentials, find_function
from frazil.datasets.guards import (
    Version,
    read_version,
)
from frazil.datasets.steps import Values, expand, find_placeholders
from frazil.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
    SetupError,
)
from frazil.repository.repository import Repository
from frazil.spark.audit import NewRegion
from frazil.spark.checks import as_checks, fill_share, values_between
from frazil.spark.ingestion.discovery import SourceFile, discover
from frazil.spark.ingestion.ingest_job import ingest
from frazil.spark.ingestion.ingest_report import IngestReport
from frazil.spark.ingestion.ledger import look_again
from frazil.spark.ingestion.source_data import SourceOptions, find_by_prefix
from frazil.spark.job import Job, RunOn
from frazil.storage.constructors import storage_from_url
from frazil.urls import parse_location
from frazil.virtual.source_formats import SourceStores, key_url, reading

_TIMEOUT = 30.0


def find_credential(declared: NamedCredentials) -> Any:
    """Return the credential that a name stands for, of the kind that its store takes."""
    match declared.kind:
        case "environment":
            return Credentials.S3(s3_from_env_credentials())
        case "anonymous":
            return Credentials.S3(s3_anonymous_credentials())
        case "aws_profile":
            return Credentials.S3(s3_refreshable_credentials(AwsProfile(declared.profile)))
        case "earthdata":
            return Credentials.S3(s3_refreshable_credentials(TemporaryS3(declared)))
        case "function":
            return find_function(str(declared.function))()
    return Credentials.HttpBearer(partial(find_token, declared))


def find_token(declared: NamedCredentials) -> str:
    """Return a bearer token from where it is declared; raises SetupError if there is none."""
    if declared.token_env is not None:
        token = os.environ.get(declared.token_env, "")
        where = f"the environment variable {declared.token_env}"
    elif declared.token_file is not None:
        path = Path(declared.token_file).expanduser()
        token = path.read_text(encoding="utf-8") if path.exists() else ""
        where = f"the file {declared.token_file}"
    else:
        command = declared.token_command or ()
        where = f"the command {command[0]}"
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIMEOUT, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SetupError(f"{where} gave no token: {type(error).__name__}") from None
        token = done.stdout
    if not token.strip():
        raise SetupError(f"{where} holds no token")
    return token.strip()


@dataclass(frozen=True, slots=True)
class AwsProfile:
    """Credentials of a profile of `~/.aws`: keys, a process, or single sign-on."""

    profile: str | None = None

    def __call__(self) -> S3StaticCredentials:
        """Return credentials that are valid now; raises SetupError if there are none."""
        name = self.profile or os.environ.get("AWS_PROFILE", "default")
        options = self._read(name)
        if "aws_access_key_id" in options:
            return S3StaticCredentials(
                options["aws_access_key_id"],
                options.get("aws_secret_access_key", ""),
                options.get("aws_session_token"),
                None,
            )
        if "credential_process" in options:
            return self._run_process(name, options["credential_process"])
        if "sso_account_id" in options:
            return self._sign_on(name, options)
        raise SetupError(
            f"the profile {name!r} has neither keys, nor credential_process, nor single sign-on"
        )

    def _read(self, name: str) -> dict[str, str]:
        home = Path.home() / ".aws"
        files = {
            "AWS_SHARED_CREDENTIALS_FILE": (home / "credentials", name),
            "AWS_CONFIG_FILE": (home / "config", name if name == "default" else f"profile {name}"),
        }
        found: dict[str, str] = {}
        for variable, (path, section) in files.items():
            parser = ConfigParser(interpolation=None)
            parser.read(os.environ.get(variable, path))
            if parser.has_section(section):
                found = {**dict(parser.items(section)), **found}
            session = f"sso-session {found.get('sso_session')}"
            if parser.has_section(session):
                found |= dict(parser.items(session))
        if not found:
            raise SetupError(f"there is no profile {name!r} in ~/.aws")
        return found

    def _run_process(self, name: str, command: str) -> S3StaticCredentials:
        try:
            done = subprocess.run(
                command, shell=True, capture_output=True, text=True, timeout=_TIMEOUT, check=True
            )
            found = json.loads(done.stdout)
            return S3StaticCredentials(
                found["AccessKeyId"],
                found["SecretAccessKey"],
                found.get("SessionToken"),
                _parse_time(found.get("Expiration")),
            )
        except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
            raise SetupError(
                f"credential_process of the profile {name!r} failed: {type(error).__name__}"
            ) from None

    def _sign_on(self, name: str, options: Mapping[str, str]) -> S3StaticCredentials:
        key = options.get("sso_session") or options.get("sso_start_url", "")
        cache = Path.home() / ".aws/sso/cache" / f"{sha1(key.encode()).hexdigest()}.json"
        advice = f"sign on with `aws sso login --profile {name}`"
        try:
            saved = json.loads(cache.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise SetupError(f"the profile {name!r} has no saved sign-on: {advice}") from None
        expires = _parse_time(saved.get("expiresAt"))
        if expires is not None and expires <= datetime.now(UTC):
            raise PermissionDeniedError(f"the sign-on of the profile {name!r} expired: {advice}")
        region = options.get("sso_region", saved.get("region", ""))
        base = os.environ.get("AWS_ENDPOINT_URL_SSO", f"https://portal.sso.{region}.amazonaws.com")
        query = urlencode(
            {"account_id": options["sso_account_id"], "role_name": options.get("sso_role_name", "")}
        )
        headers = {"x-amz-sso_bearer_token": str(saved.get("accessToken", ""))}
        body = _fetch(f"{base}/federation/credentials?{query}", headers)
        found = body.get("roleCredentials", {})
        expires = datetime.fromtimestamp(found.get("expiration", 0) / 1000, UTC)
        return S3StaticCredentials(
            found["accessKeyId"], found["secretAccessKey"], found.get("sessionToken"), expires
        )


@dataclass(frozen=True, slots=True)
class TemporaryS3:
    """Temporary S3 credentials that an archive gives for a token or a login, as Earthdata does."""

    declared: NamedCredentials

    def __call__(self) -> S3StaticCredentials:
        """Return fresh credentials; raises PermissionDeniedError if the archive refuses."""
        declared = self.declared
        endpoint = str(declared.endpoint)
        headers = {}
        if declared.token_env or declared.token_file or declared.token_command:
            headers["Authorization"] = f"Bearer {find_token(declared)}"
        else:
            headers["Authorization"] = _find_login(endpoint)
        found = _fetch(endpoint, headers)
        try:
            return S3StaticCredentials(
                found["accessKeyId"],
                found["secretAccessKey"],
                found.get("sessionToken"),
                _parse_time(found.get("expiration")) or datetime.now(UTC) + timedelta(minutes=50),
            )
        except KeyError:
            raise PermissionDeniedError(f"{endpoint} gave no S3 credentials") from None


def _find_login(endpoint: str) -> str:
    """Return the login that `~/.netrc` has for a host, as a header."""
    import base64  # noqa: PLC0415 (one of three kinds needs it)

    host = urlsplit(endpoint).hostname or ""
    try:
        found = netrc(os.environ.get("NETRC")).authenticators(host)
    except (OSError, NetrcParseError):
        found = None
    if found is None:
        raise SetupError(f"~/.netrc has no login for {host}, and no token is declared")
    return "Basic " + base64.b64encode(f"{found[0]}:{found[2]}".encode()).decode()


def _fetch(url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    where = urlsplit(url).netloc
    try:
        with urlopen(Request(url, headers=dict(headers)), timeout=_TIMEOUT) as response:
            body = json.loads(response.read())
    except HTTPError as error:
        raise PermissionDeniedError(f"{where} answered {error.code} to the login") from None
    except (URLError, OSError, ValueError) as error:
        raise SetupError(f"{where} gave no credentials: {type(error).__name__}") from None
    return body if isinstance(body, dict) else {}


def _parse_time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text.replace("UTC", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


log = logging.getLogger("frazil.datasets")

_LOOKBACK = timedelta(days=3)
_DRIVER_FILES, _DRIVER_BYTES = 500, 256 << 20
"""Most files and bytes that a cycle ingests without Spark."""
_COMPARED_BYTES = 8 << 20
"""Bytes of two files that are compared at a time."""


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

    def discover(self, patterns: Sequence[str], published: Version) -> pa.Table:
        """Return the files that some patterns match, as columns."""
        stores = SourceStores((), self.credentials)
        found = discover(patterns, stores, may_be_none=True)
        return look_again(found, published.ledger, self.declaration.group, stores)

    def are_copies(self, one: SourceFile, other: SourceFile) -> bool:
        """Return whether two files have the same bytes."""
        size = one.version.size_bytes
        if size != other.version.size_bytes:
            return False
        if one.version.e_tag is not None and one.version.e_tag == other.version.e_tag:
            return True
        stores = SourceStores((), self.credentials)

        def read(file: SourceFile, start: int) -> bytes:
            url = key_url(file.location)
            store, key = stores.resolve(url)
            end = min(start + _COMPARED_BYTES, size)
            with reading(stores, url):
                return bytes(obstore.get_range(store, key, start=start, end=end))

        try:
            starts = range(0, size, _COMPARED_BYTES)
            return all(read(one, start) == read(other, start) for start in starts)
        except ObjectNotFoundError:
            # A Zarr hierarchy, or a file that was there before.
            return False

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
            mode="native"
            if declaration.mode == "auto" and declaration.has_storage
            else declaration.mode,
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
