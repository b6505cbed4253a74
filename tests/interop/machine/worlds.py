"""Repositories that programs run on, each with one library or with two that take turns."""

from dataclasses import dataclass, field, replace
from typing import Any

from tests.interop.machine import steps
from tests.interop.machine.canonical import Names
from tests.interop.machine.looking import FIRST_SNAPSHOT
from tests.interop.machine.outcomes import Difference, Outcome, agree
from tests.interop.machine.players import Player
from tests.interop.machine.steps import Step


@dataclass(slots=True)
class World:
    """One repository; the players are the same one twice unless two take turns."""

    name: str
    players: tuple[Player, Player]
    names: Names = field(default_factory=Names)
    snapshots: list[str] = field(default_factory=lambda: [FIRST_SNAPSHOT])
    owners: dict[str, int] = field(default_factory=dict)
    """Whose the sessions in the slots of a letter are."""

    def run(self, step: Step) -> Any:
        """How a step went, in canonical names."""
        outcome = self._perform(steps.with_snapshots(step, self.snapshots))
        self._remember(outcome)
        return self.names.canonical(outcome)

    def stop(self) -> None:
        """Let go of the players."""
        for player in dict.fromkeys(self.players):
            player.stop()

    def _perform(self, step: Step) -> Outcome:
        match step:
            case steps.LookAtRepository() | steps.LookAtSnapshot():
                return self._look(step)
            case steps.Reopen() | steps.SetDefaultCommitMetadata() | steps.Forget():
                first, *_ = [player.run(step) for player in dict.fromkeys(self.players)]
                return first
            case steps.Reconfigure():
                return self._reconfigure(step)
            case steps.Open(slot, by=by):
                self.owners[slot[0]] = by
                return self.players[by].run(step)
            case steps.OnRepository(by=by) | steps.Transaction(by=by):
                return self.players[by].run(step)
        return self.players[self.owners.get(step.slot[0], 0)].run(step)

    def _look(self, step: Step) -> Outcome:
        """What both players see, which is the same to the letter."""
        ours, *theirs = [player.run(step) for player in dict.fromkeys(self.players)]
        if theirs and not agree(theirs[0], ours):
            raise Difference(step, theirs[0], f"frazil, {self.name}", ours)
        return ours

    def _reconfigure(self, step: steps.Reconfigure) -> Outcome:
        first, *others = dict.fromkeys(self.players)
        outcome = first.run(step)
        for other in others:
            other.run(replace(step, is_saved=False))
        return outcome

    def _remember(self, outcome: Outcome) -> None:
        """Number the snapshot that a step made, or that a session is at."""
        found = [each.get("snapshot_id") for each in outcome[1:] if isinstance(each, dict)]
        for id in found:
            if id is not None and id not in self.snapshots:
                self.snapshots.append(id)
