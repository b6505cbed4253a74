"""Repo infos that Frazil encodes, as the official library reads them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from frazil.format import repo_info as model
from frazil.format.files import decode_repo_info
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.metadata import Metadata
from frazil.format.repo_info import Availability, RepoInfo, RepoStatus, Update, UpdateType
from frazil.format.snapshot import TransactionLog
from frazil.format.v2.snapshot_info_codec import EncodedSnapshots
from tests.interop.building import (
    FIRST_SNAPSHOT,
    START,
    Contents,
    RepositoryFiles,
    make_id,
    make_repo_info,
    make_snapshot,
)
from tests.interop.descriptions import describe_repo_info, describe_status, describe_updates
from tests.interop.official_library import OfficialError, OfficialLibrary, OfficialRepository

COMMIT = make_snapshot("one", FIRST_SNAPSHOT, [])
CONTENTS = Contents(
    [FIRST_SNAPSHOT, COMMIT],
    {"main": COMMIT.id, "élan": FIRST_SNAPSHOT.id},
    {"v1": COMMIT.id},
    frozenset({"gone", "☃"}),
)
GONE_ID = make_id(SnapshotId, "no longer there")
READ_ONLY = RepoStatus(Availability.READ_ONLY, START + 5_000, "maintenance ☂")

UPDATE_TYPES: tuple[UpdateType, ...] = (
    model.RepoInitialized(),
    model.RepoMigrated(1, 2),
    model.ConfigChanged(),
    model.MetadataChanged(),
    model.TagCreated("étiquette"),
    model.TagDeleted("☃", GONE_ID),
    model.BranchCreated("élan"),
    model.BranchDeleted("bough", GONE_ID),
    model.BranchReset("élan", COMMIT.id),
    model.NewCommit("main", COMMIT.id),
    model.CommitAmended("main", GONE_ID, COMMIT.id),
    model.NewDetachedSnapshot(GONE_ID),
    model.GCRan(),
    model.ExpirationRan(),
    model.FeatureFlagChanged(3, True),
    model.FeatureFlagChanged(4, False),
    model.FeatureFlagChanged(5, None),
    model.RepoStatusChanged(READ_ONLY),
    model.RepoStatusChanged(RepoStatus(set_at=START)),
)


@pytest.fixture
def files(tmp_path: Path) -> RepositoryFiles:
    return RepositoryFiles(tmp_path, Dialect.V2)


def make_updates(kinds: Sequence[UpdateType]) -> tuple[Update, ...]:
    """Newest first, a second apart; all but the newest have a backup."""
    last = len(kinds) - 1
    return tuple(
        Update(kind, START + (last - n) * 10**9, None if n == 0 else backup_name(last - n))
        for n, kind in enumerate(kinds)
    )


def backup_name(number: int) -> str:
    return f"repo.{30_000_000_000_000 - number:014}.{make_id(SnapshotId, str(number))}"


def write_info(
    files: RepositoryFiles, official: OfficialLibrary, **changes: Any
) -> tuple[RepoInfo, OfficialRepository]:
    """A repository with this repo info, changed in some fields."""
    info = replace(make_repo_info(CONTENTS), **changes)
    files.write(CONTENTS)
    files.write_repo_info(info)
    return info, official.open(files.root)


def inspect(repository: OfficialRepository) -> dict[str, Any]:
    """The file as the official library sees it, without the header."""
    found: dict[str, Any] = repository.call("inspect_repo_info")
    del found["header"]
    return found


# The ops log


def test_every_type_of_update_is_in_the_ops_log(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    updates = make_updates(UPDATE_TYPES)

    info, repository = write_info(files, official, latest_updates=updates)

    assert {type(kind) for kind in UPDATE_TYPES} == set(get_args(UpdateType))
    assert repository.call("read_ops_log") == describe_updates(updates)
    assert inspect(repository) == describe_repo_info(info)


def test_the_ops_log_goes_on_in_overwritten_repo_infos(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    updates = make_updates(UPDATE_TYPES * 3)
    pages = [updates[start : start + 10] for start in range(0, len(updates), 10)]
    base = make_repo_info(CONTENTS)

    # The newest update of a page got its backup path only when the next page was begun.
    names = [page[0].backup_path for page in pages]
    for number, page in enumerate(pages):
        name = names[number]
        info = replace(
            base,
            latest_updates=(replace(page[0], backup_path=None), *page[1:]),
            repo_before_updates=names[number + 1] if number + 1 < len(pages) else None,
        )
        files.write_repo_info(info, "repo" if name is None else f"overwritten/{name}")

    log = official.open(files.root).call("read_ops_log")
    assert len(pages) == 6
    assert log == describe_updates(updates)


# State


def test_metadata_status_and_feature_flags_are_read(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    metadata = {"name": "été ☃", "list": [1, 2.5, None, "x"], "deep": {"er": True}, "n": -5}

    info, repository = write_info(
        files,
        official,
        metadata=Metadata(metadata),
        status=READ_ONLY,
        enabled_feature_flags=(4,),
        disabled_feature_flags=(5, 3),
    )

    assert repository.call("read_state") == {
        "metadata": metadata,
        "status": describe_status(READ_ONLY),
        "feature_flags": {"move_node": False, "create_tag": True, "delete_tag": False},
    }
    assert inspect(repository) == describe_repo_info(info)


def test_empty_feature_flags_are_like_none(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    _, repository = write_info(files, official, enabled_feature_flags=(), disabled_feature_flags=())

    flags = repository.call("read_state")["feature_flags"]
    assert flags == {"move_node": None, "create_tag": None, "delete_tag": None}


def test_a_read_only_repository_is_not_written_to(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    _, repository = write_info(files, official, status=READ_ONLY)

    with pytest.raises(OfficialError) as refusal:
        repository.call("write_group", branch="main", path="new", message="refused")

    assert refusal.value.type == "ReadOnlyError"
    assert "maintenance ☂" in refusal.value.message


def test_many_snapshots_and_refs_are_read(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    line = [FIRST_SNAPSHOT]
    for number in range(2000):
        line.append(make_snapshot(f"commit {number}", line[-1], [], metadata={"n": number}))
    branches = {f"branch-{number % 7}/{number}": line[number].id for number in range(300)}
    tags = {f"tag.{number}": line[-number].id for number in range(1, 300)}
    info = make_repo_info(Contents(line, {"main": line[-1].id, **branches}, tags))

    files.write_repo_info(info)

    assert inspect(official.open(files.root)) == describe_repo_info(info)


def test_a_history_that_was_read_and_copied_in_columns_is_read(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    line = [FIRST_SNAPSHOT]
    for number in range(3000):
        metadata = {"n": number, "é": [str(number)], "who": {"x": None}} if number % 3 else {}
        line.append(make_snapshot(f"commit {number} ☃", line[-1], [], metadata=metadata))
    info = make_repo_info(Contents(line, {"main": line[-1].id}, {"half": line[1500].id}))
    kept = replace(
        info.snapshots[line[20].id],
        parent_id=line[10].id,
        pruned_ancestor_tx_logs=tuple(snapshot.id for snapshot in line[11:20]),
    )
    files.write_repo_info(info.with_snapshots(kept))

    # What is known only as columns, changed in some rows.
    known = decode_repo_info((files.root / "repo").read_bytes()).value
    tip = replace(known.snapshots[line[-1].id], message="another tip", metadata=Metadata({"a": 1}))
    copied = known.without_snapshots([s.id for s in line[11:20]]).with_snapshots(tip)
    files.write_repo_info(copied)
    for snapshot in line[9:21]:
        files.write_transaction_log(TransactionLog(snapshot.id))

    repository = official.open(files.root)
    composite = repository.call("inspect_transaction_log", snapshot_id=str(kept.id))
    assert isinstance(known.snapshots, EncodedSnapshots)
    assert inspect(repository) == describe_repo_info(copied)
    assert composite["synthetic_composite"]["merged_pruned_ancestor_tx_logs"] == [
        str(snapshot.id) for snapshot in line[11:20]
    ]
