"""Random datasets in repositories, and conditions about them that SQLite can answer, too."""

import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from hypothesis import strategies as st

import frazil
from frazil import Repository, RepositoryConfig
from frazil.format.manifest import NativeRef
from frazil.storage.wrappers import ForwardingStorage, Injection, Request
from frazil.xarray import to_icechunk

START = np.datetime64("2020-01-01T00:00:00", "ns")
SPELLED = "%Y-%m-%d %H:%M:%S"
DIMS = ("time", "lat", "lon")


class WatchedStorage(ForwardingStorage):
    """Another storage, and the chunks that were read from it."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.chunks: list[str] = []

    def _begin(self, request: Request) -> Injection:
        self.chunks += [key for key in request.keys if key.startswith("chunks/")]
        return Injection()


@dataclass(frozen=True, eq=False)
class World:
    """A dataset, where it is, and how it is cut."""

    dataset: xr.Dataset
    chunks: dict[str, tuple[int, ...]]
    storage: WatchedStorage
    repo: Repository

    @property
    def names(self) -> list[str]:
        """Of its arrays."""
        return [str(name) for name in self.dataset.data_vars]

    def open(self) -> xr.Dataset:
        """The dataset as Xarray reads it."""
        store = self.repo.readonly_session("main").store
        opened: xr.Dataset = xr.open_zarr(store, consolidated=False, chunks=None)
        return opened

    def rows(self, variables: Sequence[str]) -> pd.DataFrame:
        """Its cells, as Xarray makes rows of them."""
        dataset = self.open()[list(variables)]
        dims = max((dataset[name].dims for name in variables), key=len)
        frame = dataset.to_dataframe(dim_order=list(dims)).reset_index()
        return frame.astype(object).where(frame.notna(), None)

    def holders(self, name: str, rows: pd.DataFrame) -> set[tuple[int, ...]]:
        """The chunks of an array that have the cells of some rows; needs unique labels."""
        dims = self.dataset[name].dims
        opened = self.open()
        places = [
            {_plain(label): at // size for at, label in enumerate(opened[dim].values)}
            for dim, size in zip(dims, self.chunks[name], strict=True)
        ]
        labels = rows[list(dims)].itertuples(index=False)
        return {tuple(p[_plain(v)] for p, v in zip(places, row, strict=True)) for row in labels}

    def written(self, name: str, chunks: Iterable[tuple[int, ...]]) -> list[str]:
        """The objects of those chunks of an array that were written."""
        view = self.repo.readonly_session("main").state.view
        node, _ = view.get_array(f"/{name}")
        refs = [view.find_chunk(node, chunk) for chunk in chunks]
        return [f"chunks/{ref.chunk_id}" for ref in refs if isinstance(ref, NativeRef)]


def _plain(label: Any) -> Any:
    return pd.Timestamp(label) if isinstance(label, np.datetime64 | datetime) else label


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """One to three dimensions with unique labels in any order, up to three arrays along them."""
    dims = draw(st.permutations(DIMS))[: draw(st.integers(1, 3))]
    sizes = {dim: draw(st.integers(1, 7)) for dim in dims}
    coordinates = {dim: draw(_labels(dim, sizes[dim])) for dim in dims}
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    arrays, chunks = {}, {}
    for name in names:
        own = (
            dims if name == "a" else draw(st.permutations(dims))[: draw(st.integers(0, len(dims)))]
        )
        shape = tuple(sizes[dim] for dim in own)
        arrays[name] = (tuple(own), draw(_values(shape)))
        chunks[name] = tuple(draw(st.integers(1, size + 1)) for size in shape)
    dataset = xr.Dataset(
        arrays, {dim: each for dim, each in coordinates.items() if each is not None}
    )
    return write_world(dataset, chunks)


def write_world(dataset: xr.Dataset, chunks: dict[str, tuple[int, ...]]) -> World:
    """A dataset in a repository in memory, with these chunks, none of them inline."""
    storage = WatchedStorage(frazil.in_memory_storage())
    repo = Repository.create(storage, RepositoryConfig(inline_chunk_threshold_bytes=0))
    session = repo.writable_session("main")
    encoding = {name: {"chunks": each} for name, each in chunks.items() if each}
    to_icechunk(dataset, session, mode="w", encoding=encoding)
    session.commit("a world")
    return World(dataset, chunks, storage, repo)


def make_weather() -> World:
    """Days by places, every array and coordinate in several chunks."""
    days = START + np.arange(6) * np.timedelta64(1, "D")
    values = np.arange(6 * 4 * 4, dtype="f8").reshape(6, 4, 4)
    dataset = xr.Dataset(
        {"a": (DIMS, values), "b": (DIMS, values + 1)},
        {"time": days, "lat": np.arange(4.0), "lon": np.arange(4), "zone": ("lat", [3, 1, 4, 1])},
    )
    cut = {"time": (2,), "lat": (2,), "lon": (2,), "zone": (2,)}
    return write_world(dataset, {"a": (2, 2, 2), "b": (3, 4, 4), **cut})


def count_coordinate_reads(world: World) -> dict[str, set[int]]:
    """How often the chunks of each coordinate were read, for coordinates that were."""
    found = {}
    for name in map(str, world.dataset.coords):
        count = -(-world.dataset.sizes[world.dataset[name].dims[0]] // world.chunks[name][0])
        keys = world.written(name, [(number,) for number in range(count)])
        reads = {world.storage.chunks.count(key) for key in keys}
        if reads != {0}:
            found[name] = reads
    return found


def count_calls(action: Callable[[], Any], *functions: Any) -> tuple[Any, list[int]]:
    """The result of an action, and how often it called each function."""
    calls = Counter[Any]()

    def count(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    sys.setprofile(count)
    try:
        found = action()
    finally:
        sys.setprofile(None)
    return found, [calls[each.__code__] for each in functions]


def _labels(dim: str, size: int) -> st.SearchStrategy[Any]:
    numbers = st.permutations(range(-3, 8)).map(lambda found: np.array(found[:size]))
    match dim:
        case "time":
            return numbers.map(lambda days: START + days * np.timedelta64(6, "h"))
        case "lat":
            return numbers.map(lambda found: found * 0.5)
    texts = st.permutations("abcdefgh").map(lambda found: np.array(found[:size], object))
    return st.one_of(st.none(), numbers, texts)


@st.composite
def _values(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    kind = draw(st.sampled_from(["f4", "f8", "i2", "u1", "i8"]))
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    found = np.asarray(generator.integers(0, 9, shape)).astype(kind)
    if kind[0] == "f":
        found = np.where(generator.random(shape) < 0.3, np.nan, found / 2)
        if draw(st.booleans()):
            found = np.where(np.arange(found.size).reshape(shape) % 5 < 3, found, np.nan)
    return found.astype(kind)


# Conditions


@st.composite
def conditions(draw: st.DrawFn, frame: pd.DataFrame, names: Sequence[str], depth: int = 3) -> str:
    """A condition about some columns."""
    what = draw(st.sampled_from(["leaf"] * 3 + (["and", "or", "not"] if depth else [])))
    if what == "leaf":
        return draw(_leaves(frame, names))
    part = conditions(frame, names, depth - 1)
    if what == "not":
        return f"NOT ({draw(part)})"
    return f"(({draw(part)}) {what.upper()} ({draw(part)}))"


@st.composite
def _leaves(draw: st.DrawFn, frame: pd.DataFrame, names: Sequence[str]) -> str:
    name = draw(st.sampled_from(list(names)))
    constant = _constants(frame[name])
    column = f"`{name}`"
    match draw(st.sampled_from(["compare", "compare", "mirrored", "in", "between", "null"])):
        case "compare":
            operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
            return f"{column} {operator} {draw(constant)}"
        case "mirrored":
            return f"{draw(constant)} {draw(st.sampled_from(['<', '>=', '=']))} {column}"
        case "in":
            values = ", ".join(draw(st.lists(constant, min_size=1, max_size=3)))
            return f"{column} {draw(st.sampled_from(['', 'NOT ']))}IN ({values})"
        case "between":
            return f"{column} BETWEEN {draw(constant)} AND {draw(constant)}"
    return f"{column} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"


def _constants(column: "pd.Series[Any]") -> st.SearchStrategy[str]:
    present = [each for each in column if each is not None]
    if any(isinstance(each, str) for each in present):
        return st.sampled_from("abcdefgh").map(lambda text: f"'{text}'")
    if any(isinstance(each, pd.Timestamp) for each in present):
        hours = st.integers(-24, 60).map(lambda n: pd.Timestamp(START) + pd.Timedelta(hours=n))
        return hours.map(lambda each: f"'{each.strftime(SPELLED)}'")
    return st.one_of(st.integers(-4, 9).map(str), st.integers(-8, 18).map(lambda n: str(n / 2)))


def filter_by_sqlite(frame: pd.DataFrame, condition: str) -> pd.DataFrame:
    """The rows that another engine finds."""
    connection = sqlite3.connect(":memory:")
    names = ", ".join(f"`{name}`" for name in frame.columns)
    connection.execute(f"CREATE TABLE cells (row, {names})")
    marks = ", ".join("?" * (len(frame.columns) + 1))
    rows = [(n, *map(_spell, row)) for n, row in enumerate(frame.itertuples(index=False))]
    connection.executemany(f"INSERT INTO cells VALUES ({marks})", rows)
    found = connection.execute(f"SELECT row FROM cells WHERE {condition} ORDER BY row").fetchall()
    connection.close()
    return frame.iloc[[row for (row,) in found]]


def _spell(value: Any) -> Any:
    if isinstance(value, pd.Timestamp | datetime):
        return value.strftime(SPELLED)
    return value.item() if isinstance(value, np.generic) else value


def as_set(frame: pd.DataFrame, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Rows to be compared, in whatever order they come."""
    rows = frame[list(columns)].itertuples(index=False)
    return sorted((tuple(_comparable(each) for each in row) for row in rows), key=repr)


def _comparable(value: Any) -> Any:
    if value is None or value is pd.NaT or (isinstance(value, float) and np.isnan(value)):
        return None
    if isinstance(value, pd.Timestamp | datetime):
        return pd.Timestamp(value).tz_localize(None).strftime(SPELLED)
    return value if isinstance(value, str | bytes) else float(value)
