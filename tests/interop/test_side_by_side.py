"""What one library writes through Zarr the other one reads; and both commit to one branch in turns."""

from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.storage.local import Durability, LocalStorage
from tests.interop.machine import documents
from tests.interop.machine.outcomes import Outcome
from tests.interop.machine.players import FrazilPlayer, OfficialPlayer, Player
from tests.interop.machine.steps import Build, OnSession, OnStore, Open, Step
from tests.interop.official_library import OfficialLibrary
from tests.interop.rich.reading import read_rich_repository
from tests.interop.rich.writing import write_rich_repository

SETTINGS = ({"inline_bytes": 0, "split": 1000}, {"inline_bytes": 40, "split": 2})

Directories = tuple[Path, Path]
"""Of a repository, and of a file that virtual chunks are in."""


def make_directories(path: Path) -> Directories:
    files = path / "files"
    files.mkdir(parents=True)
    return path / "repository", files


def write_with_frazil(places: Directories, spec_version: int, settings: dict[str, int]) -> None:
    storage = LocalStorage(places[0], durability=Durability.NONE)
    write_rich_repository(frazil, storage, places[1], spec_version, **settings)


def read_with_frazil(places: Directories) -> dict[str, Any]:
    storage = frazil.local_filesystem_storage(str(places[0]))
    return read_rich_repository(frazil, storage, places[1])


def read_with_official(places: Directories, official: OfficialLibrary) -> dict[str, Any]:
    directory, files = map(str, places)
    found: dict[str, Any] = official.call("read_rich_repository", directory=directory, files=files)
    return found


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("spec_version", [1, 2])
def test_both_read_the_same_by_any_writer(
    spec_version: int, settings: dict[str, int], official: OfficialLibrary, tmp_path: Path
) -> None:
    ours, theirs = make_directories(tmp_path / "ours"), make_directories(tmp_path / "theirs")
    write_with_frazil(ours, spec_version, settings)
    official.call(
        "write_rich_repository",
        directory=str(theirs[0]), files=str(theirs[1]), spec_version=spec_version, **settings,
    )  # fmt: skip

    by_frazil = read_with_frazil(ours)

    assert read_with_official(ours, official) == by_frazil
    assert read_with_frazil(theirs) == read_with_official(theirs, official)
    assert without_locations(read_with_frazil(theirs)) == without_locations(by_frazil)


def without_locations(found: dict[str, Any]) -> dict[str, Any]:
    """Virtual chunks of two repositories are in two files."""
    return {
        ref: {name: each for name, each in values.items() if name != "locations"}
        for ref, values in found.items()
    }


def put(key: str, value: bytes) -> Step:
    return OnStore("a", "set", {"key": key, "value": value})


def commit(**arguments: Any) -> Step:
    return OnSession("a", "commit", {"message": "message", **arguments})


def error_of(outcome: Outcome) -> tuple[str, str]:
    assert outcome[0] == "error", outcome
    return outcome[1][0], outcome[2]


WRITABLE = Open("a", "writable_session", {"branch": "main"})
ARRAY = documents.array((4,), (1,))
OURS_WIN = Build("BasicConflictSolver")


@pytest.fixture(params=["frazil first", "official first"])
def players(
    request: pytest.FixtureRequest, spec_version: int, official: OfficialLibrary, tmp_path: Path
) -> tuple[Player, Player]:
    """Two libraries with one repository, which has an array."""
    places = make_directories(tmp_path)
    ours = FrazilPlayer.start(*places, spec_version)
    theirs = OfficialPlayer.start(official, *places, None)
    both = (ours, theirs) if request.param == "frazil first" else (theirs, ours)
    for step in (WRITABLE, put("x/zarr.json", ARRAY), commit()):
        assert both[0].run(step)[0] == "value"
    return both


@pytest.mark.parametrize("spec_version", [1, 2])
def test_a_commit_meets_the_one_that_the_other_library_made(players: tuple[Player, Player]) -> None:
    first, second = players
    for player, data in ((first, b"first"), (second, b"second")):
        player.run(WRITABLE)
        player.run(put("x/c/0", data))
    made = first.run(commit())

    outcome = second.run(commit())

    assert error_of(outcome) == ("ConflictError", "commit-conflict")
    assert outcome[3]["actual_parent"] == made[1]


@pytest.mark.parametrize("spec_version", [1, 2])
def test_a_rebase_finds_the_conflicts_in_the_other_librarys_commit(
    players: tuple[Player, Player],
) -> None:
    first, second = players
    for player, data in ((first, b"first"), (second, b"second")):
        player.run(WRITABLE)
        player.run(put("x/c/0", data))
    first.run(commit())

    outcome = second.run(OnSession("a", "rebase", {"solver": Build("ConflictDetector")}))

    assert error_of(outcome) == ("RebaseFailedError", "rebase-failed")
    (found,) = outcome[3]["conflicts"]
    assert (found["conflict_type"], found["path"]) == ("Chunk double update", "/x")


@pytest.mark.parametrize("spec_version", [1, 2])
def test_both_commit_in_turns_and_each_one_reads_all(players: tuple[Player, Player]) -> None:
    for turn in range(4):
        for player in players:
            player.run(WRITABLE)
        for number, player in enumerate(players):
            player.run(put(f"x/c/{turn}", b"turn %d, by %d" % (turn, number)))
            assert player.run(commit(rebase_with=OURS_WIN))[0] == "value"

    for player in players:
        player.run(Open("a", "readonly_session", {"branch": "main"}))
        read = [player.run(OnStore("a", "get", {"key": f"x/c/{n}"}))[1] for n in range(4)]
        assert read == [b"turn %d, by 1" % turn for turn in range(4)]
