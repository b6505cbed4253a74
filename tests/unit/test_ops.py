"""The log of operations as users read it."""

import pickle
from datetime import UTC, datetime

import pytest

import frazil
from frazil.format import repo_info
from frazil.format.ids import SnapshotId
from frazil.ops import GCSummary, RepoAvailability, RepoStatus, Update, UpdateType, public_update

ID = SnapshotId(bytes(range(12)))
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
NANOSECONDS = int(NOON.timestamp()) * 10**9

KINDS: list[tuple[repo_info.UpdateType, object]] = [
    (repo_info.RepoInitialized(), UpdateType.RepoInitialized()),
    (repo_info.RepoMigrated(1, 2), UpdateType.RepoMigrated(1, 2)),
    (repo_info.ConfigChanged(), UpdateType.ConfigChanged()),
    (repo_info.MetadataChanged(), UpdateType.MetadataChanged()),
    (repo_info.TagCreated("t"), UpdateType.TagCreated("t")),
    (repo_info.TagDeleted("t", ID), UpdateType.TagDeleted("t", str(ID))),
    (repo_info.BranchCreated("b"), UpdateType.BranchCreated("b")),
    (repo_info.BranchDeleted("b", ID), UpdateType.BranchDeleted("b", str(ID))),
    (repo_info.BranchReset("b", ID), UpdateType.BranchReset("b", str(ID))),
    (repo_info.NewCommit("b", ID), UpdateType.NewCommit("b", str(ID))),
    (repo_info.CommitAmended("b", ID, ID), UpdateType.CommitAmended("b", str(ID), str(ID))),
    (repo_info.NewDetachedSnapshot(ID), UpdateType.NewDetachedSnapshot(str(ID))),
    (repo_info.GCRan(), UpdateType.GCRan()),
    (repo_info.ExpirationRan(), UpdateType.ExpirationRan()),
    (repo_info.FeatureFlagChanged(3, None), UpdateType.FeatureFlagChanged(3, None)),
    (
        repo_info.RepoStatusChanged(
            repo_info.RepoStatus(repo_info.Availability.READ_ONLY, NANOSECONDS, "why")
        ),
        UpdateType.RepoStatusChanged(RepoStatus(RepoAvailability.read_only, NOON, "why")),
    ),
]


@pytest.mark.parametrize(("stored", "shown"), KINDS, ids=lambda each: type(each).__name__)
def test_an_entry_is_shown_with_its_details(stored: repo_info.UpdateType, shown: object) -> None:
    update = public_update(repo_info.Update(stored, NANOSECONDS, "repo.1.X"))

    assert update == Update(shown, NOON, "repo.1.X")  # type: ignore[arg-type]
    assert isinstance(update.kind, UpdateType)
    assert pickle.loads(pickle.dumps(update)) == update
    assert hash(update) == hash(pickle.loads(pickle.dumps(update)))


def test_every_operation_of_the_format_can_be_shown() -> None:
    assert {type(stored) for stored, _ in KINDS} == set(repo_info.UpdateType.__args__)


def test_an_operation_shows_itself_as_the_call_that_makes_it() -> None:
    kind = UpdateType.NewCommit("b", "X")

    assert repr(kind) == 'frazil.ops.UpdateType.NewCommit(branch="b", new_snap_id="X")'
    assert eval(repr(kind), {"frazil": frazil}) == kind


def test_a_summary_counts_from_zero() -> None:
    summary = GCSummary(bytes_deleted=3, skipped_phases=["chunks"])

    assert summary.chunks_deleted == 0
    assert "bytes_deleted: 3\n" in str(summary)
    assert 'skipped_phases: ["chunks"]\n' in str(summary)
    assert "bytes_deleted" in summary._repr_html_()
