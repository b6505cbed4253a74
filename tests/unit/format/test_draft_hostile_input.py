"""Damaged draft files end in FormatError or in a value."""

import random
from pathlib import Path

import pytest

from frazil.errors import FormatError
from frazil.format import draft
from tests.fuzz.mutations import decode_mutants
from tests.legacy_files import DRAFT_NAMES, files_in

MUTANTS = 1500


@pytest.mark.parametrize("name", DRAFT_NAMES)
def test_damaged_files_raise_format_errors_only(name: str, generations: Path) -> None:
    chance = random.Random(name)
    snapshots = [path.read_bytes() for path in files_in(generations / name, "s")]
    manifests = [path.read_bytes() for path in files_in(generations / name, "m")]

    refused = decode_mutants(draft.decode_snapshot, snapshots, MUTANTS, chance)
    refused += decode_mutants(draft.decode_manifest, manifests, MUTANTS, chance)

    assert refused > MUTANTS


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"chunks":null}',
        b'{"chunks":{"x":{"Inline":[]}}}',
        b'{"chunks":{"[1]":{"Inline":[]}}}',
        b'{"chunks":{"[1,[4294967296]]":{"Inline":[]}}}',
        b'{"chunks":{"[1,[0]]":{"Inline":[256]}}}',
        b'{"chunks":{"[1,[0]]":{"Inline":[true]}}}',
        b'{"chunks":{"[1,[0]]":{"Inline":[],"Ref":{}}}}',
        b'{"chunks":{"[1,[0]]":{"Other":[]}}}',
        b'{"chunks":{"[1,[0]]":{"Ref":{"id":[1],"offset":0,"length":0}}}}',
        b'{"chunks":{"[1,[0]]":{"Virtual":{"location":"\\ud800","offset":0,"length":0}}}}',
        b'{"chunks":{},"other":1e999}',
        b'{"chunks":' + b"[" * 100_000,
        b'{"chunks":{"[1,' + b"[" * 100_000 + b'":{"Inline":[]}}}',
    ],
)
def test_a_bad_manifest_is_named(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^draft manifest: "):
        draft.decode_manifest(data)


@pytest.mark.parametrize("data", [b"", b"{}", b"7", b'{"nodes":{"a":{}}}', b"\xff\xfe"])
def test_a_bad_snapshot_is_named(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^draft snapshot: "):
        draft.decode_snapshot(data)
