"""Both libraries look after copies of one repository, and do the same."""

import random
import shutil
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.format.files import decode_repo_info
from frazil.format.repo_info import RepoInfo
from tests.interop import upkeep_scenarios
from tests.interop.official.protocol import decode_line, encode_line
from tests.interop.official_library import OfficialLibrary
from tests.interop.upkeep_scenarios import Step

SEEDS = range(8)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two copies of a repository, one in the care of each library."""

    official: OfficialLibrary
    theirs: Path
    ours: Path
    moments: list[datetime]

    def maintain(self, step: Step) -> tuple[Any, Any]:
        """What each library answers: theirs, ours."""
        return (
            self.official.call("maintain", path=str(self.theirs), step=step),
            upkeep_scenarios.maintain(frazil, str(self.ours), step),
        )

    def sizes(self) -> tuple[dict[str, int], dict[str, int]]:
        """The files of each, with their sizes; but no backups and no files of locks."""
        return _sizes(self.theirs), _sizes(self.ours)

    def repo_infos(self) -> tuple[RepoInfo, RepoInfo]:
        """The repo info of each, without what depends on clocks and chance."""
        return _repo_info(self.theirs), _repo_info(self.ours)

    def assert_alike(self) -> None:
        """All files have the same names, and both libraries read the same in both."""
        theirs, ours = self.sizes()
        assert ours.keys() == theirs.keys()
        if (self.theirs / "repo").exists():
            assert len(set(map(str, self.repo_infos()))) == 1
        expected = self.official.call("describe_history", path=str(self.theirs))
        for path in (self.theirs, self.ours):
            assert _plain(upkeep_scenarios.describe_history(frazil, str(path))) == expected
        assert self.official.call("describe_history", path=str(self.ours)) == expected


def _sizes(path: Path) -> dict[str, int]:
    found = {str(file.relative_to(path)): file for file in path.rglob("*") if file.is_file()}
    return {
        key: file.stat().st_size
        for key, file in found.items()
        if not key.startswith(("overwritten/", "repo#"))
    }


def _repo_info(path: Path) -> RepoInfo:
    info = decode_repo_info((path / "repo").read_bytes()).value
    snapshots = dict(sorted(info.snapshots.items()))
    return replace(info, snapshots=snapshots, latest_updates=(), repo_before_updates=None)


def _plain(value: Any) -> Any:
    """As it would come from the child process."""
    return decode_line(encode_line(value))


def make_pair(
    official: OfficialLibrary, folder: Path, spec_version: int, seed: int, *, is_ours: bool = False
) -> Pair:
    """A repository that one of the libraries wrote, twice, with the times of its files."""
    theirs, ours = folder / "theirs", folder / "ours"
    scenario: Any = {"path": str(theirs), "spec_version": spec_version, "seed": seed}
    if is_ours:
        moments = upkeep_scenarios.write_history(frazil, **scenario)
    else:
        moments = official.call("write_history", **scenario)
    shutil.copytree(theirs, ours)
    return Pair(official, theirs, ours, moments)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def spec_version(request: pytest.FixtureRequest) -> int:
    version: int = request.param
    return version


@pytest.mark.parametrize("is_ours", [False, True], ids=["written-by-them", "written-by-us"])
@pytest.mark.parametrize("seed", SEEDS)
def test_expiry_and_collection(
    tmp_path: Path, official: OfficialLibrary, spec_version: int, seed: int, is_ours: bool
) -> None:
    pair = make_pair(official, tmp_path, spec_version, seed, is_ours=is_ours)
    chance = random.Random(seed)

    for _ in range(4):
        moment = chance.choice(pair.moments)
        if chance.random() < 0.6:
            theirs, ours = pair.maintain(
                ["expire", moment, chance.random() < 0.3, chance.random() < 0.3]
            )
            assert ours == theirs
        else:
            collect(pair, moment)
        theirs, ours = pair.maintain(["measure"])
        assert ours == theirs
        pair.assert_alike()
    collect(pair, pair.moments[-1])
    pair.assert_alike()


def collect(pair: Pair, moment: datetime) -> None:
    """Collect garbage in both; each must have deleted what it says, and the same as the other."""
    before = pair.sizes()

    answers = pair.maintain(["collect", moment, False])

    for answer, former, now in zip(answers, before, pair.sizes(), strict=True):
        gone = former.keys() - now.keys()
        assert answer.pop("bytes_deleted") == sum(former[key] for key in gone)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_dry_runs_count_the_same_snapshots_manifests_and_chunks(
    tmp_path: Path, official: OfficialLibrary, spec_version: int, seed: int
) -> None:
    pair = make_pair(official, tmp_path, spec_version, seed)
    before = pair.sizes()

    for moment in pair.moments[::3]:
        theirs, ours = pair.maintain(["collect", moment, True])
        # With V2 the official dry run counts logs by the history as it is, not as it would be.
        for answer in (theirs, ours) if spec_version == 2 else ():
            del answer["transaction_logs_deleted"], answer["bytes_deleted"]
        assert ours == theirs

    assert pair.sizes() == before


def test_collecting_now_and_then_goes_on_with_commits_of_the_other(
    tmp_path: Path, official: OfficialLibrary, spec_version: int
) -> None:
    pair = make_pair(official, tmp_path, spec_version, 3)
    pair.maintain(["expire", pair.moments[-1], False, False])
    pair.maintain(["collect", pair.moments[-1], False])

    official.call("commit_again", path=str(pair.ours), number=1)
    upkeep_scenarios.commit_again(frazil, str(pair.theirs), 1)

    for path in (pair.ours, pair.theirs):
        ours = _plain(upkeep_scenarios.describe_history(frazil, str(path)))
        assert official.call("describe_history", path=str(path)) == ours
        assert ours["branches"]["main"]["ancestors"][0][2] == "again 1"


def test_a_repository_that_is_open_sees_what_the_other_expires(
    tmp_path: Path, official: OfficialLibrary, spec_version: int
) -> None:
    pair = make_pair(official, tmp_path, spec_version, 3)
    opened = upkeep_scenarios.open_repository(frazil, str(pair.theirs))
    before = list(opened.ancestry(branch="main"))

    step: Step = ["expire", pair.moments[-1], False, False]
    official.call("maintain", path=str(pair.theirs), step=step)

    after = list(opened.ancestry(branch="main"))
    again = upkeep_scenarios.open_repository(frazil, str(pair.theirs))
    assert after == list(again.ancestry(branch="main"))
    assert len(after) < len(before)


@pytest.mark.parametrize("num_chunks", [1, 4, 100])
@pytest.mark.parametrize("commit_method", ["new_commit", "amend"])
def test_rewritten_manifests(
    tmp_path: Path,
    official: OfficialLibrary,
    spec_version: int,
    num_chunks: int,
    commit_method: str,
) -> None:
    pair = make_pair(official, tmp_path, spec_version, 4)
    if spec_version == 1 and commit_method == "amend":
        theirs, ours = pair.maintain(["refuse", "rewrite", num_chunks, commit_method])
        assert ours == theirs == ["FormatError", "unsupported-operation-for-version"]
        return

    for chunks in (2, num_chunks):
        theirs, ours = pair.maintain(["rewrite", chunks, commit_method])
        assert ours == theirs

    for path in (pair.ours, pair.theirs):
        description = official.call("describe_history", path=str(path))
        assert _plain(upkeep_scenarios.describe_history(frazil, str(path))) == description


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("deletes_files", [True, False])
def test_migration(
    tmp_path: Path, official: OfficialLibrary, seed: int, deletes_files: bool
) -> None:
    pair = make_pair(official, tmp_path, 1, seed)
    if seed % 2:
        pair.maintain(["expire", pair.moments[len(pair.moments) // 2], False, False])

    assert len(set(map(str, pair.maintain(["migrate", True, deletes_files])))) == 1
    pair.assert_alike()
    theirs, ours = pair.maintain(["migrate", False, deletes_files])

    assert ours == theirs
    assert ours["old"] == "RuntimeError"
    pair.assert_alike()
    logs = [decode_repo_info((p / "repo").read_bytes()).value for p in (pair.theirs, pair.ours)]
    assert logs[0].latest_updates[1:] == logs[1].latest_updates[1:]
    assert logs[0].latest_updates[0].kind == logs[1].latest_updates[0].kind


@pytest.mark.parametrize(
    "step",
    [
        ["expire", datetime(2024, 1, 1), False, False],
        ["collect", datetime(2024, 1, 1), False],
        ["rewrite", 2, "neither"],
    ],
    ids=lambda step: step[0],
)
def test_both_refuse_the_same(
    tmp_path: Path, official: OfficialLibrary, spec_version: int, step: Step
) -> None:
    pair = make_pair(official, tmp_path, spec_version, 5)

    theirs, ours = pair.maintain(["refuse", *step])

    assert ours is not None
    if ours[0] == "InvalidTypeError":  # which is both of theirs
        assert theirs[0] in ("TypeError", "ValueError")
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", ["expire", "collect", "rewrite", "migrate", "measure"])
def test_both_refuse_the_same_while_a_repository_is_read_only(
    tmp_path: Path, official: OfficialLibrary, name: str
) -> None:
    pair = make_pair(official, tmp_path, 2, 5)
    arguments: dict[str, list[Any]] = {
        "expire": [pair.moments[-1], False, False],
        "collect": [pair.moments[-1], True],
        "rewrite": [2, "new_commit"],
        "migrate": [False, True],
        "measure": [],
    }
    pair.maintain(["set_status", "read_only"])

    theirs, ours = pair.maintain(["refuse", name, *arguments[name]])

    assert ours == theirs
    assert (ours is None) == (name == "measure")
