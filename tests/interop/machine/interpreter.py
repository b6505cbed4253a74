"""Runs steps with one library, whichever it is: `icechunk` in the child process, `frazil` here."""

import pickle
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from zarr.abc import store as zarr_store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from tests.interop.machine import steps
from tests.interop.machine.configuring import build_config
from tests.interop.machine.looking import look_at_repository, look_at_snapshot
from tests.interop.machine.outcomes import Outcome
from tests.interop.machine.plain import chunk_rows, to_plain
from tests.interop.machine.steps import Step

_READ_WITH_PROTOTYPE = frozenset({"get", "get_partial_values"})
_ERROR_DETAILS = ("expected_parent", "actual_parent", "snapshot", "conflicts")


class _OnPurposeError(Exception):
    """Raised by a transaction that is to fail."""


class Machine:
    """One library, a repository and the sessions in slots."""

    def __init__(self, library: Any, storage: Any, files: Path) -> None:
        self._library = library
        self._storage = storage
        self._files = files
        self._slots: dict[str, Any] = {}
        self._repository: Any = None

    def create(self, spec_version: int) -> None:
        """Make the repository."""
        config, access = build_config(self._library, self._files)
        self._library.Repository.create(self._storage, config, access, spec_version=spec_version)
        self.open()

    def open(self) -> None:
        """Open the repository, which is there."""
        config, access = build_config(self._library, self._files)
        self._repository = self._library.Repository.open(self._storage, config, access)

    def run(self, step: Step) -> Outcome:
        """Do one step and say how it went."""
        slot = getattr(step, "slot", None)
        if slot is not None and not isinstance(step, steps.Open) and slot not in self._slots:
            return ["absent"]
        outcome = self._attempt(lambda: self._perform(step))
        if slot in self._slots:
            outcome.append(to_plain(self._slots[slot]))
        return outcome

    def _attempt(self, action: Callable[[], Any]) -> Outcome:
        try:
            return ["value", to_plain(action())]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the official library is no Exception
            details = {name: getattr(error, name, None) for name in _ERROR_DETAILS}
            classes = [each.__name__ for each in type(error).__mro__]
            return ["error", classes, str(getattr(error, "kind", "")), to_plain(details)]

    def _perform(self, step: Step) -> Any:
        match step:
            case steps.OnRepository(method, arguments):
                return self._collect(self._call(self._repository, method, arguments))
            case steps.Open(slot, method, arguments):
                self._slots[slot] = self._call(self._repository, method, arguments)
            case steps.OnSession(slot, method, arguments):
                return self._on_session(slot, method, arguments)
            case steps.OnStore(slot, method, arguments):
                return self._on_store(slot, method, arguments)
            case steps.Fork(slot, into, is_sent):
                fork = self._slots[slot].fork()
                self._slots[into] = pickle.loads(pickle.dumps(fork)) if is_sent else fork
                return self._slots[into]
            case steps.Merge(slot, others):
                present = [self._slots[other] for other in others if other in self._slots]
                self._slots[slot].merge(*present)
            case steps.Transaction():
                return self._transact(step)
            case steps.LookAtRepository():
                return look_at_repository(self._repository)
            case steps.LookAtSnapshot(snapshot):
                return look_at_snapshot(self._repository, snapshot)
            case _:
                self._renew(step)
        return None

    def _renew(self, step: Step) -> None:
        match step:
            case steps.Reconfigure(settings, is_saved):
                config, _ = build_config(self._library, self._files, settings)
                self._repository = self._repository.reopen(config)
                if is_saved:
                    self._repository.save_config()
            case steps.Reopen():
                self.open()
            case steps.SetDefaultCommitMetadata(metadata):
                self._repository.set_default_commit_metadata(metadata)
            case steps.Forget(prefix):
                self._slots = {n: s for n, s in self._slots.items() if not n.startswith(prefix)}

    def _on_session(self, slot: str, method: str, arguments: dict[str, Any]) -> Any:
        result = self._collect(self._call(self._slots[slot], method, arguments))
        return sorted(result) if isinstance(result, list) else result

    def _on_store(self, slot: str, method: str, arguments: dict[str, Any]) -> Any:
        if method == "delete_dir" and not self._has_node(slot, arguments["prefix"]):
            return None  # the official library does nothing there, and Frazil deletes what is below
        if method in _READ_WITH_PROTOTYPE:
            arguments = {"prototype": default_buffer_prototype(), **arguments}
        if "value" in arguments:
            buffer = default_buffer_prototype().buffer.from_bytes(arguments["value"])
            arguments = {**arguments, "value": buffer}
        result = self._call(self._slots[slot].store, method, arguments)
        if method == "array_chunk_iterator":
            return chunk_rows(sync(_gather(result)))
        collected = self._collect(result)
        return sorted(collected) if isinstance(result, AsyncIterator) else collected

    def _has_node(self, slot: str, prefix: str) -> bool:
        key = f"{prefix.strip('/')}/zarr.json".lstrip("/")
        return bool(sync(self._slots[slot].store.exists(key)))

    def _transact(self, step: steps.Transaction) -> Any:
        with self._repository.transaction(step.branch, message="transaction") as store:
            for key, data in step.sets:
                sync(store.set(key, default_buffer_prototype().buffer.from_bytes(data)))
            if step.fails:
                raise _OnPurposeError
        return {"snapshot_id": self._repository.lookup_branch(step.branch)}

    def _call(self, owner: Any, method: str, arguments: dict[str, Any]) -> Any:
        member = getattr(owner, method)
        if not callable(member):
            return member
        return member(**{name: self._resolve(each) for name, each in arguments.items()})

    def _collect(self, result: Any) -> Any:
        match result:
            case Coroutine():
                return sync(result)
            case AsyncIterator():
                return sync(_gather(result))
            case Iterator():
                return list(result)
        return result

    def _resolve(self, value: Any) -> Any:
        match value:
            case steps.WrittenAt(snapshot, microseconds):
                moment = self._repository.lookup_snapshot(snapshot).written_at
                return moment + timedelta(microseconds=microseconds)
            case steps.Slot(name):
                return self._slots[name]
            case steps.Build(name, arguments):
                built = {key: self._resolve(each) for key, each in arguments.items()}
                return getattr(self._library, name)(**built)
            case steps.Member(name, member):
                return getattr(getattr(self._library, name), member)
            case steps.Range(name, numbers):
                return getattr(zarr_store, name)(*numbers)
            case steps.Moved(by, num_chunks):
                return lambda index: _moved(list(index), by, num_chunks)
            case steps.Column(numbers):
                return np.array(numbers, np.uint64)
            case list():
                return [self._resolve(each) for each in value]
            case (str(key), byte_range):
                return key, self._resolve(byte_range)
            case str():
                return value.replace("{files}", str(self._files))
        return value


def _moved(index: list[int], by: int, num_chunks: int) -> list[int] | None:
    place = index[0] + by
    return [place] if 0 <= place < num_chunks else None


async def _gather(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]
