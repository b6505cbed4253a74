"""What `to_icechunk` does with all kinds of arguments, of either library.

    python -m tests.interop.xarray_programs icechunk FOLDER

prints, for each program, what it came to and all that is in the session then. Needs nothing of Frazil,
so that an environment with the official library alone can run it.
"""

import itertools
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import dask
import numpy as np
import xarray as xr
import zarr

Write = Callable[..., Any]
Program = Callable[[Any, Write], object]

MODES = (None, "w", "w-", "a", "a-", "r+", "r", "nonsense")
REGIONS: tuple[Any, ...] = (
    None,
    "auto",
    {"time": "auto", "place": slice(0, 4)},
    {"time": slice(1, 5)},
)
CHUNKS = ({"time": 2, "place": 2}, {"time": 3}, {"time": 4, "place": 1})
STORED = {"t": {"chunks": (2, 2)}, "h": {"chunks": (2,)}}


def weather(first: int = 0, count: int = 6) -> xr.Dataset:
    hours = np.arange(first, first + count)
    values = hours[:, None] * 10.0 + np.arange(4)
    return xr.Dataset(
        {"t": (("time", "place"), values), "h": ("place", np.arange(4.0))},
        coords={"time": hours, "place": list("abcd")},
        attrs={"first": first},
    )


def days(first: int) -> xr.Dataset:
    start = np.datetime64("2026-01-01", "ns") + np.timedelta64(first, "D")
    times = start + np.arange(3) * np.timedelta64(1, "D")
    return xr.Dataset({"x": ("time", np.arange(3.0))}, coords={"time": times})


def lazily(dataset: xr.Dataset, **chunks: int) -> xr.Dataset:
    return dataset.chunk(chunks or {"time": 2, "place": 2})


def eagerly(dataset: xr.Dataset) -> xr.Dataset:
    return dataset


def programs() -> Iterator[tuple[str, Program]]:
    """Every program with its name."""
    for mode, is_lazy in itertools.product(MODES, (False, True)):
        yield from _with_mode(mode, lazily if is_lazy else eagerly)
    for region, safe, align, chunks in itertools.product(
        REGIONS, (True, False), (True, False), CHUNKS
    ):
        name = f"{region=}, {safe=}, {align=}, {chunks=}"
        yield name, _aligned(region, chunks, safe_chunks=safe, align_chunks=align)
    yield from _SINGLE.items()


def _with_mode(
    mode: str | None, form: Callable[[xr.Dataset], xr.Dataset]
) -> Iterator[tuple[str, Program]]:
    suffix = f"{mode=}, {form.__name__}"
    yield f"nothing there, {suffix}", lambda s, to: to(form(weather()), s, mode=mode)
    yield (
        f"something there, {suffix}",
        lambda s, to: (to(weather(), s, encoding=STORED), to(form(weather(3)), s, mode=mode)),
    )
    yield (
        f"append, {suffix}",
        lambda s, to: (
            to(weather(), s, encoding=STORED),
            to(form(weather(6, 4)), s, mode=mode, append_dim="time"),
        ),
    )


def _aligned(region: Any, chunks: dict[str, int], **options: bool) -> Program:
    def program(session: Any, to: Write) -> None:
        to(weather(), session, encoding=STORED)
        given = weather(1, 4).drop_vars("h") if region else weather()
        given = given.drop_vars("place") if isinstance(region, dict) else given
        lazy = lazily(given + 7, **chunks)
        to(lazy, session, mode=None if region else "a", region=region, **options)

    return program


_SINGLE: dict[str, Program] = {
    "a region that is nowhere": lambda s, to: (
        to(weather(), s),
        to(weather(100, 2).drop_vars("h"), s, region="auto"),
    ),
    "region and append": lambda s, to: (
        to(weather(), s),
        to(weather(6, 2).drop_vars("h"), s, region={"time": slice(0, 2)}, append_dim="time"),
    ),
    "append to no dimension": lambda s, to: (
        to(weather(), s),
        to(weather(6, 4), s, append_dim="nothing"),
    ),
    "append another type": lambda s, to: (
        to(weather(), s),
        to(weather(6, 4).astype("f4"), s, append_dim="time"),
    ),
    "append another size": lambda s, to: (
        to(weather(), s),
        to(weather(6, 4).isel(place=slice(2)), s, append_dim="time"),
    ),
    "append times": lambda s, to: (to(days(0), s), to(days(3), s, append_dim="time")),
    "encode": lambda s, to: to(
        weather(),
        s,
        encoding={"t": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1, "chunks": (3, 4)}},
    ),
    "shards": lambda s, to: to(
        weather(), s, encoding={"t": {"chunks": (1, 1), "shards": (2, 4), "compressors": None}}
    ),
    "encode what is not there": lambda s, to: to(weather(), s, encoding={"z": {"dtype": "i2"}}),
    "encode what is there": lambda s, to: (
        to(weather(), s),
        to(weather(), s, mode="a", encoding={"t": {"dtype": "i2"}}),
    ),
    "groups": lambda s, to: (
        to(weather(), s, group="a/b"),
        to(lazily(weather(1)), s, group="/c"),
    ),
    "an array": lambda s, to: to(weather().t, s),
    "an array without a name": lambda s, to: to(weather().t.rename(None), s),
    "an array named as its axis": lambda s, to: to(lazily(weather()).t.rename("time"), s),
    "scalars": lambda s, to: to(xr.Dataset({"x": 3.0, "s": "text"}), s),
    "a lazy scalar": lambda s, to: to(lazily(weather()).sum(), s),
    "nothing": lambda s, to: to(xr.Dataset(), s),
    "a name that is a number": lambda s, to: to(xr.Dataset({3: ("x", [1])}), s),
    "text": lambda s, to: to(xr.Dataset({"x": ("a", np.array(["p", "qq"], dtype=object))}), s),
    "arguments for Dask": lambda s, to: to(
        lazily(weather()), s, chunkmanager_store_kwargs={"flush": True}, split_every=2
    ),
    "no session": lambda _, to: to(weather(), object()),
    "a store for a session": lambda s, to: to(weather(), s.store),
}


def run_programs(library: str, folder: Path) -> dict[str, Any]:
    """What each program came to, by its name."""
    package, write = import_module(library), import_module(f"{library}.xarray").to_icechunk
    results = {}
    for number, (name, program) in enumerate(programs()):
        storage = package.local_filesystem_storage(str(folder / str(number)))
        session = package.Repository.create(storage).writable_session("main")
        outcome = _run(program, session, write)
        results[name] = {"outcome": outcome, "contents": _read(session.store)}
    return results


def _run(program: Program, session: Any, write: Write) -> str:
    try:
        # One thread: without safe chunks, who comes last in a race is not what is compared.
        with dask.config.set(scheduler="synchronous"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program(session, write)
    except Exception as error:
        return type(error).__name__
    return "done"


def _read(store: Any) -> object:
    try:
        group = zarr.open_group(store, mode="r", use_consolidated=False)
    except FileNotFoundError:
        return None
    members: dict[str, Any] = dict(group.members(max_depth=None))
    return [dict(group.attrs), {name: _describe(members[name]) for name in sorted(members)}]


def _describe(node: Any) -> object:
    metadata = json.loads(json.dumps(node.metadata.to_dict(), default=str))
    return metadata if isinstance(node, zarr.Group) else [metadata, repr(node[...].tolist())]


if __name__ == "__main__":
    print(json.dumps(run_programs(sys.argv[1], Path(sys.argv[2]))))
