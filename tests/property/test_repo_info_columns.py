"""A repo info that is read and written in columns is the one that is read and written row by row."""

import pickle
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import FormatError, InvalidInputError
from frazil.format.ids import SnapshotId
from frazil.format.metadata import NO_METADATA
from frazil.format.repo_info import RepoInfo, SnapshotInfo, UpdateType
from frazil.format.v2.flatbuffers_reader import Buffer
from frazil.format.v2.repo_info_codec import (
    EncodedUpdates,
    decode_repo_info_payload,
    encode_repo_info_payload,
    record_repo_info_payload,
)
from frazil.format.v2.schema import RepoSlot, SnapshotInfoSlot
from frazil.format.v2.snapshot_info_codec import EncodedSnapshots
from frazil.protocols.v2_protocol import record_update
from tests.fuzz.mutations import mutate
from tests.strategies import v2
from tests.strategies.values import snapshot_ids, texts

few_examples = settings(max_examples=settings().max_examples // 4)

ALL_AT_ONCE, ONE_BY_ONE = 10**9, -1


@contextmanager
def decoding(few: int) -> Iterator[None]:
    """Histories and logs longer than this are read row by row when somebody asks."""
    with (
        patch("frazil.format.v2.snapshot_info_codec._FEW_SNAPSHOTS", few),
        patch("frazil.format.v2.repo_info_codec._FEW_UPDATES", few),
    ):
        yield


def encode(info: RepoInfo) -> bytes:
    return b"".join(map(bytes, encode_repo_info_payload(info)))


def decode(payload: bytes, few: int) -> RepoInfo:
    with decoding(few):
        return decode_repo_info_payload(payload)


def in_columns(info: RepoInfo) -> RepoInfo:
    return decode(encode(info), ONE_BY_ONE)


@st.composite
def changes(draw: st.DrawFn, info: RepoInfo) -> tuple[Sequence[SnapshotInfo], set[SnapshotId]]:
    """Snapshots to put in, new ones and others' heirs, and some to remove that nobody needs."""
    known = sorted(info.snapshots)
    heirs = draw(st.sets(st.sampled_from(known)))
    new = draw(st.sets(snapshot_ids, max_size=3)) - set(known)
    added = [
        replace(
            draw(st.sampled_from(list(draw(v2.snapshot_infos()).values()))), id=id_, parent_id=None
        )
        for id_ in sorted(heirs | new)
    ]
    left = {**info.snapshots, **{snapshot.id: snapshot for snapshot in added}}
    needed = {snapshot.parent_id for snapshot in left.values()}
    needed |= {*info.branches.values(), *info.tags.values()}
    return added, draw(st.sets(st.sampled_from([*known, *new]))) - needed


def draw_refs_and_state(data: st.DataObject, info: RepoInfo) -> dict[str, Any]:
    """Draw other refs, of which some stay, some move and some are gone, and maybe another state."""
    known = st.sampled_from(sorted(info.snapshots)) if info.snapshots else st.nothing()
    changed: dict[str, Any] = {}
    for kind, refs in (("branches", info.branches), ("tags", info.tags)):
        if data.draw(st.booleans()):
            kept = {name: id_ for name, id_ in refs.items() if data.draw(st.booleans())}
            names = st.sampled_from(sorted(refs)) | texts if refs else texts
            new = st.dictionaries(names, known, max_size=3 if info.snapshots else 0)
            changed[kind] = kept | data.draw(new)
    if data.draw(st.booleans()):
        other = data.draw(v2.repo_infos())
        for name in ("deleted_tags", "status", "metadata", "config", "extra"):
            if data.draw(st.booleans()):
                changed[name] = getattr(other, name)
    return changed


# Reading


@given(v2.repo_infos())
def test_rows_read_one_by_one_are_those_read_at_once(info: RepoInfo) -> None:
    payload = encode(info)

    one_by_one, at_once = decode(payload, ONE_BY_ONE), decode(payload, ALL_AT_ONCE)

    assert isinstance(one_by_one.snapshots, EncodedSnapshots)
    assert isinstance(one_by_one.latest_updates, EncodedUpdates)
    assert one_by_one == at_once == info
    assert list(one_by_one.snapshots) == list(at_once.snapshots)


@few_examples
@given(v2.repo_infos(), snapshot_ids)
def test_a_snapshot_is_found_by_its_id_alone(info: RepoInfo, other: SnapshotId) -> None:
    snapshots = in_columns(info).snapshots

    assert all(snapshots[id_] == info.snapshots[id_] for id_ in info.snapshots)
    assert (other in snapshots) is (other in info.snapshots)
    assert snapshots.get(SnapshotId(bytes(16))) is None
    assert snapshots.keys().isdisjoint(["text"])


@few_examples
@given(v2.repo_infos())
def test_what_is_read_in_columns_survives_pickling(info: RepoInfo) -> None:
    assert pickle.loads(pickle.dumps(in_columns(info))) == info


# Writing


@given(st.data())
def test_columns_are_written_as_rows_are(data: st.DataObject) -> None:
    info = data.draw(v2.repo_infos())
    added, removed = data.draw(changes(info))
    shared = in_columns(info)

    by_row = encode(info.with_snapshots(*added).without_snapshots(removed))
    by_column = encode(shared.with_snapshots(*added).without_snapshots(removed))

    expected = decode(by_row, ALL_AT_ONCE)
    assert decode(by_column, ALL_AT_ONCE) == expected
    assert list(decode(by_column, ONE_BY_ONE).snapshots) == sorted(expected.snapshots)
    assert shared == info


@given(st.data(), st.lists(st.tuples(v2.update_types, texts), max_size=4), st.integers(1, 8))
def test_a_log_grows_in_columns_as_it_does_in_rows(
    data: st.DataObject, updates: list[tuple[UpdateType, str]], page: int
) -> None:
    info = data.draw(v2.repo_infos())
    shared = in_columns(info)

    for kind, backup in updates:
        info, shared = (
            record_update(each, kind, 10**18, backup=backup, num_updates_per_file=page)
            for each in (info, shared)
        )

    written = decode(encode(shared), ALL_AT_ONCE)
    assert written.latest_updates == info.latest_updates
    assert written.repo_before_updates == info.repo_before_updates


@few_examples
@given(st.data(), st.integers(1, 8))
def test_a_history_that_grows_by_what_is_new_is_the_one_written_at_once(
    data: st.DataObject, page: int
) -> None:
    info = data.draw(v2.repo_infos())
    grown = info if data.draw(st.booleans()) else in_columns(info)

    for _ in range(data.draw(st.integers(1, 4))):
        payload, grown = record_repo_info_payload(grown)
        assert decode(b"".join(map(bytes, payload)), ALL_AT_ONCE) == info == grown
        added, removed = data.draw(changes(info))
        if data.draw(st.booleans()) or removed.issuperset(info.snapshots):  # as a commit is
            known = sorted(info.snapshots)
            parent_id = data.draw(st.sampled_from(known))
            added = [replace(each, parent_id=parent_id) for each in added if each.id not in known]
            removed = set()
        kind, backup = data.draw(st.tuples(v2.update_types, texts))
        if added or removed:
            info, grown = (
                each.with_snapshots(*added).without_snapshots(removed) for each in (info, grown)
            )
        moved = draw_refs_and_state(data, info)
        info, grown = (
            record_update(
                replace(each, **moved), kind, 10**18, backup=backup, num_updates_per_file=page
            )
            for each in (info, grown)
        )

    assert decode(encode(grown), ALL_AT_ONCE) == info
    assert pickle.loads(pickle.dumps(grown)) == info


@few_examples
@given(st.data())
def test_removing_a_parent_names_its_children(data: st.DataObject) -> None:
    infos = data.draw(v2.repo_infos())
    children = [child for child in infos.snapshots.values() if child.parent_id is not None]
    orphan = data.draw(st.sampled_from(children) if children else st.none())
    if orphan is None or orphan.parent_id is None:
        return
    alone = replace(infos, branches={}, tags={})

    for info in (alone, in_columns(alone)):
        with pytest.raises(InvalidInputError, match=f"points to snapshot {orphan.parent_id}"):
            encode(info.without_snapshots([orphan.parent_id]))


# Damage


@given(v2.repo_infos(), st.integers(0, 2**32))
def test_damage_is_found_at_the_latest_when_it_is_touched(info: RepoInfo, seed: int) -> None:
    whole = encode(info)
    payload = mutate(whole, whole, random.Random(seed))

    try:
        touched = look_at_all(decode(payload, ONE_BY_ONE))
    except FormatError:
        return

    assert touched == look_at_all(decode(payload, ALL_AT_ONCE))


@given(v2.repo_infos(), st.integers(0, 2**32))
def test_damage_is_not_copied(info: RepoInfo, seed: int) -> None:
    whole = encode(info)
    payload = mutate(whole, whole, random.Random(seed))

    try:
        copy = encode(decode(payload, ONE_BY_ONE))
        touched = look_at_all(decode(payload, ALL_AT_ONCE))
    except FormatError:
        return

    assert look_at_all(decode(copy, ALL_AT_ONCE)) == touched


def look_at_all(info: RepoInfo) -> tuple[object, ...]:
    """All that can be damaged, as text: after damage a number may be none, equal to nothing."""
    snapshots = [
        repr((replace(s, metadata=NO_METADATA), sorted(map(repr, s.metadata.items()))))
        for _, s in sorted(info.snapshots.items())
    ]
    return snapshots, repr(tuple(info.latest_updates)), info.branches, info.tags


# Other writers' files


@few_examples
@given(v2.repo_infos(), st.randoms(use_true_random=False))
def test_snapshots_in_any_order_are_read_and_put_in_order(
    info: RepoInfo, chance: random.Random
) -> None:
    payload = bytearray(encode(replace(info, branches={}, tags={})))
    root = Buffer(bytes(payload), "file").root()
    start, count = root.buffer.vector(root.buffer.follow(root.field(RepoSlot.SNAPSHOTS, "")), 4)
    order = list(range(count))
    chance.shuffle(order)
    targets = [root.buffer.follow(start + 4 * row) for row in range(count)]
    for at, row in enumerate(order):
        word = start + 4 * at
        payload[word : word + 4] = (targets[row] - word).to_bytes(4, "little")
    for table in root.tables(RepoSlot.SNAPSHOTS):
        parent = table.number(SnapshotInfoSlot.PARENT_OFFSET, "i")
        word = table.field(SnapshotInfoSlot.PARENT_OFFSET, "")
        moved = order.index(parent) if parent >= 0 else parent
        payload[word : word + 4] = moved.to_bytes(4, "little", signed=True)

    shuffled = decode(bytes(payload), ONE_BY_ONE)

    assert shuffled.snapshots == info.snapshots
    assert list(decode(encode(shuffled), ONE_BY_ONE).snapshots) == sorted(info.snapshots)
    assert decode(encode(shuffled), ALL_AT_ONCE).snapshots == info.snapshots
