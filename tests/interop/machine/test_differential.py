"""Frazil does what the official library does, step by step, alone and in turns on one repository."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.interop.machine.lockstep import run_program
from tests.interop.machine.programs import EPISODES, programs
from tests.interop.official_library import OfficialLibrary

# Moves need V2; their refusal by V1 is among what `history` and `edits` try.
CASES = [
    (liking, version)
    for version in (1, 2)
    for liking in EPISODES
    if version == 2 or liking != "moves"
]


@pytest.mark.parametrize(("liking", "spec_version"), CASES)
@given(data=st.data())
@settings(suppress_health_check=list(HealthCheck))
def test_a_program_means_the_same_to_both_libraries(
    liking: str, spec_version: int, official: OfficialLibrary, data: st.DataObject
) -> None:
    program = data.draw(programs(liking, spec_version))

    run_program(program, official)
