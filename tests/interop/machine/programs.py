"""Random programs, each with a liking for one part of the libraries."""

from itertools import chain

from hypothesis import strategies as st

from tests.interop.machine import administration, episodes
from tests.interop.machine.episodes import Episode
from tests.interop.machine.lockstep import Program
from tests.interop.machine.steps import Open, Step


def _alone(step: st.SearchStrategy[Step]) -> st.SearchStrategy[Episode]:
    return st.lists(step, min_size=1, max_size=3)


@st.composite
def _looks_back(draw: st.DrawFn) -> Episode:
    opening: Open = draw(administration.readonly_sessions())
    return [opening, *draw(st.lists(episodes.edits(opening.slot), max_size=3))]


EPISODES: dict[str, list[st.SearchStrategy[Episode]]] = {
    "edits": [episodes.writers(), episodes.writers(), _alone(administration.configuration())],
    "rivals": [episodes.rivals(), episodes.rivals(), episodes.writers()],
    "forks": [episodes.distributed(), episodes.distributed(), episodes.writers()],
    "moves": [episodes.rearrangers(), episodes.rearrangers(), episodes.rivals()],
    "history": [
        _alone(administration.refs()),
        _alone(administration.refs()),
        _alone(administration.history()),
        _alone(administration.condition()),
        _alone(administration.transactions()),
        _alone(administration.configuration()),
        _looks_back(),
        episodes.writers(),
    ],
    "upkeep": [
        _alone(administration.upkeep()),
        _alone(administration.upkeep()),
        _alone(administration.refs()),
        _alone(administration.configuration()),
        episodes.writers(),
        _looks_back(),
    ],
}
"""By what a program likes."""


def programs(liking: str, spec_version: int) -> st.SearchStrategy[Program]:
    """Programs that start with a commit, and go on with what they like."""
    parts = st.lists(st.one_of(EPISODES[liking]), min_size=1, max_size=4)
    return st.builds(
        lambda first, rest: Program(spec_version, tuple(chain(first, *rest))),
        episodes.skeletons(), parts,
    )  # fmt: skip
