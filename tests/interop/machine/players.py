"""Who runs steps: Frazil in this process, the official library in its child process."""

from pathlib import Path
from typing import Protocol, Self

import frazil
from frazil.storage.local import Durability, LocalStorage
from tests.interop.machine.interpreter import Machine
from tests.interop.machine.outcomes import Outcome
from tests.interop.machine.steps import Step
from tests.interop.official_library import OfficialLibrary


class Player(Protocol):
    """A library with a repository open."""

    def run(self, step: Step) -> Outcome:
        """Do one step and say how it went."""

    def stop(self) -> None:
        """Let go of everything."""


class FrazilPlayer:
    """Frazil."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @classmethod
    def start(cls, directory: Path, files: Path, spec_version: int | None) -> Self:
        """With a new repository, or one that is there if no version is given."""
        storage = LocalStorage(directory, durability=Durability.NONE)
        machine = Machine(frazil, storage, files)
        if spec_version is None:
            machine.open()
        else:
            machine.create(spec_version)
        return cls(machine)

    def run(self, step: Step) -> Outcome:
        """Do one step and say how it went."""
        return self._machine.run(step)

    def stop(self) -> None:
        """Nothing is held."""


class OfficialPlayer:
    """The official library."""

    def __init__(self, library: OfficialLibrary, number: int) -> None:
        self._library = library
        self._number = number

    @classmethod
    def start(
        cls, library: OfficialLibrary, directory: Path, files: Path, spec_version: int | None
    ) -> Self:
        """With a new repository, or one that is there if no version is given."""
        return cls(
            library,
            library.call(
                "start_machine",
                directory=str(directory), files=str(files), spec_version=spec_version,
            ),
        )  # fmt: skip

    def run(self, step: Step) -> Outcome:
        """Do one step and say how it went."""
        outcome: Outcome = self._library.call("run_step", machine=self._number, step=repr(step))
        return outcome

    def stop(self) -> None:
        """Let the child process forget the machine."""
        self._library.call("stop_machine", machine=self._number)
