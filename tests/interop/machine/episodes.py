"""Random pieces of programs that belong together: a session from start to end, forks, two writers."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.interop.machine.edits import (
    chunk_sets,
    deletes,
    metadata_sets,
    node_path,
    on_session,
    paths,
    sets,
    usual_nodes,
    virtual,
)
from tests.interop.machine.readings import reads
from tests.interop.machine.steps import (
    Build,
    Fork,
    Member,
    Merge,
    Moved,
    OnSession,
    OnStore,
    Open,
    Step,
)
from tests.interop.machine.weighting import weighted

Episode = list[Step]

FORKS = ("1", "2")

slots = st.sampled_from(("a", "b"))
players = st.integers(0, 1)
branches = st.sampled_from(("main",) * 14 + ("dev", "none"))
messages = st.sampled_from(("first", "other", ""))
metadata: st.SearchStrategy[Any] = st.sampled_from(
    (None, {}, {"k": 1}, {"k": [1, "two", None, {"x": 0.5}], "l": True})
)
solvers = st.sampled_from(
    (
        Build("ConflictDetector"),
        *(
            Build("BasicConflictSolver", {"on_chunk_conflict": Member("VersionSelection", name)})
            for name in ("UseOurs", "UseTheirs", "Fail")
        ),
        Build("BasicConflictSolver", {"fail_on_delete_of_updated_array": True}),
        Build("BasicConflictSolver", {"fail_on_delete_of_updated_group": True}),
    )
)


@cache
def edits(slot: str) -> st.SearchStrategy[Step]:
    """Mostly writing, some deleting, some looking."""
    return weighted(
        (10, sets(slot)),
        (3, deletes(slot)),
        (3, virtual(slot)),
        (4, reads(slot)),
    )


@cache
def shifts(slot: str) -> st.SearchStrategy[Step]:
    """Moving the chunks of an array of one axis."""
    return on_session(
        slot,
        "shift_array",
        array_path=st.sampled_from(("/x", "/g/x", "/g", "/no/x")),
        chunk_offset=st.sampled_from(([0], [1], [-1], [2], [-9])),
    )


@cache
def reindexings(slot: str) -> st.SearchStrategy[Step]:
    """The same with functions, some of which lead out of the grid."""
    functions = st.builds(Moved, st.integers(-2, 2), st.sampled_from((2, 4, 4, 9)))
    return on_session(
        slot,
        "reindex_array",
        array_path=st.sampled_from(("/x", "/g/x", "/g")),
        forward=functions,
        backward=st.one_of(st.none(), functions),
    )


@cache
def endings(slot: str) -> st.SearchStrategy[Step]:
    """Commit, mostly."""
    text = {"message": messages, "metadata": metadata}
    commit = on_session(slot, "commit", **text, allow_empty=st.booleans())
    return weighted(
        (4, commit),
        (3, on_session(slot, "commit", message=messages, rebase_with=solvers)),
        (2, on_session(slot, "amend", **text, allow_empty=st.booleans())),
        (1, on_session(slot, "flush", **text)),
        (1, on_session(slot, "rebase", solver=solvers)),
    )


@cache
def openings(slot: str, method: str = "writable_session") -> st.SearchStrategy[Step]:
    """A new session, mostly of `main`."""
    return st.builds(
        lambda branch, by: Open(slot, method, {"branch": branch}, by), branches, players
    )


def set_key(slot: str, key: str, data: bytes) -> Step:
    """Set one key."""
    return OnStore(slot, "set", {"key": key, "value": data})


@st.composite
def skeletons(draw: st.DrawFn) -> Episode:
    """A commit that gives later steps something to meet."""
    nodes = [*draw(usual_nodes), *draw(st.lists(metadata_sets, max_size=2))]
    chunks = draw(st.lists(chunk_sets, max_size=8))
    start = Open("a", "writable_session", {"branch": "main"}, draw(players))
    body = [set_key("a", key, data) for key, data in (*nodes, *chunks)]
    return [start, *body, OnSession("a", "commit", {"message": "skeleton", "allow_empty": True})]


@st.composite
def writers(draw: st.DrawFn) -> Episode:
    """A session from its start to its end."""
    slot = draw(slots)
    body = draw(st.lists(edits(slot), min_size=1, max_size=6))
    return [draw(openings(slot)), *body, draw(endings(slot))]


@st.composite
def reindexers(draw: st.DrawFn) -> Episode:
    """Moving chunks first of all: the official library takes deleted ones for chunks, too."""
    slot = draw(slots)
    body = [
        draw(weighted((1, reindexings(slot)), (1, shifts(slot)))),
        *draw(st.lists(reads(slot), max_size=2)),
    ]
    return [draw(openings(slot)), *body, draw(endings(slot))]


@st.composite
def rivals(draw: st.DrawFn) -> Episode:
    """Two sessions of one branch; the second one to commit has to look at what the first one did."""
    branch = {"branch": "main"}
    starts = [Open(slot, "writable_session", branch, draw(players)) for slot in ("a", "b")]
    first = draw(st.lists(edits("a"), min_size=1, max_size=3))
    drawn = draw(st.lists(edits("b"), min_size=1, max_size=3))
    second = [step for step in drawn if not _deletes_the_root(step)]
    end = OnSession("a", "commit", {"message": "first", "allow_empty": True})
    return [*starts, *first, *second, end, *draw(st.lists(endings("b"), min_size=1, max_size=2))]


def _deletes_the_root(step: Step) -> bool:
    arguments = getattr(step, "arguments", {})
    names = arguments.get("key"), arguments.get("prefix")
    is_root = any(name is not None and name.strip("/") in ("", "zarr.json") for name in names)
    return isinstance(step, OnStore) and (step.method == "clear" or is_root)


@st.composite
def distributed(draw: st.DrawFn) -> Episode:
    """A session whose forks are written to and merged, in any order and number."""
    slot = draw(slots)
    forks = [slot + number for number in FORKS]
    body: Episode = [draw(openings(slot)), *draw(st.lists(edits(slot), max_size=3))]
    for fork in forks:
        body.append(Fork(slot, fork, draw(st.booleans())))
        body += draw(st.lists(edits(fork), max_size=3))
    body += draw(st.lists(merges(slot), max_size=3))
    return [*body, *draw(st.lists(edits(slot), max_size=2)), draw(endings(slot))]


@st.composite
def merges(draw: st.DrawFn, slot: str) -> Step:
    """Of forks into their session, or into one another; rarely of what can't be merged."""
    family = [slot, *(slot + number for number in FORKS)]
    into = draw(st.sampled_from((slot, slot, slot, *family)))
    others = draw(
        st.lists(st.sampled_from([each for each in family if each != into]), min_size=1, max_size=2)
    )
    return Merge(into, tuple(others))


@st.composite
def rearrangers(draw: st.DrawFn) -> Episode:
    """A session that moves nodes, and sometimes tries what it can't."""
    slot = draw(slots)
    new = st.sampled_from(("new", "other", "g/new", "new/deeper", "g/other", "no/new", "x/new"))
    froms = weighted((3, paths), (1, new)).map(node_path)
    tos = weighted((1, paths), (3, new)).map(node_path)
    moves = on_session(slot, "move", from_path=froms, to_path=tos)
    steps = weighted((6, moves), (2, reads(slot)), (1, sets(slot)))
    body = draw(st.lists(steps, min_size=1, max_size=6))
    return [draw(openings(slot, "rearrange_session")), *body, draw(endings(slot))]
