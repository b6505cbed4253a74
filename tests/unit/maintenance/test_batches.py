"""Items a few at a time."""

from hypothesis import given
from hypothesis import strategies as st

from frazil.maintenance.reachability import pack


@given(st.lists(st.integers(0, 100)), st.integers(1, 150))
def test_packing_keeps_order_and_limit(sizes: list[int], most: int) -> None:
    groups = pack(list(range(len(sizes))), sizes, most)

    assert [item for group in groups for item in group] == list(range(len(sizes)))
    assert all(group for group in groups)
    for group in groups:
        assert len(group) == 1 or sum(sizes[item] for item in group) <= most
