"""Frazil does what the official library does, step by step, alone and in turns on one repository."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.interop.machine.lockstep import Program, run_program
from tests.interop.machine.minimizing import Steps, minimize, write_out
from tests.interop.machine.outcomes import Difference
from tests.interop.machine.programs import EPISODES, programs
from tests.interop.official_library import OfficialLibrary

# Moves need V2; their refusal by V1 is among what `history` and `edits` try.
CASES = [
    (liking, version)
    for version in (1, 2)
    for liking in EPISODES
    if version == 2 or liking != "moves"
]

# A program is long, and runs three times: a quarter of the usual number makes hundreds of them.
PROGRAMS = max(settings().max_examples // 4, 1)


@pytest.mark.parametrize(("liking", "spec_version"), CASES)
@given(data=st.data())
@settings(
    max_examples=PROGRAMS,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
def test_a_program_means_the_same_to_both_libraries(
    liking: str, spec_version: int, official: OfficialLibrary, data: st.DataObject
) -> None:
    program = data.draw(programs(liking, spec_version))

    def attempt(steps: Steps) -> Difference | None:
        try:
            run_program(Program(spec_version, steps), official)
        except Difference as difference:
            return difference
        return None

    if attempt(program.steps) is not None:
        failure = minimize(program.steps, attempt)
        assert failure is not None, f"fails now and then:\n{write_out(program.steps)}"
        raise AssertionError(f"these steps fail:\n{write_out(failure[0])}") from failure[1]
