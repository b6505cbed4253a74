"""Checks of what the official library writes, and what it makes of repositories that were repaired."""

import random
from pathlib import Path
from typing import Any

import pytest

from frazil import Repository
from frazil.credentials import LocalFileSystemAccess
from frazil.format.ids import SnapshotId
from frazil.format.repo_info import RepoInfo, SnapshotInfo
from frazil.maintenance.repair import restore_repo
from frazil.storage.local import LocalStorage
from tests.damages import cut, delete, log_key, rewrite_repo, what_matters
from tests.interop.official_library import Container, OfficialLibrary, OfficialRepository


class Pair:
    """A repository that the official library wrote, as both libraries open it."""

    def __init__(self, official: OfficialRepository, container: Container) -> None:
        self.official = official
        self._container = container

    def open(self) -> Repository:
        """As Frazil sees it now."""
        access = {self._container.url_prefix: LocalFileSystemAccess}
        return Repository.open(LocalStorage(self.official.path), None, access)

    def assert_sound(self) -> None:
        """Nothing that a check looks for is wrong."""
        report = self.open().check(deep=True, virtual=True)
        assert what_matters(report) == []
        assert report.counts.nodes > 0

    def read(self) -> dict[str, Any]:
        """All that the official library reads of all snapshots that refs lead to."""
        refs = self.official.call("read_refs")
        tips = {*refs["branches"].values(), *refs["tags"].values()}
        contents = {id: self.official.call("read_contents", snapshot_id=id, unreadable=[])
                    for id in tips}  # fmt: skip
        return {"refs": refs, "contents": contents}

    def diffs(self) -> list[dict[str, Any]]:
        """What the official library says that each commit to `main` changed."""
        line = self.official.call("read_ancestry", branch="main")
        return [
            self.official.call(
                "read_diff", from_snapshot_id=each["parent_id"], to_snapshot_id=each["id"]
            )
            for each in line
            if each["parent_id"] is not None
        ]


def _name(param: tuple[int, int | None]) -> str:
    return f"v{param[0]}-{param[1] or 'fresh'}"


def _drawn_from(*seeds: int | None, versions: tuple[int, ...] = (1, 2)) -> pytest.MarkDecorator:
    params = [(version, seed) for version in versions for seed in seeds]
    return pytest.mark.parametrize("pair", params, indirect=True, ids=_name)


@pytest.fixture
def pair(request: pytest.FixtureRequest, official: OfficialLibrary, tmp_path: Path) -> Pair:
    """A repository that the official library has just written, its contents drawn from a seed."""
    version, seed = request.param
    if seed is None:
        seed = random.randrange(2**32)
    print(f"seed {seed}")
    container = Container.of(tmp_path / "virtual", "local")
    root = tmp_path / "repo"
    official.call(
        "write_random_repository",
        path=str(root), spec_version=version, seed=seed, virtual_path=container.path,
    )  # fmt: skip
    return Pair(official.open(root, [container]), container)


@_drawn_from(1, 2, 3, 4, None)
def test_nothing_is_wrong_with_what_the_official_library_writes(pair: Pair) -> None:
    pair.assert_sound()


@_drawn_from(1, None)
def test_the_official_library_reads_a_repository_with_rebuilt_logs(pair: Pair) -> None:
    before = pair.read()
    repository = pair.open()
    for number, info in enumerate(repository.ancestry(branch="main")):
        has_log = info.parent_id is not None or repository.spec_version == 2
        listed = repository.protocol.lookup_snapshot(SnapshotId.parse(info.id))
        if has_log and not listed.pruned_ancestor_tx_logs:
            damage = delete if number % 2 else cut
            damage(repository, log_key(repository, listed.id))

    outcome = pair.open().repair(pair.open().check())

    assert outcome.repaired
    assert all(each.is_repaired for each in outcome.outcomes)
    pair.assert_sound()
    assert pair.read() == before
    assert len(pair.diffs()) == len(list(repository.ancestry(branch="main"))) - 1


@_drawn_from(1, None, versions=(2,))
def test_the_official_library_reads_and_writes_after_other_repairs(pair: Pair) -> None:
    repository = pair.open()
    before = pair.read()
    rewrite_repo(repository, _list_ghost)
    pair.open().repair(pair.open().check())
    pair.assert_sound()
    repository.storage.put("repo", b"nothing of use")

    restore_repo(repository.storage)

    # The newest backup is that of the update which dropped the ghost: it lists it again.
    pair.open().repair(pair.open().check())
    pair.assert_sound()
    assert pair.read() == before
    pair.official.call("write_group", branch="main", path="after", message="goes on")
    pair.assert_sound()


def _list_ghost(info: RepoInfo) -> RepoInfo:
    parent = info.snapshots[info.branches["main"]]
    ghost = SnapshotId(b"never there!")
    return info.with_snapshots(SnapshotInfo(ghost, parent.id, parent.flushed_at + 1000, "flushed"))
