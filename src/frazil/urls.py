"""Repository URLs: the location and version of a repository in one line of text.

::

    path/to/repository@v1                           a local path
    file:///path/to/repository?tag=v1
    s3://bucket/prefix@v1?region=eu-central-1
    gs://bucket/prefix?branch=dev
    az://container/prefix?account=name
    https://server/path?snapshot=VY76P925PRY57WFEK410
    memory://name?as_of=2026-01-31T12:00:00Z        one storage per name and process

Rules:

- The prefix `icechunk+` of a scheme is ignored, and `icechunk:///path` means `file:///path`. Both
  identify the URL as a repository to other programs.
- A ref follows the first `@` after the last `/` of the path, never the host. A path whose last
  segment contains an `@` must end with a slash: `data/run@2/` is a path, and `data/run@2/@v1` its
  version v1.
- URLs and all queries are percent-encoded; a plain path is taken literally, up to a `?`.
- No secrets: `user:password@` and options that hold secrets are rejected and never repeated.
"""

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self, cast, get_args
from urllib.parse import quote, unquote

from frazil.errors import InvalidInputError, InvalidTypeError
from frazil.lazy import dataclass

Scheme = Literal["file", "s3", "gs", "az", "http", "https", "memory"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)

OPTIONS: Mapping[Scheme, frozenset[str]] = {
    "file": frozenset(),
    "s3": frozenset(
        ("region", "endpoint_url", "anonymous", "allow_http", "force_path_style", "requester_pays")
    ),
    "gs": frozenset(("endpoint_url", "anonymous", "allow_http")),
    "az": frozenset(("account", "endpoint_url", "anonymous", "allow_http")),
    "http": frozenset(),
    "https": frozenset(),
    "memory": frozenset(),
}
"""Storage options that a URL may contain, by the parameter names of the storage constructors."""

SWITCHES = frozenset(("anonymous", "allow_http", "force_path_style", "requester_pays"))
"""Options with a boolean value."""

_REFS = ("branch", "tag", "snapshot", "ref", "as_of")
_SCHEME = r"(?:(icechunk)\+)?([A-Za-z][A-Za-z0-9+.-]*)://"
_NAME = r"[^@:]*"
_SERVER = r"([^@:\[\]]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
_SECRET = (
    r"(?i)key|secret|token|password|passwd|credential|sas|(?<!skip_)signature|\bsig\b|authorization"
)


@dataclass(frozen=True, slots=True)
class BranchRef:
    """Tip of a branch, or its latest snapshot at a given time.

    Parameters
    ----------
    name
        Name of the branch.
    as_of
        Time; None for the tip.
    """

    name: str
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class TagRef:
    """Tag."""

    name: str


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """Snapshot by id."""

    id: str


@dataclass(frozen=True, slots=True)
class NamedRef:
    """Tag, branch or snapshot with this name, whichever exists."""

    name: str


Ref = BranchRef | TagRef | SnapshotRef | NamedRef


@dataclass(frozen=True, slots=True)
class RepositoryUrl:
    """Location, version, and storage options of a repository; `str` returns an equivalent URL.

    Attributes
    ----------
    scheme
        Scheme of the URL; `file` for a plain path.
    host
        Bucket, container, server, or name of an in-memory storage; empty for a local path.
    path
        Decoded path, without slashes at its ends except for local paths.
    ref
        Version named by the URL; None if it names none.
    options
        Pairs of an option's name and value, sorted by name.
    """

    scheme: Scheme
    host: str
    path: str
    ref: Ref | None = None
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a URL or a plain path.

        Parameters
        ----------
        text
            The URL or path.

        Returns
        -------
        RepositoryUrl
            The parsed URL.

        Raises
        ------
        InvalidInputError
            If it is invalid; the message contains no secrets.
        """
        found = re.match(_SCHEME, text)
        place, _, query = text[found.end() if found else 0 :].partition("?")
        scheme, host, path, name = _parse_path(place) if found is None else _parse_url(found, place)
        options = _parse_query(query)
        ref = _choose_ref(name, {each: options.pop(each, None) for each in _REFS})
        _require_known(scheme, options)
        if scheme == "file" and not path:
            raise InvalidInputError("a path is needed: nothing says where the repository is")
        return cls(scheme, host, _trim(scheme, path), ref, tuple(sorted(options.items())))

    @classmethod
    def of_path(cls, path: "os.PathLike[str]") -> Self:
        """Return the URL of a local directory, with any characters in its name."""
        return cls("file", "", str(Path(path).absolute()))

    def __str__(self) -> str:
        place, query = self._spell_place(), self._spell_query()
        if "@" in place.rpartition("/")[2]:
            place = f"{place}/"
        if isinstance(self.ref, NamedRef) and _is_plain(self.ref.name):
            place = f"{place}@{self.ref.name}"
        elif not self.path:
            place = place.removesuffix("/")
        return f"{place}?{query}" if query else place

    def _spell_place(self) -> str:
        path = quote(self.path, safe=_SAFE)
        if self.scheme != "file":
            return f"{self.scheme}://{self.host}/{path}"
        is_plain = "?" not in self.path and not re.match(_SCHEME, self.path)
        return self.path if is_plain else f"file://{path}"

    def _spell_query(self) -> str:
        pairs = [*_spell_ref(self.ref), *self.options]
        return "&".join(f"{name}={quote(value, safe=_SAFE)}" for name, value in pairs)


_SAFE = "/:@!$'()*,;~"

Location = str | os.PathLike[str] | RepositoryUrl
"""URL or path as text, a path object, or a parsed URL."""


def parse_location(location: Location) -> RepositoryUrl:
    """Parse a location; a path object is taken literally."""
    match location:
        case RepositoryUrl():
            return location
        case str():
            return RepositoryUrl.parse(location)
        case os.PathLike():
            return RepositoryUrl.of_path(location)
    raise InvalidTypeError(f"a location must be a URL or a path, not a {type(location).__name__}")


def make_ref(
    *,
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    as_of: datetime | str | None = None,
) -> Ref | None:
    """Return the version given by the arguments, or None if there is none.

    `as_of` alone applies to the branch main.
    """
    text = as_of.isoformat() if isinstance(as_of, datetime) else as_of
    return _choose_ref(None, {"branch": branch, "tag": tag, "snapshot": snapshot, "as_of": text})


_Place = tuple[Scheme, str, str, str | None]
"""Scheme, host, path, and the text after the `@`."""


def _parse_path(place: str) -> _Place:
    return ("file", "", *_split_ref(place))


def _parse_url(found: "re.Match[str]", place: str) -> _Place:
    if "#" in place:
        raise InvalidInputError("a URL of a repository has no fragment: write %23 for #")
    host, _, rest = place.partition("/")
    _refuse_user(found[2].lower(), host)
    scheme = _require_scheme(found[2].lower(), host)
    path, name = _split_ref(rest)
    path, name = _decode(path), name and _decode(name)
    return (scheme, "", f"/{path}", name) if scheme == "file" else (scheme, host, path, name)


def _require_scheme(scheme: str, host: str) -> Scheme:
    if scheme == "icechunk":
        if host:
            raise InvalidInputError(
                "icechunk:// is followed by an absolute path, as in icechunk:///path/to/repository;"
                " otherwise the scheme says where, as in icechunk+s3://bucket/prefix"
            )
        return "file"
    if scheme not in SCHEMES:
        known = ", ".join(SCHEMES)
        raise InvalidInputError(f"there are no repositories at {scheme}:// (but at {known})")
    if scheme == "file" and host not in ("", "localhost"):
        raise InvalidInputError(f"file://{host}: a file is here, so three slashes follow file:")
    if scheme != "file" and not host:
        raise InvalidInputError(f"{scheme}:// is followed by a name, as in {scheme}://name/path")
    return scheme


def _refuse_user(scheme: str, host: str) -> None:
    # A slash in a secret ends the host early, so text that looks like a port may not be one.
    if not re.fullmatch(_SERVER if scheme in ("http", "https") else _NAME, host):
        raise InvalidInputError(
            f"there is an @ or a : in the name after {scheme}://. A URL of a repository holds neither"
            " user nor password: credentials come from the environment, or from arguments of the call."
            f" And a ref follows a slash, as in {scheme}://name/@ref"
        )


def _split_ref(path: str) -> tuple[str, str | None]:
    folder, slash, last = path.rpartition("/")
    segment, at, name = last.partition("@")
    if not at:
        return path, None
    if not name:
        raise InvalidInputError("nothing follows the @: name a branch, a tag or a snapshot")
    return f"{folder}{slash}{segment}", name


def _trim(scheme: Scheme, path: str) -> str:
    if scheme == "file":
        return path.rstrip("/") or "/"
    return path.strip("/")


def _parse_query(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, equals, value = part.partition("=")
        name = _decode(name)
        if name in options:
            raise InvalidInputError(f"{name!r} is said twice")
        options[name] = _decode(value) if equals or name not in SWITCHES else "true"
    return options


def is_secret(name: str) -> bool:
    """Return True if an option of this name holds a secret. This is the only list of such names."""
    return re.search(_SECRET, name) is not None


def _require_known(scheme: Scheme, options: Mapping[str, str]) -> None:
    known = OPTIONS[scheme]
    for name, value in options.items():
        if name not in known and is_secret(name):
            raise InvalidInputError(
                f"{name!r} does not belong into a URL, which holds no secrets: credentials come from"
                " the environment, or from arguments of the call"
            )
        if name not in known:
            choice = ", ".join((*_REFS, *sorted(known)))
            raise InvalidInputError(f"{scheme}: no option {name!r}; there are {choice}")
        if name in SWITCHES and value not in ("true", "false"):
            raise InvalidInputError(f"{name} is true or false")
        if name == "endpoint_url" and ("@" in value or "?" in value):
            raise InvalidInputError(
                "invalid endpoint_url: expected a server and perhaps a path, without user or query"
            )


def _choose_ref(name: str | None, given: Mapping[str, str | None]) -> Ref | None:
    said = {each: value for each, value in given.items() if value is not None and each != "as_of"}
    if name is not None:
        said["@"] = name
    if len(said) > 1:
        raise InvalidInputError(f"one version can be named, not {len(said)}: {', '.join(said)}")
    as_of = given.get("as_of")
    if as_of is not None:
        return _as_of(said, _parse_time(as_of))
    match list(said.items()):
        case [("branch", value)]:
            return BranchRef(value)
        case [("tag", value)]:
            return TagRef(value)
        case [("snapshot", value)]:
            return SnapshotRef(value)
        case [(_, value)]:
            return NamedRef(value)
    return None


def _as_of(said: Mapping[str, str], moment: datetime) -> BranchRef:
    if "tag" in said or "snapshot" in said:
        raise InvalidInputError("as_of goes with a branch: a tag and a snapshot never change")
    return BranchRef(next(iter(said.values()), "main"), moment)


def _parse_time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(f"as_of={text!r} is no time: {error}") from error
    if moment.tzinfo is None:
        raise InvalidInputError(f"as_of={text!r} needs a time zone, as in 2026-01-31T12:00:00Z")
    return moment


def _spell_ref(ref: Ref | None) -> list[tuple[str, str]]:
    match ref:
        case BranchRef(name, None):
            return [("branch", name)]
        case BranchRef(name, moment):
            moment = cast("datetime", moment).astimezone(UTC)
            return [("branch", name), ("as_of", moment.isoformat().replace("+00:00", "Z"))]
        case TagRef(name):
            return [("tag", name)]
        case SnapshotRef(id):
            return [("snapshot", id)]
        case NamedRef(name) if not _is_plain(name):
            return [("ref", name)]
    return []


def _is_plain(name: str) -> bool:
    """Return True if a name needs no encoding after an `@`, in URLs and in plain paths."""
    return bool(name) and quote(name, safe="@:") == name


def _decode(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidInputError("the percent-encoding of the URL is no UTF-8") from error


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY_UNITS = {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def parse_bytes(size: int | str) -> int:
    """Return the number of bytes of `512MB`, `1.5 GiB` or an int, or raise InvalidInputError."""
    if isinstance(size, int):
        found = size
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?\s*", size.upper())
        if match is None:
            raise InvalidInputError(f"{size!r} is no amount of memory, such as '512MB'")
        found = int(float(match[1]) * {**_UNITS, **_BINARY_UNITS}[match[2] or ""])
    if found < 1:
        raise InvalidInputError(f"{size!r} is no amount of memory")
    return found
