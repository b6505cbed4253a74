"""Random programs, each with a liking for one part of the libraries."""

from itertools import chain

from hypothesis import strategies as st

from tests.interop.machine import administration, episodes
from tests.interop.machine.episodes import Episode
from tests.interop.machine.lockstep import Program
from tests.interop.machine.steps import Open, Step
from tests.interop.machine.weighting import weighted


def _alone(step: st.SearchStrategy[Step]) -> st.SearchStrategy[Episode]:
    return st.lists(step, min_size=1, max_size=3)


@st.composite
def _looks_back(draw: st.DrawFn) -> Episode:
    opening: Open = draw(administration.readonly_sessions())
    return [opening, *draw(st.lists(episodes.edits(opening.slot), max_size=3))]


EPISODES: dict[str, list[tuple[int, st.SearchStrategy[Episode]]]] = {
    "edits": [
        (6, episodes.writers()),
        (1, episodes.reindexers()),
        (2, _alone(administration.configuration())),
    ],
    "rivals": [(3, episodes.rivals()), (1, episodes.writers())],
    "forks": [(3, episodes.distributed()), (1, episodes.writers())],
    "moves": [(3, episodes.rearrangers()), (1, episodes.rivals()), (1, episodes.writers())],
    "history": [
        (2, _alone(administration.refs())),
        (2, _alone(administration.history())),
        (1, _alone(administration.condition())),
        (1, _alone(administration.transactions())),
        (1, _alone(administration.configuration())),
        (1, _looks_back()),
        (2, episodes.writers()),
    ],
    "upkeep": [
        (3, _alone(administration.upkeep())),
        (1, _alone(administration.refs())),
        (1, _alone(administration.configuration())),
        (2, episodes.writers()),
        (1, _looks_back()),
    ],
}
"""By what a program likes."""


def programs(liking: str, spec_version: int) -> st.SearchStrategy[Program]:
    """Programs that start with a commit, and go on with what they like."""
    parts = st.lists(weighted(*EPISODES[liking]), min_size=1, max_size=4)
    return st.builds(
        lambda first, rest: Program(spec_version, tuple(chain(first, *rest))),
        episodes.skeletons(), parts,
    )  # fmt: skip
