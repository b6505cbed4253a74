"""Zarr's own state machines, with commits in between: a hierarchy, and a store of keys."""

import os
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import zarr
from hypothesis import assume, note, settings
from hypothesis.stateful import precondition, rule, run_state_machine_as_test
from hypothesis.strategies import DataObject
from zarr.abc.store import RangeByteRequest
from zarr.core.buffer import cpu
from zarr.testing.stateful import ZarrHierarchyStateMachine, ZarrStoreStateMachine
from zarr.testing.strategies import keys

from frazil import Repository
from tests.repositories import create, split_every
from tests.unit.store.any_keys import AnyKeyStore

EXAMPLES = 500 if "FRAZIL_DEEP" in os.environ else 8
FEW = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None)


def create_repository(spec_version: int) -> Repository:
    """One whose arrays are spread over many manifests, and whose chunks are of both kinds."""
    return create(config=split_every(2, inline_up_to=12), spec_version=spec_version)


class Hierarchy(ZarrHierarchyStateMachine):
    """Groups and arrays made, changed and deleted in many sessions, compared with Zarr's memory."""

    spec_version = 2

    def __init__(self) -> None:
        self.repository = create_repository(self.spec_version)
        self.session = self.repository.writable_session("main")
        self.commits = 0
        super().__init__(self.session.store)

    @rule()
    def commit(self) -> None:
        """Go on in a new session of a repository that was opened anew."""
        if self.session.has_uncommitted_changes:
            self.session.commit(f"commit {self.commits}")
            self.commits += 1
        self.repository = Repository.open(self.repository.storage)
        self.session = self.repository.writable_session("main")
        self.store = self.session.store

    @rule()
    def send_away(self) -> None:
        """Let a fork of a session do nothing: what it brings back changes nothing."""
        self.session.merge(self.session.fork())

    @precondition(lambda self: bool(self.all_groups))
    @rule(data=st.data())
    def check_list_dir(self, data: DataObject) -> None:
        """As Zarr has it, but an array has a folder of chunks even if there are none."""
        path = self.draw_directory(data).rstrip("/")
        chunk_folder = {"c"} if path in self.all_arrays else set()

        expected = {*self._sync_iter(self.model.list_dir(path)), *chunk_folder}

        assert set(self._sync_iter(self.store.list_dir(path))) == expected

    @precondition(lambda self: bool(self.all_arrays) or bool(self.all_groups))
    @rule(data=st.data())
    def delete_dir(self, data: DataObject) -> None:
        """As in newer releases of Zarr: the oldest one forgets nodes with longer names as well."""
        path = self.draw_directory(data).rstrip("/")
        note(f"delete_dir with {path=!r}")
        for store in (self.model, self.store):
            self._sync(store.delete_dir(path))

        gone = {n for n in self.all_groups | self.all_arrays if f"{n}/".startswith(f"{path}/")}
        self.all_groups -= gone
        self.all_arrays -= gone

    def teardown(self) -> None:
        """The whole history can be read, and the newest version is what the model has."""
        self.commit()
        for info in self.repository.ancestry(branch="main"):
            session = self.repository.readonly_session(snapshot_id=info.id)
            listed = self._sync_iter(session.store.list())
            assert all(session.store.get_sync(key) is not None for key in listed)
        assert values_of(self.store) == values_of(self.model)


def values_of(store: Any) -> dict[str, Any]:
    members = zarr.open_group(store, mode="r").members(max_depth=None)
    return {
        path: np.asarray(node[...]).tobytes() if isinstance(node, zarr.Array) else None
        for path, node in members
    }


class Keys(ZarrStoreStateMachine):
    """Single keys set, read and deleted, compared with a dict."""

    spec_version = 2

    def __init__(self) -> None:
        self.repository = create_repository(self.spec_version)
        self.session = self.repository.writable_session("main")
        super().__init__(AnyKeyStore(self.session))

    @rule(key=keys(), data=st.binary(min_size=1, max_size=100))
    def set(self, key: str, data: bytes) -> None:
        """As Zarr has it, but for values without bytes, which no chunk has."""
        self.store.set(key, cpu.Buffer.from_bytes(data))
        self.model[key] = cpu.Buffer.from_bytes(data)

    @precondition(lambda self: len(self.model) > 0)
    @rule(data=st.data())
    def get_partial_values(self, data: DataObject) -> None:
        """As Zarr has it, but for ranges that reach out of a chunk, which are refused."""
        key = data.draw(st.sampled_from(sorted(self.model)))
        size = len(self.model[key])
        start = data.draw(st.integers(0, size - 1))
        end = data.draw(st.integers(start, size))

        found = self.store.get_partial_values([(key, RangeByteRequest(start, end))], self.prototype)

        assert [each.to_bytes() for each in found if each is not None] == [
            self.model[key].to_bytes()[start:end]
        ]

    @rule()
    def commit(self) -> None:
        """Go on in a new session."""
        assume(self.session.has_uncommitted_changes)
        self.session.commit("more")
        self.session = self.repository.writable_session("main")
        self.store.store = AnyKeyStore(self.session)


class HierarchyV1(Hierarchy):
    spec_version = 1


class KeysV1(Keys):
    spec_version = 1


@pytest.mark.parametrize("machine", [Hierarchy, HierarchyV1])
def test_a_hierarchy_is_what_zarr_makes_of_it(machine: type[Hierarchy]) -> None:
    has_rectilinear_grids = machine.spec_version == 2
    with zarr.config.set({"array.rectilinear_chunks": has_rectilinear_grids}):
        run_state_machine_as_test(machine, settings=FEW)


@pytest.mark.parametrize("machine", [Keys, KeysV1])
def test_keys_are_what_was_set(machine: type[Keys]) -> None:
    run_state_machine_as_test(machine, settings=FEW)
