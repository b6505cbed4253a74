"""Options of reading and writing a table, as in `spark.read.format("icechunk").option(…)`.

Every option given has an effect or is refused: otherwise a misspelled name could read another version
than the one requested.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args

from frazil import arguments
from frazil.errors import InvalidInputError
from frazil.tables.columns import group_path
from frazil.tables.predicates import find_zone, parse_time
from frazil.urls import BranchRef, NamedRef, Ref, make_ref, parse_bytes

Layout = Literal["cells", "chunks"]
DEFAULT_TARGET_BYTES = 128 << 20
NO_REPOSITORY = (
    'no repository: give its URL as option("repo", …); and since Spark keeps no options of a CREATE '
    "TABLE … USING icechunk, use CREATE TEMPORARY VIEW … USING icechunk OPTIONS (repo '…')"
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REFS = ("branch", "tag", "snapshot", "as_of")
_PLACE = ("repo", "path", "authorize", "time_zone")
_OF_ALL_TABLES = (
    *_PLACE, *_REFS, "versionAsOf", "timestampAsOf", "table", "columns", "where", "target_size",
)  # fmt: skip
_OF_STREAMS = ("max_commits", "on_reset", "on_expired")
_OF_TABLES: Mapping[str, tuple[str, ...]] = {
    "cells": ("group", "variables", "layout"),
    "changes": ("group", "variables", "from", "to", "values"),
    "arrays": ("references",),
    "chunks": ("references",),
    "storage": ("references",),
}
"""Options of single tables."""
refuse_unknown = partial(arguments.refuse_unknown, elsewhere=_OF_TABLES, ignores_case=True)
WRITE_OPTIONS = (
    *_PLACE, *_REFS, "group", "dims", "append_dim", "chunks", "duplicates", "replace_where",
    "commit_token", "message",
)  # fmt: skip
# Spark passes its own options of a streaming query to the sink.
STREAM_WRITE_OPTIONS = (*WRITE_OPTIONS, "checkpointLocation", "queryName")
# Spark passes the properties of a catalog table to a source whose schema it requests.
_OF_CATALOG_TABLES = "provider"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a table."""

    repo: str | None = None
    """URL of the repository."""
    ref: Ref | None = None
    """Version; None is the one named by the URL, else the branch main."""
    table: str = "cells"
    """Name of the table in the registry."""
    group: str = "/"
    variables: tuple[str, ...] | None = None
    """Arrays to read; None means all."""
    columns: tuple[str, ...] | None = None
    """Columns to return, in this order; None means all."""
    where: str | None = None
    """Predicate in SQL on columns; other rows need not be returned."""
    layout: Layout = "cells"
    authorize: tuple[str, ...] = ()
    """URL prefixes of containers with authorized virtual chunks; `*` means all."""
    target_bytes: int = DEFAULT_TARGET_BYTES
    """Approximate size of a partition."""
    time_zone: str = "UTC"
    """Time zone of times in predicates without one."""
    is_ansi: bool = True
    """True if types in predicates follow the ANSI rules, as in Spark by default."""
    qualifiers: frozenset[str] = frozenset()
    """Names that may qualify columns in predicates."""
    needs_qualifier: bool = False
    """True if unqualified columns may belong to another table."""
    engine_filters: bool = False
    """True if the engine also evaluates the predicate, so that any is allowed."""
    engine_text: str | None = None
    """Query or predicate of the engine: columns that it names are read in addition to `columns`."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Options of single tables, by name in lower case."""

    def __post_init__(self) -> None:
        if self.layout not in get_args(Layout):
            raise InvalidInputError(
                f"invalid layout {self.layout!r}: a row is one of cells or chunks"
            )


def parse_options(given: Mapping[str, str], known: Iterable[str] | None = None) -> Options:
    """Parse options given as strings; raises InvalidInputError for unknown ones.

    By default the known options are those of the named table, including its stream options. Options of
    single tables and of writers are in `more`.
    """
    texts = {name.lower(): value for name, value in given.items()}
    if _OF_CATALOG_TABLES in texts and known is None:
        raise InvalidInputError(
            "Spark keeps no options of a CREATE TABLE … USING icechunk, so that it can't be read: use "
            "CREATE TEMPORARY VIEW … USING icechunk OPTIONS (repo '…')"
        )
    table = texts.get("table", "cells")
    if known is None:
        refuse_unknown(texts, (*list_options(table), *_OF_STREAMS), f"the table {table}")
    else:
        refuse_unknown(texts, known, "a writer")
    repo, path = texts.pop("repo", None), texts.pop("path", None)
    if None not in (repo, path) and repo != path:
        raise InvalidInputError(f"repo {repo!r} and path {path!r} differ: give one of them")
    variables, columns = texts.pop("variables", None), texts.pop("columns", None)
    time_zone = texts.pop("time_zone", "UTC")
    return Options(
        repo=repo if repo is not None else path,
        ref=pop_version(texts, time_zone),
        table=texts.pop("table", "cells"),
        group=texts.pop("group", "/"),
        variables=None if variables is None else split_names(variables),
        columns=None if columns is None else split_names(columns),
        where=texts.pop("where", None),
        layout=cast("Layout", texts.pop("layout", "cells")),
        authorize=split_names(texts.pop("authorize", "")),
        target_bytes=parse_bytes(texts.pop("target_size", str(DEFAULT_TARGET_BYTES))),
        time_zone=time_zone,
        more=texts,
    )


_OF_CATALOGS = (
    "repo", "group", "arrays", "where", "metadata", *_REFS, "authorize", "target_size",
)  # fmt: skip


def read_catalog(path: str | Path) -> dict[str, dict[str, Any]]:
    """Read a TOML file of repositories; return the options of each, by name.

    Raises
    ------
    InvalidInputError
        If the file is not readable, or an option is unknown.
    """
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"can't read the catalog {path}: {error}") from error
    catalog = {}
    for name, options in found.items():
        if not isinstance(options, dict) or "repo" not in options:
            raise InvalidInputError(
                f"{name} in the catalog {path} names no repository: write [{name}] and below it "
                'repo = "s3://…"'
            )
        refuse_unknown(options, _OF_CATALOGS, f"{name} in the catalog {path}")
        repo = str(options["repo"])
        is_url = "://" in repo
        place = repo if is_url else str(Path(path).absolute().parent / Path(repo).expanduser())
        catalog[name] = {**options, "repo": place}
    return catalog


def list_options(table: str) -> tuple[str, ...]:
    """Return the options of a table that is not read as a stream."""
    return (*_OF_ALL_TABLES, *_OF_TABLES.get(table, ()))


def pop_version(texts: dict[str, str], time_zone: str, **given: Any) -> Ref | None:
    """Remove and parse the options that name a version; also `versionAsOf` and `timestampAsOf`."""
    version, moment = texts.pop("versionasof", None), texts.pop("timestampasof", None)
    ref = make_ref(**(given or {name: texts.pop(name, None) for name in _REFS}))
    if version is not None:
        if ref is not None or moment is not None:
            raise InvalidInputError(
                f"versionAsOf {version!r} is not the only version given: name one"
            )
        return NamedRef(version)
    if moment is None:
        return ref
    match ref:
        case None | BranchRef(as_of=None):
            branch = "main" if ref is None else ref.name
            return BranchRef(branch, parse_moment("timestampAsOf", moment, time_zone))
    raise InvalidInputError(
        f"timestampAsOf {moment!r} needs a branch, not another version: leave that out"
    )


def parse_moment(name: str, text: str, time_zone: str) -> datetime:
    """Parse a time as Spark does, by default in `time_zone`; raises InvalidInputError."""
    found = parse_time(text, find_zone(time_zone))
    if found is None:
        raise InvalidInputError(
            f"invalid {name} {text!r}: give a time such as 2026-01-31T12:00:00Z, in a known time zone"
        )
    return EPOCH + timedelta(microseconds=found)


def split_names(text: str) -> tuple[str, ...]:
    """Split names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


Mode = Literal["append", "overwrite"]
Duplicates = Literal["error", "first", "last", "sum", "mean", "min", "max"]
"""Policy for several rows of one cell. Nulls count only for `error`, `first` and `last`."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of writing rows."""

    group: str = "/"
    branch: str = "main"
    mode: Mode = "append"
    """`append` sets the given cells; `overwrite` also clears others."""
    replace_where: str | None = None
    """Predicate on coordinates that selects the cells `overwrite` clears; None means all."""
    dims: tuple[str, ...] | None = None
    """Dimensions of new arrays."""
    append_dim: str | None = None
    """Dimension along which arrays may grow."""
    chunks: Mapping[str, int] = field(default_factory=dict)
    """Chunk lengths of new arrays, by dimension."""
    duplicates: Duplicates = "error"
    time_zone: str = "UTC"
    """Time zone of times in `replace_where` without one."""
    commit_token: str | None = None
    """Idempotency key of the commit; a second commit with it is skipped."""
    message: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    fills_nulls: bool = False
    """Store the fill value for nulls in arrays that can't store nulls."""
    kept: Sequence[str] = ()
    """Arrays whose values rows must repeat, and can set only where they have none."""


def make_write_options(
    *,
    mode: str = "append",
    duplicates: str = "error",
    dims: Sequence[str] | None = None,
    chunks: Mapping[str, int] | None = None,
    group: str = "/",
    replace_where: str | None = None,
    **more: Any,
) -> WriteOptions:
    """Validate write options.

    Parameters
    ----------
    mode
        `append` sets the given cells; `overwrite` also clears others.
    duplicates
        Policy for several rows of one cell: `error`, `first`, `last`, `sum`, `mean`, `min` or `max`.
    dims
        Dimensions of new arrays.
    chunks
        Chunk lengths of new arrays, by dimension.
    group
        Path of the group.
    replace_where
        Predicate on coordinates that selects the cells `overwrite` clears.
    **more
        Other fields of `WriteOptions`.

    Raises
    ------
    InvalidInputError
        If an option is unknown or invalid, or options contradict each other.
    """
    refuse_unknown(more, [each.name for each in fields(WriteOptions)], "a writer")
    if mode not in get_args(Mode):
        raise InvalidInputError(f"invalid mode {mode!r}: expected append or overwrite")
    if duplicates not in get_args(Duplicates):
        known = ", ".join(get_args(Duplicates))
        raise InvalidInputError(f"invalid duplicates {duplicates!r}: expected {known}")
    if replace_where is not None and mode != "overwrite":
        raise InvalidInputError("replace_where needs the mode overwrite")
    if any(length < 1 for length in (chunks or {}).values()):
        raise InvalidInputError(f"invalid chunks {dict(chunks or {})}: lengths must be at least 1")
    return WriteOptions(
        group=group_path(group),
        mode=cast("Mode", mode),
        duplicates=cast("Duplicates", duplicates),
        dims=None if dims is None else tuple(dims),
        chunks=dict(chunks or {}),
        replace_where=replace_where,
        **more,
    )


def read_write_options(options: Options, *, overwrite: bool, ref: Ref | None) -> WriteOptions:
    """Parse the options of a data source writer.

    Parameters
    ----------
    options
        Options of the data source.
    overwrite
        True for the mode `overwrite`, False for `append`.
    ref
        Version that the repository's URL names; used if the options name none.

    Raises
    ------
    InvalidInputError
        If an option is invalid, or the version is not a branch.
    """
    more = options.more
    dims = more.get("dims")
    return make_write_options(
        group=options.group,
        branch=find_write_branch(options.ref or ref),
        mode="overwrite" if overwrite else "append",
        replace_where=more.get("replace_where"),
        dims=None if dims is None else split_names(dims),
        append_dim=more.get("append_dim"),
        chunks=_read_chunks(more.get("chunks", "")),
        duplicates=more.get("duplicates", "error"),
        time_zone=options.time_zone,
        commit_token=more.get("commit_token"),
        message=more.get("message"),
    )


def find_write_branch(ref: Ref | None) -> str:
    """Return the branch of a ref; raises InvalidInputError if it is not writable."""
    match ref:
        case None:
            return "main"
        case BranchRef(name, None) | NamedRef(name):
            return name
    raise InvalidInputError(f"can't write rows to {ref}: name a branch")


def _read_chunks(text: str) -> dict[str, int]:
    """Parse chunk lengths such as `time=24, lat=90`."""
    found = {}
    for part in split_names(text):
        name, _, length = part.partition("=")
        if not length.strip().isdecimal():
            raise InvalidInputError(
                f"invalid chunks {text!r}: give lengths as in `time=24, lat=90`"
            )
        found[name.strip()] = int(length)
    return found
