"""Rows as one commit, which is there whole and once, or not at all.

An attempt begins at the tip of the branch: it looks whether the rows are there already, finds their
places, writes them, and commits. Where somebody else was first, it passes their commits if they have
nothing to do with these cells and their coordinates; otherwise all begins again.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from frazil.conflicts import ConflictDetector
from frazil.errors import ConflictError
from frazil.frames.writing.cells import gather, locate_rows, write_cells
from frazil.frames.writing.facts import Facts, measure
from frazil.frames.writing.making import make_room
from frazil.frames.writing.marks import (
    Batch,
    describe,
    find_batch,
    find_commit,
    find_last_batch,
    note_batch,
)
from frazil.frames.writing.options import WriteOptions
from frazil.frames.writing.replacing import clear, refuse_outside
from frazil.frames.writing.targets import Target, find_dims, find_target
from frazil.repository import Repository
from frazil.session import Session

TRIES = 50
_PASSES = 100
Result = TypeVar("Result")


class Done(Exception):  # noqa: N818 (it is none)
    """What was to be written is there already."""

    def __init__(self, snapshot_id: str | None) -> None:
        super().__init__(snapshot_id)
        self.snapshot_id = snapshot_id


def open_attempt(repository: Repository, options: WriteOptions, batch: Batch | None) -> Session:
    """A session at the tip; raises Done if it has these rows."""
    session = repository.writable_session(options.branch)
    if batch is not None:
        last = find_last_batch(session, batch.query)
        if last is not None and batch.number <= last:
            raise Done(find_batch(repository, batch, branch=options.branch))
    if options.commit_token is not None:
        found = find_commit(repository, options.commit_token, branch=options.branch)
        if found is not None:
            raise Done(found)
    return session


def prepare(session: Session, options: WriteOptions, schema: pa.Schema, facts: Facts) -> Target:
    """Make room for rows, and empty what they replace."""
    target = make_room(session, options, schema, facts)
    if options.mode == "overwrite":
        clear(session, options, target)
    return target


def write_rows(session: Session, options: WriteOptions, target: Target, table: pa.Table) -> None:
    """Write all rows."""
    refuse_outside(options, target, table)
    places = locate_rows(target, table)
    for cells in gather(target, table, places, options.duplicates, list(target.variables)):
        write_cells(session, target, cells)


def finish(
    session: Session,
    options: WriteOptions,
    target: Target,
    batch: Batch | None,
    metadata: dict[str, Any] | None = None,
) -> str:
    """Commit; raises ConflictError where the coordinates or these cells have changed meanwhile."""
    if batch is not None:
        note_batch(session, batch)
    told = {**options.metadata, **(metadata or {}), **describe(batch, options.commit_token)}
    names = [*target.coordinates, *target.variables]
    for _ in range(_PASSES):
        try:
            return session.commit(options.message or _name(batch), told, allow_empty=True)
        except ConflictError as error:
            if error.kind != ConflictError.default_kind:
                raise
            session.rebase(ConflictDetector())
            _refuse_changed(session, options, target, names, error)
    raise ConflictError(message=f"others commit to {options.branch} faster than these rows can be")


def _refuse_changed(
    session: Session, options: WriteOptions, target: Target, names: Sequence[str], error: Exception
) -> None:
    now = find_target(session, options, [*names, *(d for d in target.dims if d not in names)])
    if not all(axis.is_same(now.axes[dim]) for dim, axis in target.axes.items()):
        raise ConflictError(message="the coordinates have changed meanwhile") from error


def retrying(attempt: Callable[[], Result]) -> Result:
    """What an attempt gives, made again where others were first."""
    for number in range(TRIES):
        try:
            return attempt()
        except ConflictError:
            if number == TRIES - 1:
                raise
    raise AssertionError


def commit_rows(
    repository: Repository,
    options: WriteOptions,
    table: pa.Table,
    batch: Batch | None = None,
) -> str | None:
    """Write rows as one commit; gives its snapshot, also if it was there already.

    None where there was nothing to write, or where the commit was there and has expired. Raises
    InvalidInputError for rows that can't be written, and then nothing is.
    """
    if not table.num_rows and options.mode == "append":
        return None

    def attempt() -> str:
        session = open_attempt(repository, options, batch)
        facts = measure(table, find_dims(session, options, table.column_names))
        target = prepare(session, options, table.schema, facts)
        write_rows(session, options, target, table)
        return finish(session, options, target, batch)

    try:
        return retrying(attempt)
    except Done as done:
        return done.snapshot_id


def _name(batch: Batch | None) -> str:
    return "write rows" if batch is None else f"batch {batch.number} of a stream"
