"""Which manifests a commit writes, and which it keeps."""

from typing import Any

import numpy as np
import pytest
import zarr

from frazil import Repository, Session
from frazil.config import ManifestSplitCondition, ManifestSplitDimCondition
from frazil.format.snapshot import ArrayData, Dimension
from frazil.repository.zarr_keys import SplitRule, plan_split
from tests.repositories import create, dangling_files, manifest_ids, split_every, values_of

Anything, Axis, Named = (
    ManifestSplitDimCondition.Any,
    ManifestSplitDimCondition.Axis,
    ManifestSplitDimCondition.DimensionName,
)
PathMatches, NameMatches = (
    ManifestSplitCondition.path_matches,
    ManifestSplitCondition.name_matches,
)


def make_array(session: Session, name: str = "a", shape: tuple[int, ...] = (8,)) -> None:
    ones = (1,) * len(shape)
    array = zarr.create_array(
        session.store, name=name, shape=shape, chunks=ones, dtype="i4", fill_value=-1
    )
    array[...] = np.arange(int(np.prod(shape))).reshape(shape)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def repository(request: pytest.FixtureRequest) -> Repository:
    """One with the arrays `a`, of eight chunks in four manifests, and `b`, the same."""
    repository = create(config=split_every(2), spec_version=request.param)
    with repository.transaction("main", message="two arrays") as store:
        make_array(store.session, "a")
        make_array(store.session, "b")
    return repository


def ids_now(repository: Repository, name: str = "a") -> list[str]:
    return manifest_ids(repository.readonly_session("main"), f"/{name}")


def open_array(store: Any, name: str = "a") -> "zarr.Array[Any]":
    return zarr.open_array(store, path=name)


def test_only_the_manifest_of_a_changed_chunk_is_written(repository: Repository) -> None:
    before, beside = ids_now(repository), ids_now(repository, "b")

    with repository.transaction("main", message="one chunk") as store:
        open_array(store)[3] = 30

    after = ids_now(repository)
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True, True]
    assert ids_now(repository, "b") == beside
    assert values_of(repository.readonly_session("main"), "a") == [0, 1, 2, 30, 4, 5, 6, 7]
    assert dangling_files(repository) == set()


def test_new_attributes_keep_all_manifests(repository: Repository) -> None:
    before = ids_now(repository)

    with repository.transaction("main", message="attributes") as store:
        open_array(store).update_attributes({"units": "m"})

    assert ids_now(repository) == before


def test_a_manifest_that_loses_its_last_chunk_is_gone(repository: Repository) -> None:
    before = ids_now(repository)

    with repository.transaction("main", message="two chunks less") as store:
        store.delete_sync("a/c/2")
        store.delete_sync("a/c/3")

    assert ids_now(repository) == [before[0], before[2], before[3]]


def test_an_array_cut_short_keeps_the_manifests_that_fit(repository: Repository) -> None:
    before = ids_now(repository)

    with repository.transaction("main", message="shorter") as store:
        open_array(store).resize((3,))

    after = ids_now(repository)
    assert (len(after), after[0]) == (2, before[0])
    assert after[1] not in before
    assert values_of(repository.readonly_session("main"), "a") == [0, 1, 2]


def test_an_array_without_chunks_has_no_manifest(repository: Repository) -> None:
    with repository.transaction("main", message="nothing left") as store:
        open_array(store).resize((0,))
        zarr.create_array(store, name="empty", shape=(4,), chunks=(1,), dtype="i4")

    assert ids_now(repository) == []
    assert ids_now(repository, "empty") == []


def test_an_array_without_axes_has_one_manifest(repository: Repository) -> None:
    with repository.transaction("main", message="a scalar") as store:
        make_array(store.session, "scalar", ())

    assert len(ids_now(repository, "scalar")) == 1
    assert values_of(repository.readonly_session("main"), "scalar") == 0


def test_another_split_rewrites_only_what_is_touched(repository: Repository) -> None:
    before, beside = ids_now(repository), ids_now(repository, "b")
    other = Repository.open(repository.storage, split_every(3))

    with other.transaction("main", message="one chunk") as store:
        open_array(store)[0] = 10

    after = ids_now(other)
    # Cells are now 0-2, 3-5, 6-7: the first has a change, the second cuts an old manifest in two
    # and holds another whole, the third is an old one.
    assert after[2:] == before[2:]
    assert set(after[:2]).isdisjoint(before)
    assert ids_now(other, "b") == beside
    assert values_of(other.readonly_session("main"), "a") == [10, 1, 2, 3, 4, 5, 6, 7]
    assert values_of(other.readonly_session("main"), "b") == [0, 1, 2, 3, 4, 5, 6, 7]


def test_manifests_of_both_axes_hold_boxes_of_chunks() -> None:
    repository = create(config=split_every(2))
    with repository.transaction("main", message="a square") as store:
        make_array(store.session, "a", (3, 4))

    _, array = repository.readonly_session("main").state.view.get_array("/a")

    assert [ref.extents for ref in array.manifests] == [
        ((0, 2), (0, 2)), ((0, 2), (2, 4)), ((2, 3), (0, 2)), ((2, 3), (2, 4)),
    ]  # fmt: skip


def test_without_rules_an_array_has_one_manifest() -> None:
    repository = create()
    with repository.transaction("main", message="an array") as store:
        make_array(store.session)

    assert len(ids_now(repository)) == 1


AN_ARRAY = ArrayData(tuple(Dimension(10, 10, 1) for _ in range(3)), ("time", None, "lat"))


@pytest.mark.parametrize(
    ("rules", "sizes"),
    [
        ([], (10, 10, 10)),
        ([(PathMatches("^/group/x$"), [(Anything(), 3)])], (3, 3, 3)),
        ([(PathMatches("other"), [(Anything(), 3)])], (10, 10, 10)),
        ([(PathMatches("roup"), [(Anything(), 3)])], (3, 3, 3)),
        ([(NameMatches("roup"), [(Anything(), 3)])], (10, 10, 10)),
        ([(NameMatches("x"), [(Anything(), 3)])], (3, 3, 3)),
        ([(NameMatches("x"), [(Axis(1), 4)])], (10, 4, 10)),
        ([(NameMatches("x"), [(Named("a"), 4)])], (10, 10, 4)),
        ([(NameMatches("x"), [(Axis(0), 2), (Anything(), 5)])], (2, 5, 5)),
        ([(NameMatches("x"), [(Anything(), 5), (Axis(0), 2)])], (5, 5, 5)),
        ([(NameMatches("x"), [(Axis(0), 2)]), (PathMatches(""), [(Anything(), 7)])], (2, 7, 7)),
        ([(NameMatches("("), [(Anything(), 3)])], (10, 10, 10)),
        ([(NameMatches("x"), [(Named("("), 3)])], (10, 10, 10)),
        ([(NameMatches("x"), [(Anything(), 1000)])], (1000, 1000, 1000)),
    ],
)
def test_the_first_rule_that_says_something_about_an_axis_decides(
    rules: list[SplitRule], sizes: tuple[int, ...]
) -> None:
    assert plan_split("/group/x", AN_ARRAY, rules).sizes == sizes
