"""What is shared reads like what would have been copied."""

import pickle
from collections import UserDict
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.format.repo_info import (
    Prepended,
    prepend,
    with_entries,
    without_entries,
)

keys = st.integers(0, 9)
entries = st.dictionaries(keys, st.integers())
steps = st.lists(entries | st.frozensets(keys), max_size=6)


def apply(
    mapping: Mapping[int, int], steps: list[dict[int, int] | frozenset[int]]
) -> Mapping[int, int]:
    for step in steps:
        if isinstance(step, dict):
            mapping = with_entries(mapping, step)
        else:
            mapping = without_entries(mapping, step)
    return mapping


@given(entries, steps)
def test_a_shared_mapping_changes_as_a_dictionary_does(
    base: dict[int, int], steps: list[dict[int, int] | frozenset[int]]
) -> None:
    plain = apply(base, steps)
    shared = apply(UserDict(base), steps)

    assert type(plain) is dict
    assert shared == plain
    assert len(shared) == len(list(shared)) == len(plain)
    assert {key for key in range(11) if key in shared} == set(plain)
    assert pickle.loads(pickle.dumps(shared)) == plain


def test_changes_leave_the_mapping_that_they_are_made_to() -> None:
    base = UserDict({1: 1, 2: 2})

    changed = without_entries(with_entries(base, {3: 3}), [1])

    assert base == {1: 1, 2: 2}
    assert changed == {2: 2, 3: 3}
    with pytest.raises(KeyError):
        changed[1]


@given(st.integers(0, 9), st.lists(st.lists(st.integers()), min_size=1), st.slices(12))
def test_a_shared_sequence_reads_as_a_tuple_does(
    size: int, heads: list[list[int]], part: slice
) -> None:
    plain: Sequence[int] = tuple(range(size))
    shared: Sequence[int] = range(size)
    for head in heads:
        plain, shared = prepend(tuple(head), plain), prepend(tuple(head), shared)

    assert isinstance(shared, Prepended)
    assert shared == plain
    assert plain == shared
    assert hash(shared) == hash(plain)
    assert shared[part] == plain[part]
    assert [shared[index] for index in range(-len(plain), len(plain))] == [*plain, *plain]
    assert pickle.loads(pickle.dumps(shared)) == plain
    with pytest.raises(IndexError):
        shared[len(plain)]
