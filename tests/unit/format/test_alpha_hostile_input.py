"""Damaged alpha files end in FormatError or in a value."""

import random
import tracemalloc
from pathlib import Path

import msgpack
import pytest

from frazil.errors import FormatError
from frazil.format import alpha
from frazil.format.alpha import open_envelope
from frazil.format.header import FileType, Header
from frazil.format.ids import SnapshotId
from tests.fuzz.mutations import decode_mutants
from tests.legacy_files import ALPHA_NAMES, files_in

MUTANTS = 250
ID = SnapshotId(bytes(12))
HEADER = Header("frazil-test", 1, FileType.MANIFEST)


@pytest.mark.parametrize("name", ALPHA_NAMES)
def test_damaged_payloads_raise_format_errors_only(name: str, generations: Path) -> None:
    chance = random.Random(name)

    def payloads(folder: str, file_type: FileType) -> list[bytes]:
        paths = files_in(generations / name, folder)
        return [open_envelope(path.read_bytes(), file_type).payload for path in paths]

    refused = decode_mutants(
        lambda data: alpha.decode_snapshot_payload(data, None),
        payloads("snapshots", FileType.SNAPSHOT), MUTANTS, chance,
    )  # fmt: skip
    refused += decode_mutants(
        lambda data: alpha.decode_manifest_payload(data, chance.choice((None, HEADER))),
        payloads("manifests", FileType.MANIFEST), MUTANTS, chance,
    )  # fmt: skip
    if logs := payloads("transactions", FileType.TRANSACTION_LOG):
        refused += decode_mutants(
            lambda data: alpha.decode_transaction_log_payload(data, None, ID),
            logs, MUTANTS, chance,
        )  # fmt: skip

    assert refused > MUTANTS


@pytest.mark.parametrize("name", ALPHA_NAMES)
def test_damaged_files_raise_format_errors_only(name: str, generations: Path) -> None:
    chance = random.Random(name)
    snapshots = [path.read_bytes() for path in files_in(generations / name, "snapshots")]
    manifests = [path.read_bytes() for path in files_in(generations / name, "manifests")]

    refused = decode_mutants(alpha.decode_snapshot, snapshots, MUTANTS, chance)
    refused += decode_mutants(alpha.decode_manifest, manifests, MUTANTS, chance)

    assert refused > MUTANTS


BAD_PAYLOADS = {
    "nothing": b"",
    "a number": b"\x07",
    "an empty struct": b"\x90",
    "bytes behind the end": b"\x90\x00",
    "an extension": b"\xd4\x05\x00",
    "a time": b"\xd6\xff\x00\x00\x00\x00",
    "a map as a key": b"\x81\x80\x00",
    "deep nesting": b"\x91" * 5000 + b"\x00",
    "text that is not UTF-8": b"\x92\xa1\xff\xa1\xff",
    "a claim beyond the end": b"\xdd\xff\xff\xff\xff",
    "a struct of twelve": b"\x9c" + b"\x00" * 12,
    "nils": b"\x98" + b"\xc0" * 8,
    "zeros": b"\x9b" + b"\x00" * 11,
    "maps": b"\x93\x80\x80\x81\x80\x80",
}

payloads = pytest.mark.parametrize(
    "payload", BAD_PAYLOADS.values(), ids=[name.replace(" ", "-") for name in BAD_PAYLOADS]
)


@payloads
def test_a_bad_snapshot_is_named(payload: bytes) -> None:
    with pytest.raises(FormatError, match=r"^alpha snapshot: "):
        alpha.decode_snapshot(payload)


@payloads
def test_a_bad_manifest_is_named(payload: bytes) -> None:
    with pytest.raises(FormatError, match=r"^alpha manifest: "):
        alpha.decode_manifest(payload)


@payloads
def test_a_bad_transaction_log_is_named(payload: bytes) -> None:
    with pytest.raises(FormatError, match=r"^alpha transaction log: "):
        alpha.decode_transaction_log(payload, ID)


def test_a_damaged_envelope_is_named() -> None:
    with pytest.raises(FormatError, match=r"^alpha manifest: .*zstd"):
        alpha.decode_manifest(b"\x28\xb5\x2f\xfd\x00")
    with pytest.raises(FormatError, match=r"^alpha snapshot: .*the header says"):
        alpha.decode_snapshot(HEADER.encode())


def test_nested_claims_ask_for_no_memory() -> None:
    # Each of 900 arrays claims a million items; built as claimed they would take 7 GB.
    payload = b"\xdd\x00\x0f\x42\x40" * 900 + bytes(1_000_000)

    tracemalloc.start()
    with pytest.raises(FormatError, match="shorter than it claims"):
        alpha.decode_snapshot(payload)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 20 * 2**20


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ([1, "/a", None, "Tree"], "node_data"),
        ([1, "/b", None, "Group"], "it calls itself '/b'"),
        ([2**32, "/a", None, "Group"], "node id"),
        (["00", "/a", None, "Group"], "8 are needed"),
        (["U" * 13, "/a", None, "Group"], "not a digit"),
        ([True, "/a", None, "Group"], "node id"),
        ([1, "/a", {"Ref": ["0" * 20, 0]}, "Group"], "only Inline can"),
        ([1, "/a", {"Inline": {"x": b""}}, "Group"], "no JSON value"),
        ([1, "/a", {"Inline": {"x": float("nan")}}, "Group"], "no JSON value"),
        ([1, "/a", {"Inline": {1: 1}}, "Group"], "is no text"),
        ([1, "/a", None, {"Array": []}], "2 are needed"),
        ([1, "/a", None, {"Array": [[], []]}], "8 are needed"),
    ],
)
def test_a_bad_node_is_named(node: list[object], reason: str) -> None:
    id = "0" * 20
    own = [id, "2024-01-01T00:00:00Z", "m"]
    tree = [0, {}, [], [], 0, 0, [], own, "2024-01-01T00:00:00Z", {}, {"/a": node}]

    with pytest.raises(FormatError, match=f"alpha snapshot: node '/a': .*{reason}"):
        alpha.decode_snapshot(msgpack.packb(tree))


def test_a_bad_path_is_named() -> None:
    own = ["0" * 20, "2024-01-01T00:00:00Z", "m"]
    tree = [0, {}, [], [], 0, 0, [], own, "2024-01-01T00:00:00Z", {}, {"a//b": None}]

    with pytest.raises(FormatError, match="'a//b' is no node path"):
        alpha.decode_snapshot(msgpack.packb(tree))
