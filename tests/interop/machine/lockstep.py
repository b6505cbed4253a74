"""Runs a program in several worlds at once, and compares them after every step."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.interop.machine import steps
from tests.interop.machine.deviations import find_deviation
from tests.interop.machine.outcomes import Difference, agree
from tests.interop.machine.players import FrazilPlayer, OfficialPlayer
from tests.interop.machine.steps import Step
from tests.interop.machine.worlds import World
from tests.interop.official_library import OfficialLibrary

_READERS = ("list_", "lookup_", "get_", "inspect_", "ancestry", "ops_log", "diff", "feature_flags")
_ENDINGS = frozenset({"commit", "amend", "flush"})
_UPKEEP = frozenset({"garbage_collect", "expire_snapshots"})
_VIRTUAL_BYTES = bytes(range(256))


@dataclass(frozen=True, slots=True)
class Program:
    """Steps for a repository of some version."""

    spec_version: int
    steps: tuple[Step, ...]


class _PartingOfWays(Exception):  # noqa: N818 - it is no error
    """From here on the libraries differ, and are meant to."""


def run_program(program: Program, official: OfficialLibrary) -> None:
    """Run a program with Frazil alone, with the official library alone, and with both in turns."""
    with _worlds(program.spec_version, official) as worlds, suppress(_PartingOfWays):
        for step in _with_forgetting(program.steps):
            _run_everywhere(worlds, step)
        _look_everywhere(worlds, 0)


@contextmanager
def _worlds(spec_version: int, official: OfficialLibrary) -> Iterator[list[World]]:
    with tempfile.TemporaryDirectory() as name:
        files = Path(name) / "files"
        files.mkdir()
        (files / "v.bin").write_bytes(_VIRTUAL_BYTES)
        theirs = OfficialPlayer.start(official, Path(name) / "theirs", files, spec_version)
        ours = FrazilPlayer.start(Path(name) / "ours", files, spec_version)
        first = FrazilPlayer.start(Path(name) / "both", files, spec_version)
        second = OfficialPlayer.start(official, Path(name) / "both", files, None)
        worlds = [
            World("official", (theirs, theirs)),
            World("frazil", (ours, ours)),
            World("both in turns", (first, second)),
        ]
        try:
            yield worlds
        finally:
            for world in worlds:
                world.stop()


def _with_forgetting(program: Sequence[Step]) -> Iterator[Step]:
    """Forks are forgotten where the sessions that they could be merged into become another's."""
    owners: dict[str, int] = {}
    for step in program:
        if isinstance(step, steps.Open) and owners.setdefault(step.slot[0], step.by) != step.by:
            owners[step.slot[0]] = step.by
            yield steps.Forget(step.slot[0])
        yield step


def _run_everywhere(worlds: Sequence[World], step: Step) -> None:
    known = len(worlds[0].snapshots)
    _compare(worlds, step)
    if isinstance(step, steps.OnRepository) and step.method in _UPKEEP:
        # Who did not do it may remember what is gone, or what a V1 snapshot said of its parent.
        for each in (steps.Forget(""), steps.Reopen()):
            _compare(worlds, each)
    if _may_write(step):
        _look_everywhere(worlds, known)


def _look_everywhere(worlds: Sequence[World], known: int) -> None:
    for number in range(known, len(worlds[0].snapshots)):
        _compare(worlds, steps.LookAtSnapshot(steps.Snapshot(number)))
    _compare(worlds, steps.LookAtRepository())


def _compare(worlds: Sequence[World], step: Step) -> None:
    official, *others = [world.run(step) for world in worlds]
    for world, outcome in zip(worlds[1:], others, strict=True):
        deviation = find_deviation(step, official, outcome)
        if deviation is not None and not deviation.leaves_the_same:
            raise _PartingOfWays
        if deviation is None and not agree(official, outcome):
            raise Difference(step, official, world.name, outcome)


def _may_write(step: Step) -> bool:
    match step:
        case steps.OnRepository(method):
            return not method.startswith(_READERS)
        case steps.OnSession(_, method):
            return method in _ENDINGS
        case steps.Transaction() | steps.Fork():
            return True
        case steps.Reconfigure(is_saved=is_saved):
            return is_saved
    return False
