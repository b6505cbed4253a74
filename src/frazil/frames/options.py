"""How a table is asked for, in the words of `spark.read.format("icechunk").option(…)`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from frazil.byte_sizes import parse_bytes
from frazil.errors import InvalidInputError
from frazil.urls import Ref, make_ref

Layout = Literal["cells", "chunks"]
DEFAULT_TARGET_BYTES = 128 << 20
_VERSION = ("branch", "tag", "snapshot", "as_of")


@dataclass(frozen=True, slots=True)
class Options:
    """What was said about a table."""

    repo: str | None = None
    """The URL of the repository."""
    ref: Ref | None = None
    """The version; None is what the URL names, or else the branch main."""
    table: str = "cells"
    """The name of the table in the registry."""
    group: str = "/"
    variables: tuple[str, ...] | None = None
    """The arrays to read; None is all of them."""
    columns: tuple[str, ...] | None = None
    """The columns to give, in this order; None is all of them."""
    where: str | None = None
    """SQL about columns, without which rows are not needed."""
    layout: Layout = "cells"
    authorize: tuple[str, ...] = ()
    """URL prefixes of containers whose virtual chunks may be read; `*` is every one there is."""
    target_bytes: int = DEFAULT_TARGET_BYTES
    """How much a partition has, about."""
    time_zone: str = "UTC"
    """Of times in conditions that name none."""
    qualifiers: frozenset[str] = frozenset()
    """Names that may stand before columns in conditions."""
    needs_qualifier: bool = False
    """Whether columns without such a name may be those of another table."""
    engine_filters: bool = False
    """Whether the engine evaluates the condition as well: then it may be any."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Options of single tables, by name in lower case."""


def parse_options(given: Mapping[str, str]) -> Options:
    """The options as texts; names that are none of these are left to tables, in `more`."""
    texts = {name.lower(): value for name, value in given.items()}
    layout = texts.pop("layout", "cells")
    if layout not in get_args(Layout):
        raise InvalidInputError(f"layout={layout!r}: a row is one of `cells` or one of `chunks`")
    repo, path = texts.pop("repo", None), texts.pop("path", None)
    variables, columns = texts.pop("variables", None), texts.pop("columns", None)
    return Options(
        repo=repo if repo is not None else path,
        ref=make_ref(**{name: texts.pop(name, None) for name in _VERSION}),
        table=texts.pop("table", "cells"),
        group=texts.pop("group", "/"),
        variables=None if variables is None else split_names(variables),
        columns=None if columns is None else split_names(columns),
        where=texts.pop("where", None),
        layout=cast("Layout", layout),
        authorize=split_names(texts.pop("authorize", "")),
        target_bytes=parse_bytes(texts.pop("target_size", str(DEFAULT_TARGET_BYTES))),
        time_zone=texts.pop("time_zone", "UTC"),
        more=texts,
    )


def split_names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
