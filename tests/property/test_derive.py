"""A derived dataset equals one that is computed anew, whatever happens to its source."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import zarr
from hypothesis import example, given, settings
from hypothesis import strategies as st

import frazil
from frazil import Repository
from frazil.spark import BlockOptions, Derivation

DIMS = ("time", "y", "x")
CHUNKS = (3, 4, 5)


def smooth(block: Any) -> Any:
    """Mean of the neighbours, whose number depends on the ends of the array."""
    return block.rolling(time=3, center=True, min_periods=1).sum()


def wrap(block: Any) -> Any:
    return block + np.roll(block, 1, axis=2)


def anomaly(block: Any) -> Any:
    return block - block.max("time") + block["y"]


def total(one: Any, other: Any) -> Any:
    return one + other.fillna(0)


def spread(block: Any) -> Any:
    return block.max("x") - block.min("x")


DERIVATIONS = {
    "layout": Derivation(output="d/layout", chunks={"time": 7, "y": 2, "x": 5}),
    "sharded": Derivation(
        output="d/sharded", chunks={"time": 2, "y": 2, "x": 2}, variables=["a"],
        encoding={"shards": (4, 4, 4)},
    ),
    "daily": Derivation(output="d/daily", by={"time": "1D"}, chunks={"time": 2}),
    "coarse": Derivation(output="d/coarse", by={"y": 2, "x": 3}, how="max", variables=["a"]),
    "weekly": Derivation(output="d/weekly", by={"time": 5}, how="std", chunks={"time": 3}),
    "monthly": Derivation(output="d/monthly", by={"time": "MS"}, how="sum", variables=["b"]),
    "both": Derivation(output="d/both", by={"time": "1D", "y": 4}, how="count"),
    "climatology": Derivation(output="d/climatology", groupby="time.hour"),
    "seasons": Derivation(output="d/seasons", groupby="time.month", how="std", chunks={"month": 4}),
    "days": Derivation(output="d/days", groupby="time.dayofyear", how="max", variables=["a"]),
    "pyramid": Derivation(output="d/pyramid", by={"y": 2, "x": 2}, levels=2, variables=["a"]),
    "halo": Derivation(
        output="d/halo", function=smooth, variables=["a"],
        blocks=BlockOptions(halo={"time": 1}),
    ),
    "wrap": Derivation(
        output="d/wrap", function=wrap, variables=["a"],
        blocks=BlockOptions("numpy", halo={"x": 1}, boundary={"x": "wrap"}),
    ),
    "core": Derivation(
        output="d/core", function=anomaly, variables=["a"], blocks=BlockOptions(core_dims=["time"])
    ),
    "reduced": Derivation(
        output="d/reduced", function=spread, variables=["a"], blocks=BlockOptions(core_dims=["x"])
    ),
    "together": Derivation(output="d/together", function=total, name="s", variables=["a", "b"]),
}  # fmt: skip


class Source:
    """A dataset that changes."""

    def __init__(self) -> None:
        self.repo = Repository.create(frazil.in_memory_storage())
        session = self.repo.writable_session("main")
        root: Any = zarr.open_group(session.store, attributes={"title": "source"})
        for name, fill in (("a", np.nan), ("b", np.nan)):
            root.create_array(
                name, shape=(8, 6, 7), chunks=CHUNKS, dtype="f8", dimension_names=DIMS,
                fill_value=fill, attributes={"units": "K"},
            )  # fmt: skip
            root[name][...] = np.sqrt(np.arange(336.0).reshape(8, 6, 7))
        for name, size in zip(DIMS, (8, 6, 7), strict=True):
            root.create_array(
                name, shape=(size,), chunks=(4,), dtype="i8", dimension_names=(name,), fill_value=0
            )
            root[name][:] = np.arange(size)
        root["time"].attrs["units"] = "hours since 2020-01-01"
        root["time"][:] = np.arange(8) * 6
        self.first = 0
        self.random = np.random.default_rng(1)
        session.commit("created")

    def change(self, change: str, a: int, b: int) -> None:
        session = self.repo.writable_session("main")
        root = zarr.open_group(session.store, mode="a")
        getattr(self, change)(session, root, a, b)
        if session.has_uncommitted_changes:
            session.commit(change)

    def _names(self, root: Any) -> list[str]:
        return [name for name in ("a", "b", "c") if name in root]

    def _resize(self, root: Any, size: int) -> None:
        for name in self._names(root):
            root[name].resize((size, 6, 7))
        root["time"].resize((size,))
        root["time"][:] = (np.arange(size) + self.first) * 6

    def _values(self, count: int, dtype: Any) -> Any:
        # Sums depend on the order of additions.
        values = self.random.normal(size=(count, 6, 7)) * 10.0 ** self.random.integers(-9, 9)
        values[self.random.random(values.shape) < 0.1] = np.nan
        return values if dtype.kind == "f" else np.nan_to_num(values).clip(-1e9, 1e9)

    def append(self, _: Any, root: Any, a: int, b: int) -> None:
        size, more = root["time"].shape[0], 1 + a % 4
        self._resize(root, size + more)
        for name in self._names(root)[: 1 + b % 3]:
            root[name][size:] = self._values(more, root[name].dtype)

    def correct(self, _: Any, root: Any, a: int, b: int) -> None:
        array = root["a"]
        if array.shape[0]:
            at = a % array.shape[0]
            array[at : at + 2, b % 6 :, : 1 + a % 7] = a + b

    def delete(self, _: Any, root: Any, a: int, b: int) -> None:
        array = root[self._names(root)[b % len(self._names(root))]]
        at = a % 3 * 3
        array[at : at + 3, :4] = np.nan

    def season(self, _: Any, root: Any, a: int, __: int) -> None:
        """Go on in another month."""
        self.append(_, root, a, 2)
        root["time"][-1:] = int(root["time"][-1]) + 24 * 31 * (1 + a % 3)

    def shrink(self, _: Any, root: Any, a: int, __: int) -> None:
        self._resize(root, max(root["time"].shape[0] - 1 - a % 5, 1))

    def insert(self, session: Any, root: Any, a: int, __: int) -> None:
        size = root["time"].shape[0]
        self.first -= 3
        self._resize(root, size + 3)
        for name in self._names(root):
            session.shift_array(f"/{name}", (1, 0, 0))
            root[name][:3] = self._values(3, root[name].dtype) if a % 2 else 0

    def drop(self, session: Any, root: Any, _: int, __: int) -> None:
        size = root["time"].shape[0]
        if size > 4:
            self.first += 3
            for name in self._names(root):
                session.shift_array(f"/{name}", (-1, 0, 0))
            self._resize(root, size - 3)

    def relabel(self, _: Any, root: Any, a: int, b: int) -> None:
        name = "y" if b % 2 else "x"
        root[name][a % 6] = b

    def later(self, _: Any, root: Any, __: int, ___: int) -> None:
        self.first += 1
        root["time"][:] = (np.arange(root["time"].shape[0]) + self.first) * 6

    def attributes(self, _: Any, root: Any, a: int, b: int) -> None:
        root["a"].attrs["long_name" if a % 2 else "scale_factor"] = float(1 + b % 3)
        root.attrs["history"] = a

    def variables(self, _: Any, root: Any, a: int, __: int) -> None:
        if "c" in root:
            del root["c"]
        else:
            size = root["time"].shape[0]
            root.create_array(
                "c", shape=(size, 6, 7), chunks=(4, 6, 7), dtype="i4" if a % 2 else "f8",
                dimension_names=DIMS, fill_value=0,
            )  # fmt: skip
            root["c"][: size // 2] = a

    def recreate(self, _: Any, root: Any, a: int, __: int) -> None:
        values = root["b"][...]
        del root["b"]
        root.create_array(
            "b", data=values.astype("f4" if a % 2 else "f8"), chunks=(5, 3, 7), dimension_names=DIMS
        )

    def reset(self, _: Any, root: Any, a: int, __: int) -> None:
        line = [each.id for each in self.repo.ancestry(branch="main")][:-1]
        self.repo.reset_branch("main", line[a % len(line)])
        root = zarr.open_group(self.repo.readonly_session("main").store, mode="r")
        self.first = int(root["time"][0]) // 6

    def expire(self, _: Any, __: Any, ___: int, ____: int) -> None:
        soon = datetime.now(UTC) + timedelta(days=1)
        self.repo.expire_snapshots(older_than=soon)
        self.repo.garbage_collect(soon)


CHANGES = [name for name in vars(Source) if name not in ("change",) and not name.startswith("_")]
PROGRAM = st.lists(
    st.tuples(st.sampled_from(CHANGES), st.integers(0, 50), st.integers(0, 50)),
    min_size=1, max_size=5,
)  # fmt: skip


def contents(repo: Repository, group: str) -> dict[str, Any]:
    """Everything below a group but the chunks of arrays."""
    root = zarr.open_group(repo.readonly_session("main").store, path=group, mode="r")
    found: dict[str, Any] = {"": root.attrs.asdict()}
    for name, node in root.members(max_depth=None):
        found[name] = (node.attrs.asdict(), node.metadata.to_dict().get("dimension_names"))
        if isinstance(node, zarr.Array):
            found[f"{name} values"] = (node.dtype, node.shape, node[...])
    return found


def assert_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_equal(value, other[name], err_msg=name)


@settings(max_examples=settings().max_examples // 8)
@example("days", [[("append", 0, 0)]], False)
@example("core", [[("shrink", 0, 0)]], False)
@example("pyramid", [[("append", 0, 0), ("attributes", 0, 1)]], False)
@given(
    name=st.sampled_from(list(DERIVATIONS)),
    programs=st.lists(PROGRAM, min_size=1, max_size=2),
    is_elsewhere=st.booleans(),
)
def test_it_equals_what_is_computed_anew(
    name: str, programs: list[list[tuple[str, int, int]]], is_elsewhere: bool
) -> None:
    source, what = Source(), DERIVATIONS[name]
    target = Repository.create(frazil.in_memory_storage()) if is_elsewhere else None
    frazil.derive(source.repo, what, target=target)

    for program in programs:
        for change in program:
            # What is derived goes with the history of its own repository.
            if change[0] not in ("reset", "expire") or is_elsewhere:
                source.change(*change)
        before = source.repo.lookup_branch("main")
        report = frazil.derive(source.repo, what, target=target)

        anew = Repository.create(frazil.in_memory_storage())
        frazil.derive(source.repo, what, target=anew)
        assert_equal(contents(target or source.repo, what.output), contents(anew, what.output))
        assert report.source_snapshot_id == before
    again = frazil.derive(source.repo, what, target=target)
    assert (again.snapshot_id, again.chunks) == (None, 0)
