"""A conditional write that is exactly that, whatever happens to its answers.

A store may do what it is asked and the answer get lost; asked again, it then says that the condition
does not hold. So every write carries an id of its own, and when an earlier try may have happened, the
object that is there tells whose it is. Where a store keeps no metadata its bytes tell.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from frazil.errors import StorageError
from frazil.storage.interface import Version
from frazil.storage.settings import EffectiveSettings
from frazil.storage.store_errors import Diagnosis, Failure

WRITE_ID = "icechunkwriteid"
"""The name of the id in an object's metadata, which the official library shares."""

_SPELLINGS = (WRITE_ID, "icechunk-write-id", "icechunk_write_id")


def find_write_id(attributes: "dict[str, str]") -> str | None:
    """The id of the write that an object comes from; some writers and stores spell it otherwise."""
    return next((attributes[name] for name in _SPELLINGS if name in attributes), None)


@dataclass(frozen=True, slots=True)
class Found:
    """The object that is there, and whether this write put it there."""

    version: Version
    is_ours: bool


class ConditionalWrite(Protocol):
    """One write to be settled."""

    def put(self) -> Version | Diagnosis:
        """Try once."""

    def look(self) -> Found | None:
        """What is there now, if anything."""

    def is_still_possible(self, found: Found | None) -> bool:
        """Whether the condition can hold, seeing what is there."""

    def refuse(self, is_in_doubt: bool) -> StorageError:
        """The error that says that the condition does not hold.

        In doubt, an earlier try may have held, its object being replaced again since.
        """

    def fail(self, diagnosis: Diagnosis) -> StorageError:
        """The error for any other failure."""


def settle(
    write: ConditionalWrite,
    settings: EffectiveSettings,
    sleep: Callable[[float], None] = time.sleep,
) -> Version:
    """Write, or find out that it can't be; raises only what is certain, or that nothing is."""
    is_in_doubt = False
    last = Diagnosis(Failure.OTHER, "not tried", 0)
    deadline = time.monotonic() + (settings.operation_timeout_seconds or float("inf"))
    for tries in range(1, settings.max_tries + 1):
        outcome = write.put()
        if isinstance(outcome, Version):
            return outcome
        if outcome.failure is Failure.CONDITION and not is_in_doubt:
            raise write.refuse(is_in_doubt)
        last = Diagnosis(outcome.failure, outcome.text, tries)
        is_in_doubt |= outcome.failure.leaves_doubt
        is_last = tries == settings.max_tries or time.monotonic() > deadline
        if outcome.failure in (Failure.CONDITION, Failure.CONFLICT) or (is_last and is_in_doubt):
            # A conflict says nothing about what is there: on S3 it may be nothing at all.
            found = write.look()
            if found is not None and found.is_ours:
                return found.version
            if not write.is_still_possible(found):
                raise write.refuse(is_in_doubt)
        elif not outcome.failure.leaves_doubt:
            raise write.fail(outcome)
        if is_last:
            break
        sleep(pause_seconds(tries, settings))
    raise write.fail(last)


def pause_seconds(tries: int, settings: EffectiveSettings) -> float:
    """How long to wait after so many tries: longer each time, and never the same for two writers."""
    longest = min(settings.max_backoff_seconds, settings.initial_backoff_seconds * 2**tries)
    return random.uniform(settings.initial_backoff_seconds / 2, max(longest, 0.0))
