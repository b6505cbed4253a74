"""Repositories of every generation, made new."""

from pathlib import Path

import pytest

from frazil.errors import ConflictError, FormatError, InvalidInputError
from frazil.format.files import decode_snapshot
from frazil.format.header import Dialect
from frazil.format.ids import FIRST_SNAPSHOT_ID
from frazil.protocols.detection import (
    FIRST_MESSAGE,
    create_repository,
    detect_dialect,
    open_protocol,
)
from frazil.protocols.protocol import MAIN
from frazil.protocols.sequence_protocol import SequenceProtocol
from frazil.protocols.v1_protocol import V1Protocol
from frazil.protocols.v2_protocol import V2Protocol
from frazil.storage import s3_storage
from frazil.storage.interface import Storage
from frazil.storage.local import Durability, LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import PrefixedStorage
from tests.alpha_reader import OldRepository
from tests.protocol_repositories import OLDER, SEQUENCED

_FIRST_METADATA = {
    Dialect.ALPHA_H: {"__root": True},
    Dialect.V1: {"__icechunk": {"is_root": True}},
    Dialect.V2: {"__icechunk": {"is_root": True}},
}
_LOOKALIKES = {
    Dialect.ALPHA_C: Dialect.ALPHA_B,
    Dialect.ALPHA_D: Dialect.ALPHA_B,
    Dialect.ALPHA_G: Dialect.ALPHA_F,
}
"""As long as there are no manifests, these can't be told from what came before them."""

_WITHOUT_CONFIG = [Dialect.DRAFT, Dialect.ALPHA_A, Dialect.ALPHA_B]


def keys(storage: Storage) -> set[str]:
    return {info.key for info in storage.list()}


@pytest.mark.parametrize("dialect", Dialect)
def test_a_new_repository_has_one_snapshot_and_is_recognised(
    storage: Storage, dialect: Dialect
) -> None:
    created = create_repository(storage, dialect)

    opened = open_protocol(storage)
    (first,) = opened.ancestry(opened.lookup_branch(MAIN))
    assert created.dialect is dialect
    assert opened.dialect is _LOOKALIKES.get(dialect, dialect)
    assert (first.message, first.parent_id) == (FIRST_MESSAGE, None)
    assert first.metadata == _FIRST_METADATA.get(dialect, {})
    assert (opened.list_branches(), opened.list_tags()) == ({MAIN}, set())
    assert opened.read_config() is None
    assert first == created.lookup_snapshot(first.id)


def test_each_generation_has_a_protocol_of_its_own() -> None:
    classes: dict[Dialect, type] = dict.fromkeys(SEQUENCED, SequenceProtocol)
    classes |= {Dialect.V1: V1Protocol, Dialect.V2: V2Protocol}

    for dialect, expected in classes.items():
        assert type(create_repository(MemoryStorage(), dialect)) is expected


def test_a_new_v1_repository_has_two_files(storage: Storage) -> None:
    create_repository(storage, Dialect.V1)

    assert keys(storage) == {f"snapshots/{FIRST_SNAPSHOT_ID}", "refs/branch.main/ref.json"}
    assert bytes(storage.get("refs/branch.main/ref.json")) == (
        b'{"snapshot":"1CECHNKREP0F1RSTCMT0"}'
    )


@pytest.mark.parametrize("dialect", SEQUENCED)
def test_a_second_reader_reads_a_new_repository(tmp_path: Path, dialect: Dialect) -> None:
    create_repository(LocalStorage(tmp_path, durability=Durability.NONE), dialect)

    branch = OldRepository(tmp_path).read_branch(MAIN)

    assert [commit.message for commit in branch.history] == [FIRST_MESSAGE]
    assert branch.history[0].metadata == _FIRST_METADATA.get(dialect, {})
    assert branch.nodes == {}


def test_the_first_alphas_name_the_first_file_otherwise_than_the_snapshot(
    storage: Storage,
) -> None:
    repository = create_repository(storage, Dialect.ALPHA_A)

    name = repository.lookup_branch(MAIN)
    inside = decode_snapshot(bytes(storage.get(f"snapshots/{name}"))).value.id
    assert inside != name


@pytest.mark.parametrize("dialect", Dialect)
def test_where_anything_is_no_repository_is_created(storage: Storage, dialect: Dialect) -> None:
    storage.put("some/thing", b"else")

    with pytest.raises(InvalidInputError, match="some/thing") as refusal:
        create_repository(storage, dialect)

    assert refusal.value.kind == "parent-directory-not-clean"
    assert keys(storage) == {"some/thing"}
    create_repository(storage, dialect, check_clean_root=False)
    assert detect_dialect(storage) is _LOOKALIKES.get(dialect, dialect)


@pytest.mark.parametrize("dialect", Dialect)
def test_a_repository_is_not_created_over_another(storage: Storage, dialect: Dialect) -> None:
    create_repository(storage, dialect)
    before = {key: bytes(storage.get(key)) for key in keys(storage)}

    with pytest.raises(ConflictError):
        create_repository(storage, dialect, check_clean_root=False)

    assert {key: bytes(storage.get(key)) for key in keys(storage)} == before


@pytest.mark.parametrize("dialect", [d for d in Dialect if d not in _WITHOUT_CONFIG])
def test_a_configuration_is_saved_with_a_new_repository(storage: Storage, dialect: Dialect) -> None:
    config = {"inline_chunk_threshold_bytes": 12}

    create_repository(storage, dialect, config=config)

    repository = create_repository(PrefixedStorage(storage, "other"), dialect, config=config)
    assert repository.read_config() == config


@pytest.mark.parametrize("dialect", _WITHOUT_CONFIG)
def test_a_configuration_without_a_place_is_refused(storage: Storage, dialect: Dialect) -> None:
    with pytest.raises(FormatError) as refusal:
        create_repository(storage, dialect, config={"inline_chunk_threshold_bytes": 12})

    assert refusal.value.kind == "unsupported-spec-version"
    assert keys(storage) == set()


@pytest.mark.parametrize("prefix", [None, "", "/"])
@pytest.mark.parametrize("dialect", [*OLDER, Dialect.V2])
def test_the_root_of_a_bucket_is_no_place(prefix: str | None, dialect: Dialect) -> None:
    bucket = s3_storage(bucket="bucket", prefix=prefix, region="nowhere", anonymous=True)

    with pytest.raises(InvalidInputError) as refusal:
        create_repository(bucket, dialect, check_clean_root=False)

    assert refusal.value.kind == "empty-prefix-creation"


def test_a_folder_of_a_bucket_is_a_place() -> None:
    bucket = s3_storage(bucket="bucket", prefix=None, region="nowhere", anonymous=True)
    folder = s3_storage(bucket="bucket", prefix="folder", region="nowhere", anonymous=True)

    assert bucket.is_bucket_root
    assert not folder.is_bucket_root
    assert not PrefixedStorage(bucket, "folder").is_bucket_root
