"""Fetching the manifests of coordinates while a session's user still thinks."""

import threading
from collections.abc import Iterator
from itertools import islice

from frazil.engine.state import SessionState
from frazil.errors import IcechunkError
from frazil.format.ids import ManifestId
from frazil.format.snapshot import Node


def preload(state: SessionState) -> None:
    """Start to fetch what the configuration asks for; nothing where reading takes no time."""
    if state.assets.storage.is_local or not state.surroundings.settings.preload.max_total_refs:
        return
    chosen = list(plan_preload(state))
    if chosen:
        threading.Thread(target=_fetch, args=(state, chosen), daemon=True).start()


def plan_preload(state: SessionState) -> Iterator[ManifestId]:
    """The manifests of the first arrays that fulfil the condition, as many as are allowed."""
    rules = state.surroundings.settings.preload
    sizes = {file.id: file.num_chunk_refs or 0 for file in state.view.snapshot.manifest_files}
    left = rules.max_total_refs
    arrays = (node for node in state.view.nodes() if node.array is not None)
    for node in islice(arrays, rules.max_arrays_to_scan):
        for id in _manifests(node):
            count = sizes.get(id, 0)
            if count <= left and rules.preload_if.matches(node.path, count):
                left -= count
                yield id


def _manifests(node: Node) -> Iterator[ManifestId]:
    if node.array is not None:
        yield from (ref.id for ref in node.array.manifests)


def _fetch(state: SessionState, ids: list[ManifestId]) -> None:
    for id in ids:
        try:
            state.assets.read_manifest(id)
        except IcechunkError:
            return  # whoever needs it will meet the error, and can do something about it
