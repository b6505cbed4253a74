"""Travelling: pickled, to another process, and across a fork."""

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable

import pytest

from frazil.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    VersionMismatchError,
)
from frazil.storage.interface import ByteRange, Storage
from frazil.testing.storage_contract.promises import Promises

_TIMEOUT_SECONDS = 60

# Reads a storage from its input, and through it one object, which it writes to its output.
_READ_IN_ANOTHER_PROCESS = """
import pickle, sys
storage, key = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(bytes(storage.get(key)))
"""


def answer_of_fork(work: Callable[[], bytes]) -> bytes:
    """What some work gives in a forked process, or the name and text of its error."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Newer Pythons warn of threads that the fork leaves behind: that is what is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        # The forked process must not return into the tests, whatever happens.
        with contextlib.suppress(BaseException):
            os.write(writing, _answer(work))
        os._exit(0)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], _TIMEOUT_SECONDS)
        return os.read(reading, 1 << 16) if ready else b"it hangs"
    finally:
        os.close(reading)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _answer(work: Callable[[], bytes]) -> bytes:
    try:
        return work()
    except Exception as error:
        kinds = " ".join(kind.__name__ for kind in type(error).__mro__)
        return f"{kinds}: {error}".encode()


class TravellingContract(Promises):
    """What a storage promises to Spark's workers."""

    def test_a_pickled_storage_is_the_same_storage(self, storage: Storage, writer: Storage) -> None:
        writer.put("object", b"data")

        copy = pickle.loads(pickle.dumps(storage))
        writer.put("later", b"more")

        assert isinstance(copy, type(storage))
        assert bytes(copy.get("object")) == b"data"
        assert bytes(copy.get("later")) == b"more"
        assert copy.is_read_only == storage.is_read_only

    def test_a_pickled_storage_that_was_not_used_yet_is_the_same_storage(
        self, storage: Storage, writer: Storage
    ) -> None:
        copy = pickle.loads(pickle.dumps(storage))

        writer.put("object", b"data")

        assert bytes(copy.get("object", ByteRange(0, 2))) == b"da"

    def test_versions_are_the_same_for_a_pickled_storage(self, conditional: Storage) -> None:
        version = conditional.create("object", b"first")
        copy = pickle.loads(pickle.dumps(conditional))

        copy.replace("object", b"second", pickle.loads(pickle.dumps(version)))

        with pytest.raises(VersionMismatchError):
            conditional.replace("object", b"third", version)
        with pytest.raises(ObjectExistsError):
            copy.create("object", b"third")

    def test_another_process_reads_the_same_objects(self, shared: Storage, writer: Storage) -> None:
        writer.put("object", b"data")

        child = subprocess.run(
            [sys.executable, "-c", _READ_IN_ANOTHER_PROCESS],
            input=pickle.dumps((shared, "object")),
            stdout=subprocess.PIPE,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )

        assert child.stdout == b"data"

    def test_errors_travel_with_their_message(self, storage: Storage) -> None:
        with pytest.raises(ObjectNotFoundError) as caught:
            storage.get("missing")

        copy = pickle.loads(pickle.dumps(caught.value))

        assert isinstance(copy, ObjectNotFoundError)
        assert (str(copy), copy.kind) == (str(caught.value), caught.value.kind)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")
    def test_a_forked_process_uses_the_storage_or_is_told_that_it_can_not(
        self, storage: Storage, writer: Storage
    ) -> None:
        writer.put("object", b"data")
        storage.get("object")
        storage.get_many([("object", None), ("object", None)])

        answer = answer_of_fork(lambda: bytes(storage.get("object")))

        if self.survives_fork:
            assert answer == b"data"
        else:
            assert StorageError.__name__ in answer.decode()
            assert "fork" in answer.decode()
        assert bytes(storage.get("object")) == b"data"

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")
    def test_a_storage_that_was_not_used_yet_can_be_used_in_a_forked_process(
        self, storage: Storage, writer: Storage
    ) -> None:
        writer.put("object", b"data")
        unused = pickle.loads(pickle.dumps(storage))

        answer = answer_of_fork(lambda: bytes(unused.get("object")))

        if self.survives_fork:
            assert answer == b"data"
        else:
            assert answer == b"data" or "fork" in answer.decode()

    def test_its_representation_tells_the_kind(self, storage: Storage) -> None:
        assert repr(storage).startswith("<frazil.Storage>\ntype: ")
        assert "\n" not in storage.place
