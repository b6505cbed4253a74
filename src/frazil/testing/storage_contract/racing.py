"""Racing: threads that want the same key at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from frazil.errors import ObjectExistsError, VersionMismatchError
from frazil.storage.interface import Storage
from frazil.testing.storage_contract.promises import Promises

KEY = "folder/object"
_TIMEOUT_SECONDS = 300


class Race:
    """Threads that all try the same thing in each round, and who of them succeeded.

    Between two rounds, while all wait, one of them looks at what the round left and prepares the next.
    """

    def __init__(self, storage: Storage, prepare: Callable[[], object]) -> None:
        self._storage = storage
        self._prepare = prepare
        self.winners: list[list[bytes]] = []
        self.left: list[bytes] = []

    def run(self, threads: int, rounds: int, attempt: Callable[[bytes], object]) -> None:
        """Let each thread try to write bytes of its own, once a round."""
        barrier = threading.Barrier(threads, self._begin_round, _TIMEOUT_SECONDS)

        def take_part(thread: int) -> None:
            try:
                for round in range(rounds):
                    barrier.wait()
                    data = f"round {round}, thread {thread}".encode()
                    try:
                        attempt(data)
                    except (ObjectExistsError, VersionMismatchError):
                        continue
                    self.winners[-1].append(data)
                barrier.wait()
            except BaseException:
                barrier.abort()
                raise

        with ThreadPoolExecutor(threads) as pool:
            runs = [pool.submit(take_part, thread) for thread in range(threads)]
        errors = [error for run in runs if (error := run.exception()) is not None]
        # Of those that broke off, the first cause says more than that others stopped waiting.
        for error in sorted(
            errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)
        ):
            raise error

    def _begin_round(self) -> None:
        if self.winners:
            self.left.append(bytes(self._storage.get(KEY)))
        self._prepare()
        self.winners.append([])

    def assert_one_winner_each_round(self) -> None:
        """Exactly one succeeded, and what it wrote is what was there afterwards."""
        assert not self.winners.pop()  # the round after the last
        assert [len(winners) for winners in self.winners] == [1] * len(self.left)
        assert [winners[0] for winners in self.winners] == self.left


class RacingContract(Promises):
    """What a storage promises to threads."""

    def test_one_of_many_threads_creates(self, conditional: Storage) -> None:
        race = Race(conditional, lambda: conditional.delete_many([KEY]))

        race.run(self.race_threads, self.race_rounds, lambda data: conditional.create(KEY, data))

        race.assert_one_winner_each_round()

    def test_one_of_many_threads_replaces(self, conditional: Storage) -> None:
        versions = [conditional.create(KEY, b"at first")]
        race = Race(conditional, lambda: versions.append(conditional.get_versioned(KEY).version))

        race.run(
            self.race_threads,
            self.race_rounds,
            lambda data: conditional.replace(KEY, data, versions[-1]),
        )

        race.assert_one_winner_each_round()

    def test_no_replacement_of_threads_that_try_again_is_lost(self, conditional: Storage) -> None:
        conditional.create(KEY, b"")
        each = max(1, self.race_rounds // 40)

        def append(thread: int) -> None:
            for number in range(each):
                while True:
                    found = conditional.get_versioned(KEY)
                    line = f"{thread}.{number}\n".encode()
                    try:
                        conditional.replace(KEY, bytes(found.data) + line, found.version)
                        break
                    except VersionMismatchError:
                        continue

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(append, range(4)))

        lines = bytes(conditional.get(KEY)).decode().split()
        assert sorted(lines) == sorted(f"{t}.{number}" for t in range(4) for number in range(each))

    def test_readers_see_an_object_whole_while_it_is_written(self, writable: Storage) -> None:
        # Each version is one letter many times, and no two have the same length.
        versions = [bytes([65 + number]) * (1 + 30_000 * number) for number in range(8)]
        writable.put(KEY, versions[0])
        is_done = threading.Event()

        def read() -> set[bytes]:
            seen = set()
            while not is_done.is_set():
                seen.add(bytes(writable.get(KEY)))
                seen.add(bytes(writable.get_versioned(KEY).data))
            return seen

        with ThreadPoolExecutor(3) as pool:
            readers = [pool.submit(read) for _ in range(3)]
            try:
                for round in range(max(8, self.race_rounds // 10)):
                    writable.put(KEY, versions[round % len(versions)])
            finally:
                is_done.set()

        for reader in readers:
            assert reader.result() <= set(versions)
