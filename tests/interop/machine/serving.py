"""Machines of the official library in the child process, each known by a number."""

import itertools
from pathlib import Path

import icechunk

from tests.interop.machine import steps
from tests.interop.machine.interpreter import Machine
from tests.interop.machine.outcomes import Outcome

_machines: dict[int, Machine] = {}
_numbers = itertools.count()


def start_machine(directory: str, files: str, spec_version: int | None) -> int:
    """A machine of a new repository, or of one that is there if no version is given."""
    storage = icechunk.local_filesystem_storage(directory)
    machine = Machine(icechunk, storage, Path(files))
    if spec_version is None:
        machine.open()
    else:
        machine.create(spec_version)
    number = next(_numbers)
    _machines[number] = machine
    return number


def run_step(machine: int, step: str) -> Outcome:
    """Do a step, which is given as it is written in Python."""
    return _machines[machine].run(eval(step, vars(steps)))


def stop_machine(machine: int) -> None:
    """Let go of a machine."""
    del _machines[machine]
