"""How rows are to be written, in the words of `frame.write.format("icechunk").option(…)`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, cast, get_args

from frazil.errors import InvalidInputError
from frazil.frames.columns import group_path
from frazil.frames.options import Options, refuse_unknown, split_names
from frazil.urls import BranchRef, NamedRef, Ref

Mode = Literal["append", "overwrite"]
Duplicates = Literal["error", "first", "last", "sum", "mean", "min", "max"]
"""What becomes of several rows for one cell; nulls count for `error`, `first` and `last` only."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What was said about the writing of rows."""

    group: str = "/"
    branch: str = "main"
    mode: Mode = "append"
    """`append` sets the cells that are given; `overwrite` empties others."""
    replace_where: str | None = None
    """Which cells `overwrite` empties, by their coordinates; None is all of them."""
    dims: tuple[str, ...] | None = None
    """The dimensions of arrays that are not there yet."""
    append_dim: str | None = None
    """The dimension that may grow."""
    chunks: Mapping[str, int] = field(default_factory=dict)
    """Lengths of the chunks of arrays that are made, by dimension."""
    duplicates: Duplicates = "error"
    time_zone: str = "UTC"
    """Of times in `replace_where` that name none."""
    commit_token: str | None = None
    """What the commit is found by; a second commit with it does nothing."""
    message: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


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
    """Options that go together; raises InvalidInputError."""
    refuse_unknown(more, [each.name for each in fields(WriteOptions)], "a writer")
    if mode not in get_args(Mode):
        raise InvalidInputError(f"mode={mode!r}: rows can be written with append or overwrite")
    if duplicates not in get_args(Duplicates):
        known = ", ".join(get_args(Duplicates))
        raise InvalidInputError(f"duplicates={duplicates!r} is none of {known}")
    if replace_where is not None and mode != "overwrite":
        raise InvalidInputError("replace_where goes with the mode overwrite")
    if any(length < 1 for length in (chunks or {}).values()):
        raise InvalidInputError(f"chunks={dict(chunks or {})}: lengths are one or more")
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
    """The options of a writer of the data source; `ref` is what its URL names."""
    more = options.more
    dims = more.get("dims")
    return make_write_options(
        group=options.group,
        branch=find_branch(options.ref or ref),
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


def find_branch(ref: Ref | None) -> str:
    """The branch that a version names; raises InvalidInputError for any that can't be written to."""
    match ref:
        case None:
            return "main"
        case BranchRef(name, None) | NamedRef(name):
            return name
    raise InvalidInputError(f"rows are written to a branch, and {ref} is none")


def _read_chunks(text: str) -> dict[str, int]:
    """Lengths such as `time=24, lat=90`."""
    found = {}
    for part in split_names(text):
        name, _, length = part.partition("=")
        if not length.strip().isdecimal():
            raise InvalidInputError(f"chunks={text!r}: say it as in `time=24, lat=90`")
        found[name.strip()] = int(length)
    return found
