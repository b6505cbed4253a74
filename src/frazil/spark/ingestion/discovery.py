"""Discover the source files to ingest: by name, by pattern, or below a prefix."""

import contextlib
import re
from collections.abc import Container, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.spark.job import DataFrame
from frazil.virtual import source_formats
from frazil.virtual.containers import normalize_location
from frazil.virtual.source import FileVersion
from frazil.virtual.source_formats import GRIB, SourceStores, escape_url, key_url

SourceName = str | PathLike[str]

_CONCURRENT_REQUESTS = 32
_GONE = FileVersion(None, datetime(1970, 1, 1, tzinfo=UTC), 0)

_WILDCARDS = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """Source file with its version at discovery."""

    location: str
    version: FileVersion


Sources = SourceName | Iterable[SourceName] | DataFrame
_URI_COLUMNS = ("source", "uri", "url", "path")


def list_names(sources: Sources) -> list[SourceName]:
    """Return the names of sources, which may be the rows of a DataFrame."""
    if isinstance(sources, str | PathLike):
        return [sources]
    if isinstance(sources, Iterable):
        return list(sources)
    named = sources.select(_find_column(sources.columns)).dropna()
    names: list[SourceName] = named.toArrow().column(0).to_pylist()
    return names


def _find_column(columns: list[str]) -> str:
    named = [name for name in _URI_COLUMNS if name in columns] or columns
    if len(columns) > 1 and named == columns:
        expected = ", ".join(_URI_COLUMNS)
        raise InvalidInputError(f"none of the columns {columns} is one of {expected}")
    return named[0]


def discover(
    names: Iterable[SourceName], stores: SourceStores, *, are_announced: bool = False
) -> tuple[SourceFile, ...]:
    """Return the files of all names, without duplicates, sorted by location.

    Indexes beside GRIB files are left out.

    Parameters
    ----------
    names
        Paths or URLs of files, of Zarr hierarchies, of prefixes (every file and hierarchy below), or
        patterns (`*` and `?` match within a folder, `**` across folders).
    stores
        Stores that the names are resolved in.
    are_announced
        Whether files may be gone by now. They are returned as if they were there, and found to be bad
        when they are opened.

    Raises
    ------
    InvalidInputError
        If a name matches no file.
    """
    found: dict[str, FileVersion] = {}
    urls = {_to_url(name): name for name in names}
    is_remote = any(not url.startswith("file:") for url in urls)
    with ThreadPoolExecutor(_CONCURRENT_REQUESTS if is_remote else 1) as pool:
        listed = pool.map(lambda url: dict(_find(url, stores)), urls)
        for (url, name), files in zip(urls.items(), listed, strict=True):
            if not files and not are_announced:
                raise InvalidInputError(f"there is no file at {name}", kind="key-not-found")
            found |= files or {normalize_location(url): _GONE}
    wanted = [location for location in sorted(found) if not _is_index(location, found)]
    return tuple(SourceFile(location, found[location]) for location in wanted)


def _is_index(location: str, files: Container[str]) -> bool:
    """Return whether a file is the index of another: of NOAA, of cfgrib with a hash, of ECMWF."""
    stem, _, ending = location.rpartition(".")
    if ending == "idx":
        return stem in files or stem.rpartition(".")[0] in files
    return ending == "index" and any(stem + each in files for each in GRIB.endings)


def _find(url: str, stores: SourceStores) -> Iterator[tuple[str, FileVersion]]:
    if _WILDCARDS.search(url):
        # A file may have such a name itself.
        with contextlib.suppress(ObjectNotFoundError):
            yield escape_url(url), source_formats.observe(stores, url)
            return
        yield from _find_matching(url, stores)
        return
    location = normalize_location(url)
    plain = key_url(location.rstrip("/"))
    if not location.endswith("/"):
        try:
            yield location, source_formats.observe(stores, plain)
            return
        except ObjectNotFoundError:
            pass
    if source_formats.read_folder_metadata(stores, plain) is not None:
        yield location.rstrip("/"), source_formats.observe_folder(stores, plain)
        return
    below = source_formats.observe_below(stores, plain + "/")
    for each, version in source_formats.join_folders(below, plain).items():
        yield escape_url(each), version


def _find_matching(pattern: str, stores: SourceStores) -> Iterator[tuple[str, FileVersion]]:
    matches = re.compile(translate(pattern.rstrip("/"))).fullmatch
    top = folder_of(pattern)
    below = source_formats.observe_below(stores, top)
    for url, version in source_formats.join_folders(below, top).items():
        if matches(url):
            yield escape_url(url), version


def folder_of(pattern: str) -> str:
    """Return the deepest folder that contains every match of a pattern."""
    wildcard = _WILDCARDS.search(pattern)
    return pattern[: pattern.rindex("/", 0, wildcard.start() if wildcard else None) + 1]


def find_tops(names: Iterable[SourceName]) -> tuple[str, ...]:
    """Return the folders that names are in, or are themselves."""
    tops = []
    for name in names:
        url = _to_url(name)
        if _WILDCARDS.search(url):
            tops.append(escape_url(folder_of(url)))
        else:
            location = normalize_location(url)
            is_folder = location.endswith("/") or "." not in location.rpartition("/")[2]
            tops.append(
                location.rstrip("/") + "/" if is_folder else location.rpartition("/")[0] + "/"
            )
    return tuple(dict.fromkeys(tops))


def translate(pattern: str) -> str:
    """Translate a pattern into a regular expression; only `**` matches across folders."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", pattern)
    return "".join(_translate_part(part) for part in parts)


def _translate_part(part: str) -> str:
    match part:
        case "**/":
            return "(?:.*/)?"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    if part.startswith("[") and part.endswith("]"):
        return "[" + part[1:-1].replace("!", "^", 1).replace("\\", "\\\\") + "]"
    return re.escape(part)


def _to_url(name: SourceName) -> str:
    text = str(name)
    if "://" in text or text.startswith("file:"):
        return text
    # Patterns are matched against unescaped keys, so unlike other paths they are not escaped.
    path = Path(text).absolute()
    ending = "/" if text.endswith("/") else ""
    return f"file://{path}{ending}" if _WILDCARDS.search(text) else path.as_uri() + ending
