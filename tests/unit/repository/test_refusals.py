"""What a generation has no place for is refused clearly, before anything is written."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import zarr
from zarr.core.buffer import cpu

from frazil import FormatError, IcechunkError, InvalidInputError, Repository, Session, create_legacy
from frazil.format.header import Dialect
from frazil.storage.memory import MemoryStorage
from tests.protocol_repositories import OLDER, SEQUENCED
from tests.repositories import create

ARRAY: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "attributes": {},
    "shape": [4],
    "data_type": "int16",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
}
RECTILINEAR = {
    "name": "rectilinear",
    "configuration": {"kind": "inline", "chunk_shapes": [[1, 3]]},
}
WITHOUT_CHECKSUMS = [Dialect.DRAFT, Dialect.ALPHA_A, Dialect.ALPHA_B]
WITHOUT_CONFIG = [Dialect.DRAFT, Dialect.ALPHA_A, Dialect.ALPHA_B]


def make(dialect: Dialect) -> Repository:
    """A repository with one array that is committed."""
    if dialect in (Dialect.V1, Dialect.V2):
        repository = create(spec_version=1 if dialect is Dialect.V1 else 2)
    else:
        repository = create_legacy(MemoryStorage(), dialect.value)
    session = repository.writable_session("main")
    set_metadata(session, ARRAY)
    session.commit("an array")
    return repository


def set_metadata(session: Session, metadata: dict[str, Any], path: str = "numbers") -> None:
    data = cpu.Buffer.from_bytes(json.dumps(metadata).encode())
    session.store.set_sync(f"{path}/zarr.json", data)


def refuses(
    repository: Repository, act: Callable[[], object], error: type[IcechunkError], text: str
) -> None:
    """The error is raised, and nothing was written."""
    before = {info.key: info.size_bytes for info in repository.storage.list()}

    with pytest.raises(error, match=text):
        act()

    assert {info.key: info.size_bytes for info in repository.storage.list()} == before


@pytest.mark.parametrize("dialect", OLDER)
def test_grids_of_many_sizes_are_refused_before_v2(dialect: Dialect) -> None:
    repository = make(dialect)
    session = repository.writable_session("main")

    refuses(
        repository,
        lambda: set_metadata(session, {**ARRAY, "chunk_grid": RECTILINEAR}, "uneven"),
        IcechunkError,
        "rectilinear",
    )

    assert not session.has_uncommitted_changes


def test_grids_of_many_sizes_are_held_by_v2() -> None:
    session = make(Dialect.V2).writable_session("main")

    set_metadata(session, {**ARRAY, "chunk_grid": RECTILINEAR}, "uneven")

    session.commit("uneven chunks")
    _, array = session.state.view.get_array("/uneven")
    assert [each.num_chunks for each in array.shape] == [2]


def test_arrays_of_text_are_refused_by_the_draft() -> None:
    repository = make(Dialect.DRAFT)
    session = repository.writable_session("main")
    words = {**ARRAY, "data_type": "string", "fill_value": "", "codecs": [{"name": "vlen-utf8"}]}

    refuses(repository, lambda: set_metadata(session, words), InvalidInputError, "string")

    assert not session.has_uncommitted_changes


@pytest.mark.parametrize("dialect", SEQUENCED)
@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("data_type", {"name": "numpy.datetime64", "configuration": {"unit": "s"}}),
        ("data_type", "float128"),
        ("chunk_key_encoding", {"name": "v2", "configuration": {"separator": "."}}),
        ("must_understand_this", {"name": "something new"}),
        ("fill_value", "twelve"),
        ("fill_value", 40_000),
    ],
)
def test_metadata_without_a_place_is_refused(dialect: Dialect, member: str, value: Any) -> None:
    repository = make(dialect)
    session = repository.writable_session("main")

    refuses(
        repository,
        lambda: set_metadata(session, {**ARRAY, member: value}, "odd"),
        InvalidInputError,
        "zarr.json",
    )

    assert not session.has_uncommitted_changes


@pytest.mark.parametrize("checksum", ["an-etag", datetime(2024, 1, 1, tzinfo=UTC)])
@pytest.mark.parametrize("dialect", WITHOUT_CHECKSUMS)
def test_checksums_of_virtual_chunks_are_refused_by_the_first_alphas(
    dialect: Dialect, checksum: str | datetime
) -> None:
    repository = make(dialect)
    session = repository.writable_session("main")

    refuses(
        repository,
        lambda: set_virtual(session, checksum),
        InvalidInputError,
        "no checksums of virtual chunks",
    )

    assert not session.has_uncommitted_changes


def set_virtual(session: Session, checksum: str | datetime | None) -> None:
    session.store.set_virtual_ref(
        "numbers/c/0",
        "s3://bucket/object",
        offset=0,
        length=4,
        checksum=checksum,
        validate_container=False,
    )


@pytest.mark.parametrize("dialect", OLDER)
def test_virtual_chunks_without_a_checksum_are_held_by_all(dialect: Dialect) -> None:
    repository = make(dialect)
    session = repository.writable_session("main")

    set_virtual(session, None)
    session.commit("a virtual chunk")

    reader = Repository.open(repository.storage).readonly_session("main")
    assert reader.all_virtual_chunk_locations() == ["s3://bucket/object"]


@pytest.mark.parametrize("dialect", OLDER)
def test_moves_amendments_and_state_are_refused_before_v2(dialect: Dialect) -> None:
    repository = make(dialect)
    session = repository.writable_session("main")
    set_metadata(session, {**ARRAY, "shape": [5]})
    attempts: list[Callable[[], object]] = [
        lambda: session.amend("no"),
        lambda: repository.rearrange_session("main"),
        lambda: repository.set_metadata({"a": 1}),
        lambda: repository.set_feature_flag("move_node", setting=False),
        repository.ops_log,
    ]

    for attempt in attempts:
        refuses(repository, attempt, FormatError, f"generation {dialect.value} has no such thing")

    assert session.has_uncommitted_changes


@pytest.mark.parametrize("dialect", WITHOUT_CONFIG)
def test_saved_configurations_are_refused_by_the_first_alphas(dialect: Dialect) -> None:
    repository = make(dialect)

    refuses(repository, repository.save_config, FormatError, "no such thing")


@pytest.mark.parametrize("dialect", SEQUENCED)
def test_a_refused_edit_leaves_the_session_usable(dialect: Dialect) -> None:
    repository = make(dialect)
    session = repository.writable_session("main")
    with pytest.raises(IcechunkError):
        set_metadata(session, {**ARRAY, "chunk_grid": RECTILINEAR}, "uneven")

    zarr.open_array(session.store, path="numbers")[:] = 7
    session.commit("numbers")

    reader = Repository.open(repository.storage).readonly_session("main")
    assert zarr.open_array(reader.store, path="numbers", mode="r")[3] == 7
