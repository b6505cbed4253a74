"""Drop the steps behind a rolling archive, by reference."""

from dataclasses import replace
from math import lcm, prod

import numpy as np
import zarr

from frazil.datasets.declaration import Declaration
from frazil.datasets.guards import Version
from frazil.repository.session import Session
from frazil.spark.ingestion.ledger import write_ledger
from frazil.virtual.combine_plan import join

_REWRITTEN_BYTES = 64 << 20
"""Arrays up to this size are rewritten if their chunks do not end where the dropped steps do."""


def count_dropped(declaration: Declaration, version: Version) -> int:
    """Return the number of steps that retention drops from the front of a version.

    Chunks of large arrays are dropped whole, so that nothing is rewritten.
    """
    keep, growing = declaration.retention.steps, declaration.growing
    axis = None if growing is None else version.axes.get(growing)
    if keep is None or axis is None or not axis.moments:
        return 0
    oldest = keep.before(axis.moments[-1])
    count = sum(each < oldest for each in axis.moments)
    unit = lcm(*(each for each, is_small in _list_chunks(version, str(growing)) if not is_small))
    return count // unit * unit


def _list_chunks(version: Version, growing: str) -> list[tuple[int, bool]]:
    """Return the chunk length along the dimension of each array that has it, and if it is small."""
    return [
        (
            about["chunks"][about["dims"].index(growing)],
            prod(about["shape"]) * np.dtype(about["dtype"]).itemsize <= _REWRITTEN_BYTES
            if np.dtype(about["dtype"]).kind not in "OTU" else True,
        )
        for name, about in version.arrays.items()
        if growing in about["dims"] and (name in version.axes or len(about["dims"]) > 0)
    ]  # fmt: skip


def drop_steps(session: Session, declaration: Declaration, version: Version, count: int) -> None:
    """Drop the first steps of all arrays of the group, in a session; the ledger moves along."""
    growing = str(declaration.growing)
    for name, about in version.arrays.items():
        if growing not in about["dims"]:
            continue
        axis = about["dims"].index(growing)
        path = "/" + join(declaration.group, name)
        array = zarr.open_array(session.store, path=path, mode="r+")
        shape = list(array.shape)
        shape[axis] -= count
        length = about["chunks"][axis]
        if count % length == 0:
            offset = [0] * len(shape)
            offset[axis] = -(count // length)
            session.shift_array(path, offset)
            array.resize(tuple(shape))
        else:
            place = tuple(
                slice(count, None) if at == axis else slice(None) for at in range(len(shape))
            )
            kept = array[place]
            array.resize(tuple(shape))
            array[...] = kept
    covered = version.covered
    at = covered.dims.index(growing)
    boxes = covered.boxes.copy()
    boxes[boxes[:, at, 0] >= 0, at] -= count
    gone = (boxes[:, at, 1] <= 0) & (covered.boxes[:, at, 0] >= 0)
    boxes[:, at, 0] = np.where(covered.boxes[:, at, 0] >= 0, np.maximum(boxes[:, at, 0], 0), -1)
    # Files of dropped steps stay known, so that no run ingests them again.
    dropped = [replace(covered.ledger.read(row), place={}) for row in covered.rows[gone].tolist()]
    moved = replace(covered, rows=covered.rows[~gone], boxes=boxes[~gone])
    write_ledger(session.store, version.ledger, dropped, [moved])
