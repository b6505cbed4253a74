"""Every known repository reads as what is known about it, through the protocol of its generation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from frazil.errors import AlreadyExistsError, RefNotFoundError
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.metadata import decode_rfc3339
from frazil.protocols.detection import detect_dialect, open_protocol
from frazil.protocols.protocol import CommitProtocol
from frazil.storage.interface import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import ReadOnlyStorage
from tests.generations import REPOSITORY_NAMES

_DIALECTS = {
    "draft-json": Dialect.DRAFT,
    "alpha-msgpack-0.1.0a1-a4": Dialect.ALPHA_A,
    "alpha-msgpack-0.1.0a5-a7": Dialect.ALPHA_B,
    "alpha-msgpack-0.1.0a8": Dialect.ALPHA_C,
    "alpha-msgpack-0.1.0a9": Dialect.ALPHA_D,
    "alpha-msgpack-0.1.0a10": Dialect.ALPHA_E,
    "alpha-msgpack-0.1.0a11-a12": Dialect.ALPHA_F,
    "alpha-msgpack-0.1.0a13-a15": Dialect.ALPHA_G,
    "alpha-msgpack-0.1.0-0.1.3": Dialect.ALPHA_H,
    "alpha-real-20241013-a1": Dialect.ALPHA_A,
    "alpha-real-20241226-a8": Dialect.ALPHA_C,
    "alpha-real-20250106-a9": Dialect.ALPHA_D,
    "alpha-real-20250108-a10": Dialect.ALPHA_E,
    "alpha-real-20250113-a11": Dialect.ALPHA_F,
    "alpha-real-20250123-a13": Dialect.ALPHA_G,
    "alpha-real-20250130-0.1.0": Dialect.ALPHA_H,
}


def dialect_of(name: str) -> Dialect:
    return _DIALECTS.get(name) or (Dialect.V1 if name.startswith("v1") else Dialect.V2)


def load(folder: Path) -> Storage:
    """A copy of a repository in memory, in no helpful order."""
    storage = MemoryStorage()
    for path in sorted((folder / "repo").rglob("*"), reverse=True):
        if path.is_file():
            storage.put(path.relative_to(folder / "repo").as_posix(), path.read_bytes())
    return storage


def on_disk(folder: Path) -> Storage:
    return LocalStorage(folder / "repo")


def expectations(folder: Path) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_bytes())
    return expected


@pytest.fixture(params=[load, on_disk], ids=["memory", "disk"])
def place(request: pytest.FixtureRequest) -> Callable[[Path], Storage]:
    found: Callable[[Path], Storage] = request.param
    return found


def start_of(repository: CommitProtocol, ref: str) -> SnapshotId:
    kind, _, name = ref.partition(":")
    if kind == "snapshot":
        return SnapshotId.parse(name)
    return repository.lookup_branch(name) if kind == "branch" else repository.lookup_tag(name)


@pytest.mark.parametrize("name", REPOSITORY_NAMES)
def test_its_generation_is_recognised(
    generations: Path, place: Callable[[Path], Storage], name: str
) -> None:
    storage = ReadOnlyStorage(place(generations / name))

    assert detect_dialect(storage) is dialect_of(name)
    assert open_protocol(storage).dialect is dialect_of(name)


@pytest.mark.parametrize("name", REPOSITORY_NAMES)
def test_its_refs_are_those_expected(
    generations: Path, place: Callable[[Path], Storage], name: str
) -> None:
    expected = expectations(generations / name)
    repository = open_protocol(place(generations / name))

    branches = {name: str(repository.lookup_branch(name)) for name in repository.list_branches()}
    tags = {name: str(repository.lookup_tag(name)) for name in repository.list_tags()}

    assert branches == expected["branches"]
    assert tags == expected.get("tags", {})
    for deleted in expected.get("deleted_branches", []):
        with pytest.raises(RefNotFoundError):
            repository.lookup_branch(deleted)


@pytest.mark.parametrize("name", REPOSITORY_NAMES)
def test_its_deleted_tags_are_gone_for_ever(generations: Path, name: str) -> None:
    expected = expectations(generations / name)
    repository = open_protocol(load(generations / name))

    for deleted in expected.get("deleted_tags", []):
        with pytest.raises(RefNotFoundError):
            repository.lookup_tag(deleted)
        with pytest.raises(AlreadyExistsError):
            repository.create_tag(deleted, repository.lookup_branch("main"))


@pytest.mark.parametrize("name", REPOSITORY_NAMES)
def test_its_history_is_the_one_expected(
    generations: Path, place: Callable[[Path], Storage], name: str
) -> None:
    expected = expectations(generations / name)
    repository = open_protocol(place(generations / name))

    for ref, ids in expected.get("history", {}).items():
        infos = list(repository.ancestry(start_of(repository, ref)))

        assert [str(info.id) for info in infos] == ids
        for info in infos:
            known = expected["snapshots"][str(info.id)]
            assert info.message == known["message"]
            assert info.metadata == known["metadata"]
            assert info.flushed_at == decode_rfc3339(known["written_at"])
            assert info.parent_id == (known["parent_id"] and SnapshotId.parse(known["parent_id"]))
            assert repository.lookup_snapshot(info.id) == info
