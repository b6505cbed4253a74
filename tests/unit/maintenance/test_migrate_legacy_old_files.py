"""What a migration deletes, and what it leaves alone."""

from frazil.format.files import encode_snapshot
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.snapshot import Snapshot
from frazil.maintenance.migrate_legacy import (
    ALPHA_PLACES,
    DRAFT_PLACES,
    delete_old_files,
    has_old_files,
    is_free_for_v2,
)
from frazil.storage.memory import MemoryStorage

ID = SnapshotId(b"twelve bytes")


def file_of(dialect: Dialect) -> bytes:
    return encode_snapshot(Snapshot(ID, None, 0, ""), dialect)


def storage_of(**objects: bytes) -> MemoryStorage:
    storage = MemoryStorage()
    for key, data in objects.items():
        storage.put(key, data)
    return storage


def keys(storage: MemoryStorage) -> set[str]:
    return {info.key for info in storage.list()}


def test_files_of_alphas_are_distinguished_from_those_of_v2_by_their_first_bytes() -> None:
    old, new = SnapshotId(b"an old file."), SnapshotId(b"a new file..")
    objects = {
        f"snapshots/{old}": file_of(Dialect.ALPHA_H),
        f"snapshots/{new}": file_of(Dialect.V2),
        f"manifests/{old}": b"\x93\x00\x80\x80",
        f"transactions/{old}": file_of(Dialect.V1),
    }
    storage = storage_of(**objects)

    delete_old_files(storage, ALPHA_PLACES)

    assert keys(storage) == {f"snapshots/{new}"}
    assert not has_old_files(storage, ALPHA_PLACES)


def test_what_is_not_named_as_an_old_library_names_files_stays() -> None:
    strange = {
        "snapshots/readme",
        "config.yaml.mine",
        "chunks/any",
        "r/main/a.json",
        "references/a",
    }
    storage = storage_of(**dict.fromkeys(strange, b"text"))

    delete_old_files(storage, ALPHA_PLACES)

    assert keys(storage) == strange


def test_refs_go_and_so_does_the_configuration() -> None:
    storage = storage_of(**dict.fromkeys(["refs/tag.a/ref.json", "config.yaml"], b""))

    delete_old_files(storage, ALPHA_PLACES)

    assert keys(storage) == set()


def test_the_folders_of_the_draft_go_as_a_whole() -> None:
    old = ["r/main/ZZZZZZZZ.json", "r/tag.json", "s/a.json", "m/a", "c/a"]
    storage = storage_of(**dict.fromkeys([*old, "chunks/a", "snapshots/a"], b""))

    assert has_old_files(storage, DRAFT_PLACES)
    delete_old_files(storage, DRAFT_PLACES)

    assert keys(storage) == {"chunks/a", "snapshots/a"}


def test_a_key_is_free_where_nothing_or_a_file_of_v2_is() -> None:
    objects = {"new": file_of(Dialect.V2), "old": file_of(Dialect.ALPHA_H), "tiny": b""}
    storage = storage_of(**objects)

    free = [key for key in ("new", "old", "tiny", "nothing") if is_free_for_v2(storage, key)]

    assert free == ["new", "nothing"]
