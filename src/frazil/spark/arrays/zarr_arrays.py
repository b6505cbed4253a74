"""Zarr's arrays as jobs need them: what they are made of, and others made like them."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import zarr

from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.format.paths import validate_path
from frazil.session import Session

AnyArray = zarr.Array[Any]

Chunks = Mapping[str, int] | Sequence[int]
"""By dimension or in the order of the axes; -1 is the whole axis."""

ENCODINGS = frozenset({"compressors", "filters", "serializer", "shards"})
"""What may be said about how an array is stored, besides its chunks."""


def path_of(name: str) -> str:
    """The path of a node, with or without a slash in front, as the format spells it."""
    return validate_path("/" + name.strip("/"))


def open_array(session: Session, path: str) -> AnyArray:
    """An array to read; raises NodeNotFoundError, or InvalidInputError for a group."""
    session.state.view.get_array(path)
    return zarr.open_array(session.store, path=path.lstrip("/"), mode="r")


def open_for_writing(session: Session, path: str) -> AnyArray:
    """An array of a writable session."""
    return zarr.open_array(session.store, path=path.lstrip("/"), mode="r+")


def find_unit(array: AnyArray) -> tuple[int, ...]:
    """The shape of what is written as one object."""
    return tuple(max(size, 1) for size in array.shards or array.chunks)


def dimensions_of(array: AnyArray) -> tuple[str | None, ...]:
    """The names of its axes."""
    names = getattr(array.metadata, "dimension_names", None)
    return tuple(names) if names else (None,) * array.ndim


def resolve_chunks(array: AnyArray, chunks: Chunks) -> tuple[int, ...]:
    """The length of chunks along each axis; dimensions that are not named keep theirs."""
    if isinstance(chunks, Mapping):
        names = dimensions_of(array)
        unknown = sorted(set(chunks) - {name for name in names if name is not None})
        if unknown:
            raise InvalidInputError(
                f"{array.path} has no dimension {', '.join(map(repr, unknown))}, but {names}"
            )
        sizes = [
            chunks.get(name or "", size) for name, size in zip(names, array.chunks, strict=True)
        ]
    else:
        sizes = list(chunks)
    if len(sizes) != array.ndim or any(size == 0 or size < -1 for size in sizes):
        raise InvalidInputError(f"{chunks!r} are no chunks for an array of {array.shape}")
    return tuple(
        max(length, 1) if size == -1 else min(size, max(length, 1))
        for size, length in zip(sizes, array.shape, strict=True)
    )


def create_like(
    session: Session,
    path: str,
    source: AnyArray,
    chunks: Sequence[int],
    encoding: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
) -> AnyArray:
    """An array with the type, attributes, fill value and codecs of another one, but other chunks."""
    settings = {
        "compressors": source.compressors,
        "filters": source.filters,
        "serializer": getattr(source, "serializer", "auto"),
        **checked_encoding(encoding),
    }
    return zarr.create_array(
        session.store,
        name=path.lstrip("/"),
        shape=source.shape,
        dtype=source.metadata.dtype,
        chunks=tuple(chunks),
        fill_value=source.fill_value,
        attributes=source.attrs.asdict(),
        dimension_names=dimensions_of(source),
        overwrite=overwrite,
        **settings,
    )


def checked_encoding(encoding: Mapping[str, Any] | None) -> dict[str, Any]:
    """The encoding; raises InvalidInputError for what is none."""
    unknown = sorted(set(encoding or {}) - ENCODINGS)
    if unknown:
        raise InvalidInputError(f"{', '.join(unknown)}: encoding has only {sorted(ENCODINGS)}")
    return dict(encoding or {})


def refuse_existing(session: Session, path: str) -> None:
    """Raise AlreadyExistsError if there is a node at a path."""
    if session.state.view.find_node(path) is not None:
        raise AlreadyExistsError(f"there is something at {path} already: choose another output")


def byte_count(shape: Sequence[int], itemsize: int) -> int:
    """What so many elements take in memory."""
    return prod(shape) * itemsize
