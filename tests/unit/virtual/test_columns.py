"""References by columns: whatever they come as, they are the same; none is set if one is wrong."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zarr

from frazil import IcechunkStore, InvalidInputError, Session
from frazil.config import RepositoryConfig
from frazil.errors import InvalidChunksError
from frazil.format.manifest import ETag, LastModified, VirtualRef
from frazil.storage import s3_store
from frazil.virtual import VirtualChunkContainer
from tests.repositories import create

ONE, TWO = "s3://bucket/one", "s3://bucket/two"
PLACES = np.array([[1, 0], [0, 0], [0, 2]])
LOCATIONS = [TWO, ONE, TWO]
OFFSETS, LENGTHS = [0, 10, 20], [5, 6, 7]


@pytest.fixture
def session() -> Session:
    config = RepositoryConfig.default()
    container = VirtualChunkContainer("s3://bucket/", s3_store(region="us-east-1"))
    config.set_virtual_chunk_container(container)
    session = create(config=config).writable_session("main")
    zarr.create_array(session.store, name="a", shape=(2, 3), chunks=(1, 1), dtype="u1")
    return session


def set_columns(store: IcechunkStore, **changed: Any) -> None:
    columns: dict[str, Any] = {
        "coordinates": PLACES,
        "locations": LOCATIONS,
        "offsets": OFFSETS,
        "lengths": LENGTHS,
    }
    store.set_virtual_columns("a", **(columns | changed))


def refs_of(session: Session) -> dict[tuple[int, int], Any]:
    view = session.state.view
    node, _ = view.get_array("/a")
    places = [(row, column) for row in range(2) for column in range(3)]
    found = {place: view.find_chunk(node, place) for place in places}
    return {place: ref for place, ref in found.items() if ref is not None}


@pytest.mark.parametrize(
    "locations",
    [
        LOCATIONS,
        np.array(LOCATIONS),
        np.array(LOCATIONS, object),
        pa.array(LOCATIONS),
        pa.array(LOCATIONS).dictionary_encode(),
        pa.chunked_array([LOCATIONS[:1], LOCATIONS[1:]]),
        pa.chunked_array([LOCATIONS[:1], LOCATIONS[1:]]).dictionary_encode(),
        (np.array([1, 0, 1]), [ONE, TWO]),
    ],
    ids=[
        "list",
        "numpy",
        "objects",
        "arrow",
        "dictionary",
        "chunked",
        "chunked dictionary",
        "codes",
    ],
)
def test_locations_come_in_many_forms(session: Session, locations: Any) -> None:
    set_columns(session.store, locations=locations)

    assert refs_of(session) == {
        (0, 0): VirtualRef(ONE, 10, 6, None),
        (0, 2): VirtualRef(TWO, 20, 7, None),
        (1, 0): VirtualRef(TWO, 0, 5, None),
    }


def test_what_was_set_can_be_read_from_a_commit(session: Session) -> None:
    set_columns(session.store)
    before = refs_of(session)

    session.commit("columns")

    assert refs_of(session) == before


@pytest.mark.parametrize("locations", [[TWO, None, ""], pa.array([TWO, None, ""])])
def test_a_row_without_a_location_leaves_its_chunk_as_it_is(
    session: Session, locations: Any
) -> None:
    set_columns(session.store, locations=locations)

    assert list(refs_of(session)) == [(1, 0)]


MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NAIVE = MOMENT.replace(tzinfo=None)
MODIFIED = LastModified(int(MOMENT.timestamp()))


@pytest.mark.parametrize(
    ("checksums", "expected"),
    [
        (None, [None, None, None]),
        ("e", [ETag("e")] * 3),
        (MOMENT, [MODIFIED] * 3),
        (["e", None, "f"], [ETag("e"), None, ETag("f")]),
        (pa.array(["e", None, "f"]).dictionary_encode(), [ETag("e"), None, ETag("f")]),
        ([MOMENT, None, MOMENT], [MODIFIED, None, MODIFIED]),
        (np.array([NAIVE, "NaT", NAIVE], "M8[us]"), [MODIFIED, None, MODIFIED]),
        (pa.array([MOMENT, None, MOMENT]), [MODIFIED, None, MODIFIED]),
    ],
    ids=["none", "etag", "time", "etags", "arrow etags", "times", "numpy times", "arrow times"],
)  # fmt: skip
def test_checksums_are_for_all_or_for_each(
    session: Session, checksums: Any, expected: list[Any]
) -> None:
    set_columns(session.store, checksums=checksums)

    refs = refs_of(session)
    assert [refs[tuple(place)].checksum for place in PLACES.tolist()] == expected


@pytest.mark.parametrize(
    ("changed", "bad", "kind"),
    [
        ({"coordinates": [[1, 0], [2, 0], [0, 3]]}, [(2, 0), (0, 3)], "invalid-chunk-index"),
        ({"coordinates": [[-1, 0], [0, 0], [0, 1]]}, [(-1, 0)], "invalid-chunk-index"),
        ({"coordinates": [[1, 0], [0, 0], [1, 0]]}, [(1, 0)], "invalid-virtual-ref"),
        ({"lengths": [0, 6, 0]}, [(0, 2), (1, 0)], "zero-length-chunk"),
        (
            {"locations": ["s3://other/x", ONE, "gs://bucket/x"]},
            [(0, 2), (1, 0)],
            "no-container-for-virtual-chunk",
        ),
    ],
)
def test_all_chunks_that_cannot_be_set_are_named(
    session: Session, changed: dict[str, Any], bad: list[tuple[int, int]], kind: str
) -> None:
    with pytest.raises(InvalidChunksError) as caught:
        set_columns(session.store, **changed)

    assert sorted(caught.value.coordinates) == sorted(bad)
    assert caught.value.kind == kind
    assert refs_of(session) == {}


def test_a_message_shows_some_of_many_chunks(session: Session) -> None:
    outside = [[9, number] for number in range(100)]

    with pytest.raises(InvalidChunksError, match=r"\[9, 0\].* and 95 more") as caught:
        session.store.set_virtual_columns("a", outside, [ONE] * 100, [0] * 100, [1] * 100)

    assert len(caught.value.coordinates) == 100


def test_containers_need_not_be_declared_yet(session: Session) -> None:
    set_columns(session.store, locations=["gs://b/x"] * 3, validate_containers=False)

    assert len(refs_of(session)) == 3


@pytest.mark.parametrize(
    "changed",
    [
        {"lengths": [1, 2]},
        {"offsets": [1, 2]},
        {"coordinates": PLACES[:2]},
        {"checksums": ["e"]},
        {"locations": (np.array([0, 1, 2]), [ONE, TWO])},
    ],
)
def test_columns_must_go_together(session: Session, changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"do not go with|none of the 2 texts"):
        set_columns(session.store, **changed)


def test_times_need_a_place_in_a_manifest(session: Session) -> None:
    with pytest.raises(InvalidInputError, match="before 1970"):
        set_columns(session.store, checksums=np.array(["1969-01-01"] * 3, "M8[s]"))


def test_a_scalar_has_one_chunk_at_no_coordinate(session: Session) -> None:
    zarr.create_array(session.store, name="scalar", shape=(), dtype="u1")

    session.store.set_virtual_columns("scalar", [()], [ONE], [3], [4], "e")

    view = session.state.view
    node, _ = view.get_array("/scalar")
    assert view.find_chunk(node, ()) == VirtualRef(ONE, 3, 4, ETag("e"))
