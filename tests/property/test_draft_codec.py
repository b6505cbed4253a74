"""Every value that the draft can hold survives being written and read."""

from hypothesis import given

from frazil.format import draft
from frazil.format.header import Dialect
from frazil.format.manifest import Manifest
from frazil.format.snapshot import Snapshot
from tests.strategies import legacy


@given(legacy.snapshots(Dialect.DRAFT))
def test_a_snapshot_survives_being_written_and_read(snapshot: Snapshot) -> None:
    assert draft.decode_snapshot(draft.encode_snapshot(snapshot)).value == snapshot


@given(legacy.manifests(Dialect.DRAFT))
def test_a_manifest_survives_being_written_and_read(manifest: Manifest) -> None:
    assert draft.decode_manifest(draft.encode_manifest(manifest)).value == manifest
