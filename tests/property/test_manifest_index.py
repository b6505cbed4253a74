"""The index over manifests finds what a scan of all of them finds."""

from hypothesis import given
from hypothesis import strategies as st

from frazil.format.coordinates import Extents, contains
from frazil.format.ids import ManifestId
from frazil.format.snapshot import ManifestIndex, ManifestRef

_LARGEST = 2**32 - 1
places = st.one_of(st.integers(0, 40), st.integers(0, _LARGEST))


@st.composite
def boxes(draw: st.DrawFn, axes: int) -> Extents:
    """Generate boxes of few or very many chunks, some of them empty."""
    starts = [draw(places) for _ in range(axes)]
    sizes = [draw(st.one_of(st.integers(0, 9), places)) for _ in range(axes)]
    return tuple((a, min(a + size, _LARGEST)) for a, size in zip(starts, sizes, strict=True))


@given(st.data(), st.integers(0, 8))
def test_the_first_manifest_that_covers_a_chunk_is_found(data: st.DataObject, axes: int) -> None:
    extents = data.draw(st.lists(boxes(axes), max_size=12))
    refs = [ManifestRef(ManifestId(bytes([i] * 12)), box) for i, box in enumerate(extents)]
    index = ManifestIndex(refs)
    corners = [tuple(start for start, _ in box) for box in extents]
    anywhere = data.draw(st.lists(st.tuples(*[places] * axes), max_size=5))
    for coordinate in corners + anywhere:
        expected = next((ref for ref in refs if contains(ref.extents, coordinate)), None)
        assert index.find(coordinate) is expected
