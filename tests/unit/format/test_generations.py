"""Every repository of every generation decodes, file by file, to what is known about it."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from frazil.format.files import (
    decode_manifest,
    decode_repo_info,
    decode_snapshot,
    decode_transaction_log,
)
from frazil.format.header import Decoded, Dialect
from frazil.format.ids import NodeId, ObjectId, SnapshotId, decode_sequence
from frazil.format.manifest import (
    ChunkRef,
    ETag,
    InlineRef,
    LastModified,
    Manifest,
    NativeRef,
    VirtualRef,
)
from frazil.format.metadata import decode_rfc3339, to_microseconds
from frazil.format.repo_info import RepoInfo, RepoStatus, Update
from frazil.format.snapshot import ArrayData, Node, Snapshot, TransactionLog
from frazil.format.text_files import decode_ref
from tests.generations import REPOSITORY_NAMES


@dataclass(frozen=True)
class FileReader:
    """The files of one repository in a folder."""

    root: Path

    @property
    def is_draft(self) -> bool:
        return (self.root / "r").is_dir()

    @cached_property
    def repo_info(self) -> RepoInfo | None:
        path = self.root / "repo"
        return decode_repo_info(path.read_bytes()).value if path.exists() else None

    # Refs

    def branches(self) -> dict[str, SnapshotId]:
        if self.repo_info:
            return dict(self.repo_info.branches)
        if self.is_draft:
            folders = [path for path in (self.root / "r").iterdir() if path.is_dir()]
            return {folder.name: _newest(folder) for folder in folders}
        folders = list((self.root / "refs").glob("branch[.:]*"))
        return {folder.name[7:]: _newest(folder) for folder in folders if any(folder.iterdir())}

    def tags(self) -> dict[str, SnapshotId]:
        if self.repo_info:
            return dict(self.repo_info.tags)
        if self.is_draft:
            files = (self.root / "r").glob("*.json")
            return {file.stem: decode_ref(file.read_bytes()).snapshot_id for file in files}
        return {
            folder.name[4:]: _newest(folder)
            for folder in (self.root / "refs").glob("tag[.:]*")
            if not (folder / "ref.json.deleted").exists()
        }

    # Files

    def snapshot_ids(self) -> set[str]:
        folder = "s" if self.is_draft else "snapshots"
        return {path.name.removesuffix(".json") for path in (self.root / folder).iterdir()}

    def snapshot(self, snapshot_id: str) -> Decoded[Snapshot]:
        path = f"s/{snapshot_id}.json" if self.is_draft else f"snapshots/{snapshot_id}"
        return decode_snapshot((self.root / path).read_bytes())

    def manifest(self, manifest_id: str) -> Decoded[Manifest]:
        path = f"m/{manifest_id}.json" if self.is_draft else f"manifests/{manifest_id}"
        return decode_manifest((self.root / path).read_bytes())

    def find_transaction_log(self, snapshot_id: str) -> Decoded[TransactionLog] | None:
        path = self.root / "transactions" / snapshot_id
        if not path.exists():
            return None
        return decode_transaction_log(path.read_bytes(), SnapshotId.parse(snapshot_id))

    def ops_log(self) -> Iterator[Update]:
        """Newest first, through all pages; a page's newest entry is backed up by the page itself."""
        info, name = self.repo_info, None
        while info is not None:
            for update in info.latest_updates:
                yield update if update.backup_path else Update(update.kind, update.updated_at, name)
            name = info.repo_before_updates
            path = self.root / "overwritten" / (name or "none")
            info = decode_repo_info(path.read_bytes()).value if path.exists() else None

    # Derived

    def parent_of(self, snapshot_id: str) -> str | None:
        if self.repo_info:
            info = self.repo_info.snapshots.get(SnapshotId.parse(snapshot_id))
            parent = info.parent_id if info else None
        else:
            parent = self.snapshot(snapshot_id).value.parent_id
        return None if parent is None else str(parent)

    def references(self, node: Node) -> dict[tuple[int, ...], ChunkRef]:
        """All chunk references of an array inside its grid."""
        assert node.array is not None
        found: dict[tuple[int, ...], ChunkRef] = {}
        for ref in node.array.manifests:
            manifest = self.manifest(str(ref.id)).value
            rows = manifest.table(node.id, len(node.array.shape)).refs()
            found |= {key: row for key, row in rows.items() if _is_inside(key, node.array)}
        return found

    def chunk_bytes(self, ref: ChunkRef, virtual: Path, virtual_url_prefix: str) -> bytes:
        """The bytes that a reference stands for."""
        match ref:
            case InlineRef():
                return ref.data
            case NativeRef():
                data = (
                    self.root / ("c" if self.is_draft else "chunks") / str(ref.chunk_id)
                ).read_bytes()
            case VirtualRef():
                location = ref.location.replace("vcc://local/", virtual_url_prefix)
                assert location.startswith(virtual_url_prefix), ref.location
                data = (virtual / location.removeprefix(virtual_url_prefix)).read_bytes()
        return data[ref.offset : ref.offset + ref.length]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _newest(folder: Path) -> SnapshotId:
    files = [file for file in folder.iterdir() if file.suffix == ".json"]
    if len(files) > 1:
        files.sort(key=lambda file: decode_sequence(file.stem), reverse=True)
    return decode_ref(files[0].read_bytes()).snapshot_id


def _is_inside(key: tuple[int, ...], array: ArrayData) -> bool:
    return all(
        index < max(dimension.num_chunks, 1)
        for index, dimension in zip(key, array.shape, strict=True)
    )


ODD_NAMES = [name for name in REPOSITORY_NAMES if name.endswith("pathsort")]
FULLY_KNOWN = [name for name in REPOSITORY_NAMES if name not in ODD_NAMES]

every_repository = pytest.mark.parametrize("name", FULLY_KNOWN)
every_flatbuffers_repository = pytest.mark.parametrize(
    "name", [name for name in FULLY_KNOWN if name.startswith("v")]
)
every_v2_repository = pytest.mark.parametrize(
    "name", [name for name in FULLY_KNOWN if name.startswith("v2")]
)

DIALECTS = {
    "draft-json": Dialect.DRAFT,
    "0.1.0a1-a4": Dialect.ALPHA_A,
    "0.1.0a10": Dialect.ALPHA_E,
    "0.1.0a11-a12": Dialect.ALPHA_F,
    "0.1.0a13-a15": Dialect.ALPHA_G,
    "0.1.0-0.1.3": Dialect.ALPHA_H,
    "real-20241013-a1": Dialect.ALPHA_A,
    "real-20250108-a10": Dialect.ALPHA_E,
    "real-20250113-a11": Dialect.ALPHA_F,
    "real-20250123-a13": Dialect.ALPHA_G,
    "real-20250130-0.1.0": Dialect.ALPHA_H,
}
"""Repositories whose snapshots tell their dialect; those of 0.1.0a5 to a9 look alike in places."""


class Known:
    """A repository's files beside what is known about them."""

    def __init__(self, generations: Path, name: str) -> None:
        folder = generations / name
        self.files = FileReader(folder / "repo")
        self.expected: dict[str, Any] = json.loads((folder / "expected.json").read_text())

    @property
    def snapshots(self) -> dict[str, Any]:
        snapshots: dict[str, Any] = self.expected["snapshots"]
        return snapshots

    @property
    def virtual_url_prefix(self) -> str:
        return str(self.expected.get("virtual_url_prefix"))

    def virtual_folder(self) -> Path:
        """The files that references point into: of a migrated repository, those of its source."""
        source = self.virtual_url_prefix.rstrip("/").split("/")[-2]
        return self.files.root.parent.parent / source / "virtual"


@pytest.fixture
def known(generations: Path, name: str) -> Known:
    return Known(generations, name)


@every_repository
def test_refs_point_to_the_known_snapshots(known: Known) -> None:
    branches = {branch: str(id) for branch, id in known.files.branches().items()}
    tags = {tag: str(id) for tag, id in known.files.tags().items()}

    assert branches == known.expected["branches"]
    assert tags == known.expected["tags"]


@every_repository
def test_history_follows_the_parents(known: Known) -> None:
    for ref, history in known.expected["history"].items():
        if known.expected.get("initial_snapshot_metadata_id"):
            # The first alphas stored their first snapshot under another name than its own.
            history = [*history[:-1], known.expected["initial_snapshot_metadata_id"]]
        for child, parent in zip(history, [*history[1:], None], strict=True):
            if child in known.files.snapshot_ids():
                assert known.files.parent_of(child) == parent, ref


@every_repository
def test_snapshots_say_who_when_and_why(known: Known) -> None:
    for id, expected in known.snapshots.items():
        snapshot = known.files.snapshot(id).value

        assert snapshot.message == expected["message"]
        # What is known was asked of libraries that tell no more than microseconds.
        assert to_microseconds(snapshot.flushed_at) == to_microseconds(
            decode_rfc3339(expected["written_at"])
        )
        assert dict(snapshot.metadata) == expected["metadata"]
        if snapshot.parent_id is not None or "initial_snapshot_metadata_id" not in known.expected:
            assert str(snapshot.id) == id


@every_repository
def test_snapshots_list_the_known_nodes_with_their_zarr_metadata(known: Known) -> None:
    for id, expected in known.snapshots.items():
        snapshot = known.files.snapshot(id).value

        assert snapshot.nodes.keys() == expected["nodes"].keys()
        for path, state_key in expected["nodes"].items():
            state = known.expected["node_states"][state_key]
            node = snapshot.nodes[path]
            assert (node.array is not None) == (state["type"] == "array")
            assert _normalised(json.loads(node.user_data)) == _normalised(state["zarr_json"])
            if "zarr_json_sha256" in state:
                assert sha256(node.user_data) == state["zarr_json_sha256"]


@every_repository
def test_shapes_agree_with_the_zarr_metadata(known: Known) -> None:
    for id in known.snapshots:
        for node in known.files.snapshot(id).value.nodes.values():
            if node.array is None:
                continue
            zarr_json = json.loads(node.user_data)
            lengths = [dimension.array_length for dimension in node.array.shape]
            assert lengths == zarr_json["shape"]
            assert (
                list(node.array.dimension_names or []) == (zarr_json.get("dimension_names") or [])
                or not node.array.dimension_names
            )
            grid = zarr_json["chunk_grid"]
            if grid["name"] == "regular":
                chunks = zip(lengths, grid["configuration"]["chunk_shape"], strict=True)
                counts = [-(-length // chunk) if chunk else 0 for length, chunk in chunks]
                assert [dimension.num_chunks for dimension in node.array.shape] == counts


@every_repository
def test_references_lead_to_the_known_chunks(known: Known) -> None:
    for id, expected in known.snapshots.items():
        snapshot = known.files.snapshot(id).value
        for path, state_key in expected["nodes"].items():
            state = known.expected["node_states"][state_key]
            if state["type"] != "array":
                continue
            references = known.files.references(snapshot.nodes[path])
            by_key = {"/".join(map(str, key)): ref for key, ref in references.items()}
            assert by_key.keys() == state["chunks"].keys(), path
            for key, ref in by_key.items():
                _compare_chunk(known, ref, state["chunks"][key] or {})


def _compare_chunk(known: Known, ref: ChunkRef, expected: dict[str, Any]) -> None:
    """Libraries of the day did not tell the kind, nor the bytes of what they could not reach."""
    if "kind" in expected:
        assert type(ref).__name__.removesuffix("Ref").lower() == expected["kind"]
    if "sha256" in expected:
        folder = known.virtual_folder() if isinstance(ref, VirtualRef) else Path()
        data = known.files.chunk_bytes(ref, folder, known.virtual_url_prefix)
        assert (len(data), sha256(data)) == (expected["length"], expected["sha256"])


@every_repository
def test_virtual_references_are_known_to_the_last_field(known: Known) -> None:
    if "virtual_refs" not in known.expected:
        assert known.files.root.parent.name.endswith(("split", "expired"))
        return
    tip = known.expected.get("virtual_refs_in", known.expected["branches"]["main"])
    snapshot = known.files.snapshot(tip).value
    for path, expected in known.expected["virtual_refs"].items():
        references = known.files.references(snapshot.nodes[path])
        found = {
            "/".join(map(str, key)): _virtual_fields(ref)
            for key, ref in references.items()
            if isinstance(ref, VirtualRef)
        }
        for key, fields_ in expected.items():
            wanted = {k: v for k, v in fields_.items() if k in _virtual_names(known)}
            assert {k: found[key][k] for k in wanted} == wanted


def _virtual_names(known: Known) -> set[str]:
    names = {"location", "offset", "length"}
    # The draft and the first alphas have no place for checksums.
    has_checksums = known.files.snapshot(known.expected["branches"]["main"]).dialect not in (
        Dialect.DRAFT,
        Dialect.ALPHA_A,
        Dialect.ALPHA_B,
    )
    return names | {"etag", "last_modified"} if has_checksums else names


def _virtual_fields(ref: VirtualRef) -> dict[str, Any]:
    checksum = ref.checksum
    return {
        "location": ref.location,
        "offset": ref.offset,
        "length": ref.length,
        "etag": checksum.value if isinstance(checksum, ETag) else None,
        "last_modified": checksum.seconds if isinstance(checksum, LastModified) else None,
    }


@every_flatbuffers_repository
def test_manifest_files_are_listed_with_their_sizes_and_counts(known: Known) -> None:
    for id in known.snapshots:
        snapshot = known.files.snapshot(id).value
        for info in snapshot.manifest_files:
            path = known.files.root / "manifests" / str(info.id)
            assert info.size_bytes == path.stat().st_size
            assert info.num_chunk_refs == len(known.files.manifest(str(info.id)).value)


@every_flatbuffers_repository
def test_transaction_logs_say_what_the_diff_says(known: Known, name: str) -> None:
    for id, expected in known.snapshots.items():
        diff = expected.get("diff_from_parent")
        log = known.files.find_transaction_log(id)
        # Expiry merges the logs of ancestors into a diff, and an amended commit's log is a union.
        if diff is None or log is None or "expired" in name or "rich" in name:
            continue
        paths = _paths_by_id(known, id)
        for field in ("new_groups", "new_arrays", "updated_groups", "updated_arrays"):
            found = {paths[node] for node in getattr(log.value, field) if node in paths}
            assert found == set(diff[field]), (id, field)
        for field in ("deleted_groups", "deleted_arrays"):
            found = {paths[node] for node in getattr(log.value, field)}
            assert found == set(diff[field]), (id, field)
        chunks = {paths[n]: c.tolist() for n, c in log.value.updated_chunks.items() if n in paths}
        assert chunks == {path: sorted(found) for path, found in diff["updated_chunks"].items()}
        moves = {(move.from_path, move.to_path) for move in log.value.moves}
        assert moves == set(map(tuple, diff.get("moved_nodes", [])))


def _paths_by_id(known: Known, id: str) -> dict[NodeId, str]:
    snapshots = [id, known.files.parent_of(id)]
    return {
        node.id: node.path
        for snapshot in reversed(snapshots)
        if snapshot is not None
        for node in known.files.snapshot(snapshot).value.nodes.values()
    }


@every_v2_repository
def test_the_ops_log_is_known_through_all_its_pages(known: Known) -> None:
    expected = known.expected["v2"]["ops_log"]

    updates = [_describe(update) for update in known.files.ops_log()]

    assert updates == [_readable(entry) for entry in expected]


@every_v2_repository
def test_the_state_of_the_repository_is_known(known: Known) -> None:
    info = known.files.repo_info
    expected = known.expected["v2"]
    assert info is not None

    assert dict(info.metadata) == expected["repo_metadata"]
    assert info.deleted_tags == set(known.expected.get("deleted_tags", []))
    if "status" in expected:  # the first pre-release had no such question
        status = expected["status"]
        assert info.status.availability.name.lower() == status["availability"]
        assert info.status.limited_availability_reason == status["reason"]
        assert info.status.set_at == decode_rfc3339(status["set_at"])
    settings = {flag["id"]: flag["setting"] for flag in expected["feature_flags"]}
    assert set(info.enabled_feature_flags or ()) == {i for i, on in settings.items() if on}
    assert set(info.disabled_feature_flags or ()) == {
        i for i, on in settings.items() if on is False
    }


@pytest.mark.parametrize(("ending", "dialect"), DIALECTS.items())
def test_files_report_their_dialect(generations: Path, ending: str, dialect: Dialect) -> None:
    (name,) = (name for name in REPOSITORY_NAMES if name.endswith(ending))
    known = Known(generations, name)

    dialects = [known.files.snapshot(id).dialect for id in known.snapshots]

    # A small file may look older than it is; the newest look is the repository's.
    order = list(Dialect)
    assert max(dialects, key=order.index) is dialect


@pytest.mark.parametrize("name", ODD_NAMES)
def test_nodes_are_found_whatever_the_order_of_odd_names(known: Known) -> None:
    snapshot = known.files.snapshot(known.expected["branches"]["main"]).value

    groups = {path for path, node in snapshot.nodes.items() if node.array is None}
    assert groups == set(known.expected["groups"])
    assert snapshot.nodes.keys() - groups == known.expected["arrays"].keys()
    assert snapshot.message == known.expected["message"]


def _describe(update: Update) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "kind": type(update.kind).__name__,
        "updated_at": update.updated_at,
        "backup_path": update.backup_path,
    }
    for field in fields(update.kind):
        value = getattr(update.kind, field.name)
        if not isinstance(value, RepoStatus):  # the official library does not tell it
            entry[field.name] = str(value) if isinstance(value, ObjectId) else value
    return entry


def _readable(entry: dict[str, Any]) -> dict[str, Any]:
    kind = entry["kind"].removeprefix("Py")  # as older libraries called their classes
    return {**entry, "kind": kind, "updated_at": decode_rfc3339(entry["updated_at"])}


def _normalised(zarr_json: dict[str, Any]) -> dict[str, Any]:
    """Older generations store the parts of a zarr.json, and absent parts are written in many ways."""
    kept = dict(zarr_json)
    for name in ("attributes", "dimension_names", "storage_transformers"):
        if not kept.get(name):
            kept.pop(name, None)
    for codec in kept.get("codecs", []):
        if codec.get("configuration") is None:
            codec.pop("configuration", None)
    return kept
