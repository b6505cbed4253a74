"""Whatever is done to a repository through Frazil, a check finds nothing wrong with it."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import zarr
from hypothesis import given
from hypothesis import strategies as st

from frazil import Repository
from frazil.errors import IcechunkError
from frazil.format.header import Dialect
from frazil.maintenance.check import CheckOptions, check_storage
from frazil.maintenance.findings import Severity
from frazil.storage.memory import MemoryStorage
from tests.damages import ALL_DIALECTS, create, reopen
from tests.repositories import split_every
from tests.strategies.damaged import damaged_repositories

Step = Callable[[Repository, int], object]


def _edit(repository: Repository, change: Callable[[zarr.Group], object], how: str) -> None:
    session = repository.writable_session("main")
    change(zarr.open_group(session.store, mode="a"))
    if how == "flush":
        session.flush(how)
    elif how == "amend":
        session.amend(how, allow_empty=True)
    else:
        session.commit(how, allow_empty=True)


def _write_array(root: zarr.Group, number: int) -> None:
    name = f"group-{number % 2}/array-{number % 3}"
    if name in root:
        del root[name]
    shape = (1 + number % 5, 1 + number % 700)
    array: Any = root.create_array(
        name, shape=shape, chunks=(1, 1 + shape[1] // 2), dtype="float64", compressors=None
    )
    array[...] = np.arange(array.size).reshape(shape) + 1.0


def _each_array(root: zarr.Group, act: Callable[[Any], object]) -> None:
    for _, group in root.groups():
        for _, array in group.arrays():
            act(array)


def _overwrite(root: zarr.Group, number: int) -> None:
    _each_array(root, lambda array: array.__setitem__(number % array.shape[0], number))


def _resize(root: zarr.Group, number: int) -> None:
    _each_array(root, lambda array: array.resize((1 + number % 7, array.shape[1])))


def _annotate(root: zarr.Group, number: int) -> None:
    root.attrs["number"] = number


def _delete_group(root: zarr.Group, number: int) -> None:
    if f"group-{number % 2}" in root:
        del root[f"group-{number % 2}"]


EDITS = (_write_array, _write_array, _overwrite, _resize, _annotate, _delete_group)
ENDINGS = ("commit", "commit", "commit", "flush", "amend")


def _move(repository: Repository, number: int) -> None:
    session = repository.rearrange_session("main")
    session.move(f"/group-{number % 2}", f"/moved-{number}")
    session.commit("moved")


def _expire(repository: Repository, number: int) -> None:
    infos = list(repository.ancestry(branch="main"))
    repository.expire_snapshots(infos[number % len(infos)].written_at)


def _collect(repository: Repository, _: int) -> None:
    repository.garbage_collect(datetime.now(UTC) + timedelta(hours=1))


def _create_ref(repository: Repository, number: int) -> None:
    infos = list(repository.ancestry(branch="main"))
    create_ref = (repository.create_branch, repository.create_tag)[number % 2]
    create_ref(f"ref-{number % 4}", infos[number % len(infos)].id)


def _delete_ref(repository: Repository, number: int) -> None:
    delete_ref = (repository.delete_branch, repository.delete_tag)[number % 2]
    delete_ref(f"ref-{number % 4}")


def _reset(repository: Repository, number: int) -> None:
    infos = list(repository.ancestry(branch="main"))
    repository.reset_branch("main", infos[number % len(infos)].id)


def _rewrite(repository: Repository, number: int) -> None:
    split = repository.reopen(split_every(1 + number % 3))
    split.rewrite_manifests("rewritten", branch="main")


OTHERS: tuple[Step, ...] = (
    _move, _expire, _collect, _create_ref, _create_ref, _delete_ref, _reset, _rewrite,
)  # fmt: skip

edits = st.tuples(st.sampled_from(EDITS), st.integers(0, 1000), st.sampled_from(ENDINGS))
others = st.tuples(st.sampled_from(OTHERS), st.integers(0, 1000))
programs = st.lists(st.one_of(edits, edits, others), max_size=12)


def _run(repository: Repository, program: list[Any]) -> None:
    for act, number, *how in program:
        # What a generation can't do, or a name does not allow, is refused before it is done.
        with suppress(IcechunkError):
            if how:
                _edit(repository, lambda root: act(root, number), how[0])  # noqa: B023
            else:
                act(repository, number)


def _assert_nothing_wrong(repository: Repository) -> None:
    report = reopen(repository).check(deep=True, virtual=True)

    assert [each for each in report.problems if each.severity is not Severity.NOTE] == []
    assert report.has_counted_orphans


@given(program=programs)
def test_nothing_is_wrong_with_a_repository_after_any_program(program: list[Any]) -> None:
    repository = create(Dialect.V2)

    _run(repository, program)

    _assert_nothing_wrong(repository)


@given(dialect=st.sampled_from(ALL_DIALECTS), program=programs)
def test_nor_with_one_of_any_generation(dialect: Dialect, program: list[Any]) -> None:
    repository = create(dialect)

    _run(repository, program)

    _assert_nothing_wrong(repository)


@given(program=programs)
def test_after_garbage_is_collected_there_are_no_orphans(program: list[Any]) -> None:
    repository = create(Dialect.V2)
    _run(repository, program)

    _collect(repository, 0)

    assert [each.kind for each in reopen(repository).check().orphans] == []


METADATA = ("snapshots/", "manifests/", "transactions/", "s/", "m/")


@given(damaged=damaged_repositories())
def test_a_damaged_object_never_stops_a_check(
    damaged: tuple[MemoryStorage, str, bytes | None],
) -> None:
    storage, key, data = damaged

    report = check_storage(storage, CheckOptions(decodes_chunks=True))

    if data is None and key.startswith(METADATA):
        assert [each.object for each in report.errors] == [key]
