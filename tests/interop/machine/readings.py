"""Random steps that look at a session."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.interop.machine.edits import (
    chunk_keys,
    chunk_ranges,
    keys,
    metadata_key,
    node_path,
    odd_keys,
    on_session,
    on_store,
    paths,
    places,
    prefixes,
    ranges,
)
from tests.interop.machine.steps import OnSession, Step
from tests.interop.machine.weighting import weighted


@cache
def reads(slot: str) -> st.SearchStrategy[Step]:
    """Everything that changes nothing."""
    any_key = weighted((8, keys), (1, odd_keys))
    below = {name: on_store(slot, name, prefix=prefixes) for name in _BELOW}
    return st.one_of(
        on_store(slot, "get", key=any_key),
        on_store(slot, "get", key=chunk_keys, byte_range=chunk_ranges),
        on_store(slot, "get", key=paths.map(metadata_key), byte_range=ranges),
        on_store(
            slot,
            "get_partial_values",
            key_ranges=st.lists(st.tuples(chunk_keys, chunk_ranges), max_size=3),
        ),
        on_store(slot, "exists", key=any_key),
        on_store(slot, "getsize", key=any_key),
        on_store(slot, "list"),
        *below.values(),
        on_session(slot, "status"),
        on_session(slot, "status"),
        on_session(slot, "get_node_id", path=paths.map(node_path)),
        on_session(slot, "all_virtual_chunk_locations"),
        on_session(slot, "chunk_coordinates", array_path=paths.map(node_path)),
        on_store(slot, "array_chunk_iterator", array_path=paths.map(node_path)),
        paths.flatmap(lambda path: _chunk_types(slot, path)),
    )


_BELOW = ("list_prefix", "list_dir", "is_empty", "getsize_prefix")


def _chunk_types(slot: str, path: str) -> st.SearchStrategy[Step]:
    def chunk_type(place: tuple[int, ...]) -> OnSession:
        arguments: dict[str, Any] = {"array_path": f"/{path}", "chunk_coordinates": list(place)}
        return OnSession(slot, "chunk_type", arguments)

    return places(path).map(chunk_type)
