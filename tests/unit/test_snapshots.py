"""Snapshots and what changed between them, as users see them."""

import pickle
from datetime import UTC, datetime

import numpy as np

from frazil.format import repo_info, snapshot
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.metadata import Metadata
from frazil.snapshots import (
    Diff,
    ManifestFileInfo,
    SnapshotInfo,
    public_manifest_file_info,
    public_snapshot_info,
)

ID, PARENT = SnapshotId(bytes(range(12))), SnapshotId(bytes(12))
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
NANOSECONDS = int(NOON.timestamp()) * 10**9
METADATA = Metadata({"a": [1, None]})
INFO = SnapshotInfo(str(ID), str(PARENT), NOON, "one\ntwo", {"a": [1, None]})


def test_a_snapshot_is_shown_from_the_repo_info_and_from_its_file() -> None:
    entry = repo_info.SnapshotInfo(ID, PARENT, NANOSECONDS, "one\ntwo", METADATA)
    file = snapshot.Snapshot(ID, PARENT, NANOSECONDS, "one\ntwo", METADATA)

    assert public_snapshot_info(entry) == public_snapshot_info(file) == INFO


def test_the_first_snapshot_has_no_parent() -> None:
    entry = repo_info.SnapshotInfo(ID, None, NANOSECONDS, "one")

    assert public_snapshot_info(entry).parent_id is None


def test_a_snapshot_is_a_hashable_value_that_travels() -> None:
    assert pickle.loads(pickle.dumps(INFO)) == INFO
    assert len({INFO, pickle.loads(pickle.dumps(INFO))}) == 1


def test_a_snapshot_shows_its_fields_in_lines() -> None:
    assert str(INFO) == repr(INFO) == (
        "<frazil.snapshots.SnapshotInfo>\n"
        f"id: {ID}\nparent_id: {PARENT}\nwritten_at: 2020-01-01 12:00:00+00:00\n"
        'message:\n    one\n    two\nmetadata: {"a": [1, None]}\n'
    )  # fmt: skip


def test_a_notebook_gets_text_that_came_from_outside_escaped() -> None:
    shown = SnapshotInfo("X", None, NOON, "<script>")._repr_html_()

    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_a_manifest_file_is_shown() -> None:
    stored = snapshot.ManifestFileInfo(ManifestId(bytes(12)), 180, 4)

    assert public_manifest_file_info(stored) == ManifestFileInfo("0" * 20, 180, 4)


def test_nothing_changed() -> None:
    assert Diff().is_empty()
    assert str(Diff()) == "No changes\n"


def test_changes_are_listed_by_what_happened() -> None:
    diff = Diff(
        new_groups={"/b", "/a"},
        chunk_coordinates={"/x": np.arange(12, dtype=np.uint32).reshape(12, 1)},
        moved_nodes=[("/old", "/new")],
    )

    assert not diff.is_empty()
    assert str(diff) == repr(diff) == (
        "Groups created:\n    /a\n    /b\n\n"
        "Chunks updated:\n    /x:\n"
        + "".join(f"        [{n}]\n" for n in range(10))
        + "        ... 2 more\n"
        "Nodes moved/renamed:\n    /old -> /new\n\n"
    )  # fmt: skip
    assert "/old" in diff._repr_html_()
