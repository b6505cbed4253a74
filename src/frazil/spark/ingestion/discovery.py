"""Discover the source files to ingest: by name, by pattern, or below a prefix."""

import contextlib
import os
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.compute as pc
from obstore.store import LocalStore, ObjectStore

from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.maintenance.reachability import in_batches
from frazil.spark.job import DataFrame
from frazil.virtual import source_formats
from frazil.virtual.containers import normalize_location
from frazil.virtual.source import FileVersion
from frazil.virtual.source_formats import GRIB, SourceStores, escape_url, key_url

SourceName = str | PathLike[str]

_CONCURRENT_REQUESTS = 32
_REQUESTED_AT_ONCE = 1_000
_LISTED_AT_ONCE = 10_000
"""Objects listed by one request after the other before folders are listed concurrently."""
_PATTERNS_AT_ONCE = 200
"""Patterns that are one regular expression."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WILDCARDS = re.compile(r"[*?\[]")
_TEXT = pa.large_string()
_FILES = pa.schema({"source": _TEXT, "etag": _TEXT, "size": pa.int64(), "mtime": pa.int64()})
"""Columns of files; times are microseconds since 1970."""
_ZARR_METADATA = r"/(\.zmetadata|zarr\.json|\.zgroup|\.zarray)$"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """Source file with its version at discovery."""

    location: str
    version: FileVersion


def count_microseconds(moment: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def tabulate(files: Iterable[SourceFile]) -> pa.Table:
    """Return files as columns."""
    rows = [
        (
            e.location,
            e.version.e_tag,
            e.version.size_bytes,
            count_microseconds(e.version.modified_at),
        )
        for e in files
    ]
    columns = zip(*rows, strict=True) if rows else ((),) * len(_FILES)
    return pa.table(list(map(list, columns)), schema=_FILES)


def list_files(files: pa.Table) -> list[SourceFile]:
    """Return columns of files as objects."""
    rows = zip(*(column.to_pylist() for column in files.columns), strict=True)
    return [
        SourceFile(source, FileVersion(etag, EPOCH + timedelta(microseconds=mtime), size))
        for source, etag, size, mtime in rows
    ]


Sources = SourceName | Iterable[SourceName | SourceFile] | DataFrame
_URI_COLUMNS = ("source", "uri", "url", "path")


def list_names(sources: Sources) -> list[SourceName | SourceFile]:
    """Return the names of sources, which may be the rows of a DataFrame."""
    if isinstance(sources, str | PathLike):
        sources = [sources]
    if isinstance(sources, Iterable):
        given: list[Any] = list(sources)
        for each in given:
            if not isinstance(each, str | PathLike | SourceFile) or each == "":
                raise InvalidInputError(
                    f"invalid source {each!r}: expected a path, a URL or a pattern"
                )
        return given
    if not hasattr(sources, "columns"):
        raise InvalidInputError(
            f"invalid sources {sources!r}: expected a path, a URL, a pattern, several of them, or a "
            "DataFrame"
        )
    named = sources.select(_find_column(sources.columns)).dropna()
    names: list[SourceName | SourceFile] = named.toArrow().column(0).to_pylist()
    return names


def _find_column(columns: list[str]) -> str:
    named = [name for name in _URI_COLUMNS if name in columns] or columns
    if len(columns) > 1 and named == columns:
        expected = ", ".join(_URI_COLUMNS)
        raise InvalidInputError(f"none of the columns {columns} is one of {expected}")
    return named[0]


def discover(
    names: Iterable[SourceName | SourceFile],
    stores: SourceStores,
    *,
    are_announced: bool = False,
    may_be_none: bool = False,
) -> pa.Table:
    """Return the files of all names as columns, without duplicates, sorted by location.

    Indexes beside GRIB files are left out.

    Parameters
    ----------
    names
        Paths or URLs of files, of Zarr hierarchies, of prefixes (every file and hierarchy below), or
        patterns (`*` and `?` match within a folder, `**` across folders). Files that were discovered
        before are returned as they are.
    stores
        Stores that the names are resolved in.
    are_announced
        Whether files may be gone by now. They are returned as if they were there, and found to be bad
        when they are opened.
    may_be_none
        Whether a name may match no file.

    Raises
    ------
    InvalidInputError
        If a name matches no file.
    """
    given = list(names)
    single = [each for each in given if isinstance(each, SourceFile)]
    listed: list[pa.Table] = []
    urls = {_to_url(name): name for name in given if not isinstance(name, SourceFile)}
    if may_be_none:
        for top, alike in _group_patterns(urls):
            patterns = [_compile(url) for url in sorted(alike)]
            listed.append(source_formats.patiently(partial(_list_below, stores, top, patterns)))
            urls = {url: name for url, name in urls.items() if url not in alike}
    is_remote = any(not url.startswith("file:") for url in urls)
    with ThreadPoolExecutor(_CONCURRENT_REQUESTS if is_remote else 1) as pool:
        # Some at a time: a request that waits takes more memory than its file.
        batches = in_batches(urls, _REQUESTED_AT_ONCE)
        answers = (pool.map(lambda url: _find_patiently(url, stores), batch) for batch in batches)
        for (url, name), found in zip(urls.items(), chain.from_iterable(answers), strict=True):
            if isinstance(found, SourceFile):
                single.append(found)
            elif len(found):
                listed.append(found)
            elif are_announced:
                single.append(SourceFile(normalize_location(url), FileVersion(None, EPOCH, 0)))
            elif not may_be_none:
                raise InvalidInputError(f"there is no file at {name}", kind="key-not-found")
    files = pa.concat_tables([tabulate(single), *listed]).combine_chunks()
    files = files.take(pc.sort_indices(files["source"]))
    sources = files["source"].combine_chunks()
    if len(files) > 1:
        is_first = pc.not_equal(sources[1:], sources[:-1]).to_numpy(zero_copy_only=False)
        files = files.filter(pa.array(np.concatenate([[True], is_first])))
    return _without_indexes(files)


def _join(*texts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*texts, pa.scalar("", _TEXT))


def _without_indexes(files: pa.Table) -> pa.Table:
    """Leave out the indexes of other files: those of NOAA, of cfgrib with a hash, of ECMWF."""
    sources = files["source"].combine_chunks()
    may_be = pc.match_substring_regex(sources, r"\.(idx|index)$").to_numpy(zero_copy_only=False)
    if not may_be.any():
        return files
    rows = np.flatnonzero(may_be)
    stems = pc.replace_substring_regex(sources.take(pa.array(rows)), r"\.[^.]*$", "")
    shorter = pc.replace_substring_regex(stems, r"\.[^.]*$", "")
    others = [stems, shorter, *(_join(stems, pa.scalar(e, _TEXT)) for e in GRIB.endings)]
    is_there = [pc.is_in(each, sources).to_numpy(zero_copy_only=False) for each in others]
    is_noaa = pc.ends_with(sources.take(pa.array(rows)), ".idx").to_numpy(zero_copy_only=False)
    is_index = np.where(is_noaa, np.any(is_there[:2], axis=0), np.any(is_there[2:], axis=0))
    kept = np.ones(len(files), bool)
    kept[rows[is_index]] = False
    return files.filter(pa.array(kept))


def _find_patiently(url: str, stores: SourceStores) -> SourceFile | pa.Table:
    return source_formats.patiently(lambda: _find(url, stores))


def _find(url: str, stores: SourceStores) -> SourceFile | pa.Table:
    """Return the file at a URL, or the files that it stands for."""
    if _WILDCARDS.search(url):
        # A file may have such a name itself.
        with contextlib.suppress(ObjectNotFoundError):
            return SourceFile(escape_url(url), source_formats.observe(stores, url))
        return _list_below(stores, folder_of(url), [_compile(url)])
    location = normalize_location(url)
    plain = key_url(location.rstrip("/"))
    if not location.endswith("/"):
        with contextlib.suppress(ObjectNotFoundError):
            return SourceFile(location, source_formats.observe(stores, plain))
    if source_formats.read_folder_metadata(stores, plain) is not None:
        return SourceFile(location.rstrip("/"), source_formats.observe_folder(stores, plain))
    return _list_below(stores, plain + "/")


def _group_patterns(urls: Iterable[str]) -> Iterator[tuple[str, set[str]]]:
    """Yield folders that several patterns are in, each with these patterns."""
    groups: dict[str, set[str]] = {}
    for url in urls:
        if _WILDCARDS.search(url):
            groups.setdefault(folder_of(url), set()).add(url)
    yield from ((top, alike) for top, alike in groups.items() if len(alike) > 1)


def _compile(url: str) -> str:
    """Return the regular expression of a pattern; raise InvalidInputError if it is none."""
    pattern = translate(url.rstrip("/"))
    try:
        re.compile(pattern)
    except re.error as error:
        raise InvalidInputError(f"invalid pattern {url!r}: {error}") from error
    return pattern


def _list_below(stores: SourceStores, top: str, patterns: Sequence[str] = ()) -> pa.Table:
    """Return the files in a folder whose URLs match, with each Zarr hierarchy as one of them."""
    store, key = stores.resolve(top)
    base = top[: len(top) - len(key)]
    is_local = isinstance(store, LocalStore)
    with source_formats.reading(stores, top):
        listed = _list_disk(f"/{key}") if is_local else _list_bucket(store, key)
    if not len(listed):
        return listed
    urls = _join(pa.scalar(base, _TEXT), listed["source"].combine_chunks())
    files = _join_hierarchies(listed.set_column(0, "source", urls), top)
    # Not Python's engine: a million names are matched at once.
    if patterns:
        parts = [
            pc.match_substring_regex(
                files["source"], f"^(?:{'|'.join(patterns[at : at + _PATTERNS_AT_ONCE])})$"
            )
            for at in range(0, len(patterns), _PATTERNS_AT_ONCE)
        ]
        files = files.filter(reduce(pc.or_, parts))
    return files.set_column(0, "source", _escape(files["source"].combine_chunks(), is_local))


def _list_bucket(store: ObjectStore, key: str) -> pa.Table:
    """Return the objects below a prefix, by their keys."""
    tables: list[pa.Table] = []
    waiting = [key]
    with ThreadPoolExecutor(_CONCURRENT_REQUESTS) as pool:
        while waiting:
            found = list(pool.map(lambda each: _list_folder(store, each), waiting))
            tables += [table for each, _ in found for table in each]
            waiting = [folder for _, folders in found for folder in folders]
    if not tables:
        return _FILES.empty_table()
    listed = pa.concat_tables(tables)
    mtimes = listed["last_modified"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    columns = [listed["path"], listed["e_tag"], listed["size"], mtimes]
    return pa.table(columns, _FILES.names).cast(_FILES)


def _list_folder(store: ObjectStore, key: str) -> tuple[list[pa.Table], list[str]]:
    """Return the files below a folder, or only those in it, and the folders still to be listed."""
    listed: list[pa.Table] = []
    for batch in obstore.list(store, prefix=key, chunk_size=_LISTED_AT_ONCE, return_arrow=True):
        listed.append(pa.table(batch))
        if len(listed) == 2:
            inside = obstore.list_with_delimiter(store, prefix=key, return_arrow=True)
            if len(inside["common_prefixes"]) > 1:
                return [pa.table(inside["objects"])], list(inside["common_prefixes"])
    return listed, []


def _list_disk(top: str) -> pa.Table:
    """Return the files below a folder of this machine, by their paths without the leading slash.

    Links are followed, except for those that lead to a folder above them.
    """
    paths: list[str] = []
    sizes: list[int] = []
    times: list[int] = []
    waiting: list[tuple[str, tuple[str, ...]]] = [(top, ())]
    while waiting:
        folder, above = waiting.pop()
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(folder) as inside,
        ):
            for each in inside:
                if each.is_dir() and not each.is_symlink():
                    waiting.append((each.path, above))
                elif each.is_dir():
                    target, here = os.path.realpath(each.path), os.path.realpath(folder)
                    # A link to a folder that it is in would be followed for ever.
                    if not any(f"{path}/".startswith(f"{target}/") for path in (*above, here)):
                        waiting.append((each.path, (*above, here, target)))
                elif each.is_file():
                    found = each.stat()
                    paths.append(each.path[1:])
                    sizes.append(found.st_size)
                    times.append(found.st_mtime_ns // 1000)
    try:
        names = pa.array(paths, _TEXT)
    except UnicodeEncodeError:
        # Names that are no text are not found when they are opened, and reported as bad files.
        names = pa.array([os.fsencode(e).decode("utf-8", "replace") for e in paths], _TEXT)
    return pa.table([names, pa.nulls(len(paths), _TEXT), sizes, times], schema=_FILES)


def _escape(urls: pa.Array, is_local: bool) -> pa.Array:
    """Return the locations of URLs with unescaped keys; plain names are their own."""
    plain = r"^file:[A-Za-z0-9_.~/-]*$" if is_local else r"^[A-Za-z0-9_.~:/@=+,-]*$"
    is_plain = pc.match_substring_regex(urls, plain).to_numpy(zero_copy_only=False)
    if is_plain.all():
        return urls
    rows = np.flatnonzero(~is_plain)
    found = urls.to_numpy(zero_copy_only=False)
    found[rows] = [escape_url(each) for each in found[rows]]
    return pa.array(found, _TEXT)


def _join_hierarchies(files: pa.Table, top: str) -> pa.Table:
    """Return files with each Zarr hierarchy among them as one source."""
    urls = files["source"].combine_chunks()
    marks = urls.filter(pc.match_substring_regex(urls, _ZARR_METADATA)).to_pylist()
    roots = {url.rpartition("/")[0] for url in marks}
    roots = {each for each in roots if len(each) > len(top.rstrip("/"))}
    if not roots:
        return files
    folders = pc.replace_substring_regex(urls, "/[^/]*$", "").dictionary_encode()
    root_of = pa.array([_find_root(each, roots) for each in folders.dictionary.to_pylist()], _TEXT)
    root = root_of.take(folders.indices)
    inside = files.set_column(0, "source", root).filter(pc.is_valid(root))
    joined = inside.group_by("source").aggregate([("size", "sum"), ("mtime", "max")])
    columns = [
        joined["source"],
        pa.nulls(len(joined), _TEXT),
        joined["size_sum"],
        joined["mtime_max"],
    ]
    return pa.concat_tables([files.filter(pc.is_null(root)), pa.table(columns, schema=_FILES)])


def _find_root(folder: str, roots: Container[str]) -> str | None:
    """Return the outermost hierarchy that a folder is in, or None."""
    ends = [each.start() for each in re.finditer("/", folder)]
    return next((path for at in [*ends, None] if (path := folder[:at]) in roots), None)


def folder_of(pattern: str) -> str:
    """Return the deepest folder that contains every match of a pattern."""
    wildcard = _WILDCARDS.search(pattern)
    return pattern[: pattern.rindex("/", 0, wildcard.start() if wildcard else None) + 1]


def find_tops(names: Iterable[SourceName | SourceFile]) -> tuple[str, ...]:
    """Return the folders that names are in, or are themselves."""
    tops = []
    for name in names:
        url = name.location if isinstance(name, SourceFile) else _to_url(name)
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
