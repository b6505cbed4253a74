"""Write Dask arrays from many workers, each of which returns its changes in its fork.

A stored block is a Zarr array whose store knows the session that the block was written through. A
tree reduction over the blocks of an array merges those sessions on the workers.
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np
import zarr

from frazil.errors import explain_missing
from frazil.repository.forks import extract_session, merge_sessions
from frazil.repository.session import ForkSession

try:
    import dask.array
    from dask.array import Array
    from dask.base import compute
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(explain_missing(error, "frazil.dask"), name=error.name) from error

__all__ = [
    "computing_meta",
    "merge_sessions_array_kwargs",
    "session_merge_reduction",
    "store_dask",
]

_Arguments = ParamSpec("_Arguments")


def computing_meta(function: Callable[_Arguments, Any]) -> Callable[_Arguments, Any]:
    """Decorate a function to return a placeholder where Dask only infers the type of its result.

    Parameters
    ----------
    function
        Function to decorate.

    Returns
    -------
    Callable
        The function, with a placeholder as its result if called with `computing_meta=True`.
    """

    @functools.wraps(function)
    def answer(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Any:
        return _meta() if kwargs.get("computing_meta") else function(*args, **kwargs)

    return answer


def merge_sessions_array_kwargs(
    *sessions: Any,
    axis: Any = None,  # noqa: ARG001
    keepdims: Any = None,  # noqa: ARG001
) -> ForkSession:
    """Merge forks in a Dask reduction.

    Parameters
    ----------
    *sessions
        Forks, or lists of them; see `merge_sessions`.
    axis, keepdims
        Ignored; Dask passes them.

    Returns
    -------
    ForkSession
        The first fork, with the changes of all.
    """
    return merge_sessions(*sessions)


def store_dask(
    *,
    sources: list[Array],
    targets: "list[zarr.Array[Any]]",
    regions: list[tuple[slice, ...]] | None = None,
    split_every: int | None = None,
    **store_kwargs: Any,
) -> ForkSession:
    """Write Dask arrays to Zarr arrays of a fork, and return the fork with all changes.

    Merge it into the session that was forked.

    Parameters
    ----------
    sources
        The Dask arrays.
    targets
        Zarr arrays of a fork.
    regions
        Region of each target to write.
    split_every
        Number of sessions to merge at a time.
    **store_kwargs
        Arguments of `dask.compute`.

    Returns
    -------
    ForkSession
        The fork with all changes.
    """
    stored = dask.array.store(
        sources,
        targets,  # type: ignore[arg-type]
        regions=regions,
        compute=False,
        return_stored=True,
        load_stored=False,
        lock=False,
    )
    return session_merge_reduction(stored, split_every=split_every, **store_kwargs)


def session_merge_reduction(
    arrays: Array | list[Array], *, split_every: int | None, **store_kwargs: Any
) -> ForkSession:
    """Compute arrays whose blocks are Zarr arrays, and merge the sessions of those.

    Parameters
    ----------
    arrays
        One or more Dask arrays.
    split_every
        Number of sessions to merge at a time.
    **store_kwargs
        Arguments of `dask.compute`.

    Returns
    -------
    ForkSession
        The merged session.

    Raises
    ------
    TypeError
        If `arrays` are not Dask arrays.
    """
    each = arrays if isinstance(arrays, list | tuple) else [arrays]
    for array in each:
        if not isinstance(array, Array):
            raise TypeError(f"Expected a dask array or a list of them, got {type(array).__name__}")
    merged = [_reduce(array, split_every) for array in each]
    return merge_sessions(*compute(*merged, **store_kwargs))  # type: ignore[no-untyped-call]


def _reduce(array: Array, split_every: int | None) -> Array:
    # The arrays have different shapes, so each is reduced separately.
    reduced: Array = dask.array.reduction(  # type: ignore[no-untyped-call]
        array,
        name="merge-sessions",
        chunk=computing_meta(extract_session),
        aggregate=computing_meta(merge_sessions_array_kwargs),
        split_every=split_every,
        concatenate=False,
        keepdims=False,
        dtype=object,
        meta=_meta(),
    )
    return reduced


def _meta() -> "np.ndarray[Any, Any]":
    return np.array([object()], dtype=object)
