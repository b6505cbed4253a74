"""Alpha repositories, real and synthesised, at file level."""

from pathlib import Path
from typing import Any

import pytest

from frazil.format import alpha
from frazil.format.alpha import LAYOUTS, open_envelope, unpack
from frazil.format.header import Dialect, FileType
from frazil.format.ids import SnapshotId
from frazil.format.legacy_trees import RankedRefs
from tests.legacy_files import ALPHA_NAMES, assert_reads_as_expected, files_in, read_alpha

repositories = pytest.mark.parametrize("name", ALPHA_NAMES)

RELEASES = {
    "0.1.0a1-a4": Dialect.ALPHA_A, "a1": Dialect.ALPHA_A,
    "0.1.0a5-a7": Dialect.ALPHA_B,
    "0.1.0a8": Dialect.ALPHA_C, "a8": Dialect.ALPHA_C,
    "0.1.0a9": Dialect.ALPHA_D, "a9": Dialect.ALPHA_D,
    "0.1.0a10": Dialect.ALPHA_E, "a10": Dialect.ALPHA_E,
    "0.1.0a11-a12": Dialect.ALPHA_F, "a11": Dialect.ALPHA_F,
    "0.1.0a13-a15": Dialect.ALPHA_G, "a13": Dialect.ALPHA_G,
    "0.1.0-0.1.3": Dialect.ALPHA_H, "0.1.0": Dialect.ALPHA_H,
}  # fmt: skip


def dialect_of(name: str) -> Dialect:
    """The dialect that a fixture's name speaks of."""
    release = name.removeprefix("alpha-msgpack-")
    return RELEASES[release.removeprefix("alpha-real-").split("-", 1)[1]] if "real" in name else (
        RELEASES[release]
    )  # fmt: skip


@repositories
def test_a_repository_reads_as_expected(name: str, generations: Path) -> None:
    repository = read_alpha(generations / name)

    assert_reads_as_expected(repository, generations / name / "repo" / "chunks")


@repositories
def test_the_newest_dialect_among_its_files_is_the_repositorys(
    name: str, generations: Path
) -> None:
    assert read_alpha(generations / name).dialect is dialect_of(name)


@repositories
def test_transaction_logs_name_the_nodes_that_differ_from_the_parent(
    name: str, generations: Path
) -> None:
    repository = read_alpha(generations / name)
    snapshots = {id: file.value for id, file in repository.snapshots.items()}
    with_parents = {id for id, snapshot in snapshots.items() if snapshot.parent_id is not None}
    assert repository.transaction_logs.keys() == (
        set() if repository.dialect is Dialect.ALPHA_A else with_parents
    )

    for id, file in repository.transaction_logs.items():
        parent_id = snapshots[id].parent_id
        assert parent_id is not None
        before = {n.id: n.array is not None for n in snapshots[parent_id].nodes.values()}
        after = {n.id: n.array is not None for n in snapshots[id].nodes.values()}
        assert file.value.id == id
        created = file.value.new_arrays | file.value.new_groups
        assert created == after.keys() - before.keys()
        assert file.value.new_arrays == {node for node in created if after[node]}
        deleted = file.value.deleted_arrays | file.value.deleted_groups
        assert deleted == before.keys() - after.keys()
        assert created <= file.value.updated_attributes
        assert file.value.updated_chunks.keys() <= after.keys() | before.keys()


def in_any_order(value: Any, *, sets: bool) -> str:
    """What two trees share if they differ in the order of maps only, or of arrays too."""
    if isinstance(value, dict):
        pairs = (
            (in_any_order(key, sets=sets), in_any_order(item, sets=sets))
            for key, item in value.items()
        )
        return f"{{{sorted(pairs)}}}"
    if isinstance(value, tuple):
        items = [in_any_order(item, sets=sets) for item in value]
        return f"({sorted(items) if sets else items})"
    return repr(value)


def encode_again(file_type: FileType, path: Path, dialect: Dialect) -> bytes:
    """Decode a file and encode its value."""
    data, writer = path.read_bytes(), "frazil-test"
    if file_type is FileType.SNAPSHOT:
        return alpha.encode_snapshot(alpha.decode_snapshot(data).value, dialect, writer)
    if file_type is FileType.MANIFEST:
        return alpha.encode_manifest(alpha.decode_manifest(data).value, dialect, writer)
    log = alpha.decode_transaction_log(data, SnapshotId.parse(path.name)).value
    return alpha.encode_transaction_log(log, dialect, writer)


@repositories
@pytest.mark.parametrize(
    ("folder", "file_type"),
    [
        ("snapshots", FileType.SNAPSHOT),
        ("manifests", FileType.MANIFEST),
        ("transactions", FileType.TRANSACTION_LOG),
    ],
)
def test_payloads_are_written_again_byte_for_byte(
    name: str, folder: str, file_type: FileType, generations: Path
) -> None:
    for path in files_in(generations / name, folder):
        before = open_envelope(path.read_bytes(), file_type)
        after = open_envelope(encode_again(file_type, path, dialect_of(name)), file_type)

        assert (after.header is None) == (before.header is None)
        assert after.has_bare_zstd == before.has_bare_zstd
        if after.payload != before.payload:
            # The official library kept some maps, and the sets of logs, in no order.
            assert file_type is not FileType.MANIFEST
            sets = file_type is FileType.TRANSACTION_LOG
            assert len(after.payload) == len(before.payload)
            assert in_any_order(unpack(after.payload), sets=sets) == in_any_order(
                unpack(before.payload), sets=sets
            )


@repositories
def test_sorted_payloads_are_written_again_byte_for_byte(name: str, generations: Path) -> None:
    exact = {
        path.name: open_envelope(path.read_bytes(), FileType.SNAPSHOT).payload
        == open_envelope(
            encode_again(FileType.SNAPSHOT, path, dialect_of(name)), FileType.SNAPSHOT
        ).payload
        for path in files_in(generations / name, "snapshots")
    }

    # Only one synthesised snapshot has two properties, which stand in no order.
    assert sum(exact.values()) >= len(exact) - (0 if "real" in name else 1)


def test_strays_of_the_first_alphas_are_kept_apart(generations: Path) -> None:
    repository = read_alpha(generations / "alpha-real-20241013-a1")

    ranks = [
        [table.axes for table in refs.tables]
        for file in repository.manifests.values()
        for refs in file.value.arrays.values()
        if isinstance(refs, RankedRefs)
    ]

    assert [1, 2] in ranks


def test_every_layout_has_a_repository() -> None:
    assert {dialect_of(name) for name in ALPHA_NAMES} == set(LAYOUTS)
