"""What a new snapshot says about those before it."""

import pytest

from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.snapshot import History, HistoryEntry, Snapshot
from frazil.protocols.v1_protocol import first_history, next_history, snapshot_parent_id

FIRST = SnapshotId(b"first first!")
SECOND = SnapshotId(b"second one!!")
WITH_TEXT = [dialect for dialect in Dialect if dialect.records_history]
WITHOUT_TEXT = [dialect for dialect in Dialect if not dialect.records_history]


def test_the_draft_and_the_alphas_before_0_1_0_have_a_text() -> None:
    assert WITHOUT_TEXT == [Dialect.ALPHA_H, Dialect.V1, Dialect.V2]


@pytest.mark.parametrize("dialect", WITH_TEXT)
def test_a_history_grows_at_its_front(dialect: Dialect) -> None:
    first = Snapshot(FIRST, None, 10, "first", history=first_history(dialect, 9))
    history = next_history(first, dialect, 19)
    second = Snapshot(SECOND, FIRST, 20, "second", history=history)

    assert history == History(1, 1, (HistoryEntry(FIRST, 10, "first"),), 19)
    assert next_history(second, dialect, 29) == History(
        2, 2, (HistoryEntry(SECOND, 20, "second"), HistoryEntry(FIRST, 10, "first")), 29
    )


@pytest.mark.parametrize("dialect", WITH_TEXT)
def test_a_history_too_long_to_count_loses_its_oldest_entries(dialect: Dialect) -> None:
    longest = tuple(HistoryEntry(FIRST, time, "old") for time in range(2**16 - 1))
    parent = Snapshot(SECOND, FIRST, 20, "", history=History(10**6, 2**16 - 1, longest, 19))

    history = next_history(parent, dialect, 29)

    assert history is not None
    assert history.total_parents == 10**6 + 1
    assert history.short_term_parents == len(history.short_term_history) == 2**16 - 1
    assert history.short_term_history[0].id == SECOND
    assert history.short_term_history[1:] == longest[:-1]


@pytest.mark.parametrize("dialect", WITHOUT_TEXT)
def test_the_others_have_a_parent_and_no_text(dialect: Dialect) -> None:
    first = Snapshot(FIRST, None, 10, "first")

    assert first_history(dialect, 9) is None
    assert next_history(first, dialect, 19) is None


@pytest.mark.parametrize("dialect", Dialect)
def test_a_file_names_the_parent_except_in_v2(dialect: Dialect) -> None:
    first = Snapshot(FIRST, None, 10, "first")

    assert snapshot_parent_id(first, dialect) == (None if dialect is Dialect.V2 else FIRST)


@pytest.mark.parametrize("dialect", WITH_TEXT)
def test_a_parent_without_text_begins_one(dialect: Dialect) -> None:
    parent = Snapshot(FIRST, None, 10, "first")

    assert next_history(parent, dialect, 19) == History(
        1, 1, (HistoryEntry(FIRST, 10, "first"),), 19
    )
