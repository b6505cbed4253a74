"""What old values are in V2."""

import numpy as np

from frazil.format.ids import NodeId, SnapshotId
from frazil.format.metadata import JsonValue
from frazil.format.snapshot import ArrayData, Node, Snapshot, TransactionLog, nodes_by_path
from frazil.maintenance.migrate_legacy import convert_log, find_origin, record_origin

OLD = SnapshotId(b"the old name")
NEW = SnapshotId(b"the new name")
GROUP, ARRAY, FRESH, LOST = (
    NodeId(name) for name in (b"a group.", b"an array", b"new here", b"nowhere.")
)


def snapshot(*nodes: Node) -> Snapshot:
    return Snapshot(NEW, None, 0, "", nodes=nodes_by_path(nodes))


def test_a_commit_remembers_its_id_beside_its_own_metadata() -> None:
    metadata = record_origin({"by": "me", "__frazil": {"other": 1}}, OLD)

    assert metadata == {"by": "me", "__frazil": {"other": 1, "migrated_from": str(OLD)}}
    assert find_origin(metadata) == str(OLD)


def test_metadata_that_says_nothing_of_a_migration_has_no_origin() -> None:
    others: list[JsonValue] = [None, "text", {}, {"migrated_from": 1}]

    assert [find_origin({"__frazil": other}) for other in others] == [None] * 4
    assert find_origin({}) is None


def test_set_attributes_are_updates_of_groups_and_arrays_but_not_of_new_nodes() -> None:
    group, array = Node(GROUP, "/g", b"{}"), Node(ARRAY, "/a", b"{}", ArrayData(()))
    chunks = np.zeros((1, 1), np.uint32)
    log = TransactionLog(
        OLD,
        new_groups=frozenset({FRESH}),
        updated_attributes=frozenset({GROUP, ARRAY, FRESH, LOST}),
        updated_chunks={ARRAY: chunks, GROUP: chunks[:0]},
    )

    converted = convert_log(log, NEW, snapshot(group), snapshot(array, Node(FRESH, "/n", b"{}")))

    assert converted == TransactionLog(
        NEW,
        new_groups=frozenset({FRESH}),
        updated_groups=frozenset({GROUP}),
        updated_arrays=frozenset({ARRAY}),
        updated_chunks={ARRAY: chunks},
    )
