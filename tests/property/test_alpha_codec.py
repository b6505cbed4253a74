"""Every value that an alpha dialect can hold survives being written and read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.format import alpha
from frazil.format.alpha import LAYOUTS
from frazil.format.header import Dialect
from tests.strategies import legacy

NAME = "frazil-test"
ORDER = list(LAYOUTS)

dialects = pytest.mark.parametrize("dialect", list(LAYOUTS), ids=lambda dialect: dialect.name)


@dialects
@given(data=st.data())
def test_a_snapshot_survives_being_written_and_read(dialect: Dialect, data: st.DataObject) -> None:
    snapshot = data.draw(legacy.snapshots(dialect))
    encoded = alpha.encode_snapshot(snapshot, dialect, NAME)

    decoded = alpha.decode_snapshot(encoded)

    assert decoded.value == snapshot
    # The oldest dialect that fits: not a newer one, and it writes the same file.
    assert ORDER.index(decoded.dialect) <= ORDER.index(dialect)
    assert alpha.encode_snapshot(snapshot, decoded.dialect, NAME) == encoded


@dialects
@given(data=st.data())
def test_a_manifest_survives_being_written_and_read(dialect: Dialect, data: st.DataObject) -> None:
    manifest = data.draw(legacy.manifests(dialect))

    decoded = alpha.decode_manifest(alpha.encode_manifest(manifest, dialect, NAME))

    assert decoded.value == manifest


@pytest.mark.parametrize("dialect", legacy.LOG_DIALECTS, ids=lambda dialect: dialect.name)
@given(data=st.data())
def test_a_transaction_log_survives_being_written_and_read(
    dialect: Dialect, data: st.DataObject
) -> None:
    log = data.draw(legacy.transaction_logs(dialect))

    encoded = alpha.encode_transaction_log(log, dialect, NAME)

    assert alpha.decode_transaction_log(encoded, log.id).value == log
