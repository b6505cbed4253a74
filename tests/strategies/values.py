"""Plain values that every kind of file is made of: numbers, texts, times, ids, paths, JSON."""

from typing import Any

from hypothesis import strategies as st

from frazil.format.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.format.metadata import Metadata

uint16 = st.integers(0, 2**16 - 1)
uint32 = st.integers(0, 2**32 - 1)
uint64 = st.integers(0, 2**64 - 1)
texts = st.text(max_size=12)
names = st.text(min_size=1, max_size=8)
blobs = st.binary(max_size=24)
optional_blobs = st.none() | blobs

microsecond_times = st.integers(0, 2**64 - 1).map(lambda microseconds: microseconds * 1000)
"""Times as the FlatBuffers generations can hold them."""

snapshot_ids = st.binary(min_size=12, max_size=12).map(SnapshotId)
manifest_ids = st.binary(min_size=12, max_size=12).map(ManifestId)
chunk_ids = st.binary(min_size=12, max_size=12).map(ChunkId)
node_ids = st.binary(min_size=8, max_size=8).map(NodeId)

# Characters around "/" in the order of bytes, and ones of two to four bytes.
_segments = (
    st.sampled_from(["a", "a-b", "a b", "a.", "a0", "b", "ä", "…", "🧊", "c"])
    | st.text(min_size=1, max_size=4).map(lambda text: text.replace("/", "-"))
).filter(lambda segment: segment not in (".", ".."))
paths = st.lists(_segments, max_size=3).map(lambda segments: "/" + "/".join(segments))

json_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_keys = st.text(max_size=6).map(lambda text: text.replace("\0", "0"))
json_values: st.SearchStrategy[Any] = st.recursive(
    json_scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_keys, inner, max_size=4),
    max_leaves=8,
)
metadata = st.dictionaries(texts, json_values, max_size=3).map(Metadata)
