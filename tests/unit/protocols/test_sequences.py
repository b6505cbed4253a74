"""Branches as sequences of files: their names, their forms, and what else may lie among them."""

import json

import pytest

from frazil.errors import FormatError, InvalidInputError
from frazil.format.header import Dialect
from frazil.protocols.detection import create_repository, detect_dialect, open_protocol
from frazil.protocols.protocol import MAIN
from frazil.protocols.sequence_protocol import SequenceFile
from frazil.storage.interface import DeleteReport, Storage
from frazil.storage.memory import MemoryStorage
from tests.protocol_repositories import SEQUENCED, commit, messages, open_as


def keys(storage: Storage, prefix: str) -> list[str]:
    return sorted(info.key.removeprefix(prefix) for info in storage.list(prefix))


def move_branch(storage: Storage, source: str, target: str, names: dict[str, str]) -> None:
    """Put the files of a branch elsewhere, under other names."""
    for old, new in names.items():
        storage.put(f"{target}/{new}.json", storage.get(f"{source}/{old}.json"))
    storage.delete_many([f"{source}/{old}.json" for old in names])


@pytest.mark.parametrize("dialect", SEQUENCED)
def test_each_move_of_a_branch_adds_a_file_that_sorts_first(
    storage: Storage, dialect: Dialect
) -> None:
    folder = "r/main/" if dialect is Dialect.DRAFT else "refs/branch.main/"
    repository = create_repository(storage, dialect)

    first = commit(repository)
    commit(repository)
    repository.reset_branch(MAIN, first)

    assert keys(storage, folder) == [f"ZZZZZZZ{last}.json" for last in "WXYZ"]
    assert repository.lookup_branch(MAIN) == first


def test_many_moves_keep_their_order(storage: Storage) -> None:
    repository = create_repository(storage, Dialect.ALPHA_H)

    tips = [commit(repository) for _ in range(40)]

    assert repository.lookup_branch(MAIN) == tips[-1]
    assert keys(storage, "refs/branch.main/")[0] == "ZZZZZZYQ.json"


def test_an_alphas_ref_says_no_more_than_the_snapshot(storage: Storage) -> None:
    repository = create_repository(storage, Dialect.ALPHA_G)
    tip = commit(repository)
    repository.create_tag("release", tip)

    for key in ("refs/branch.main/ZZZZZZZY.json", "refs/tag.release/ref.json"):
        assert bytes(storage.get(key)) == b'{"snapshot":"%s"}' % str(tip).encode()


def test_a_drafts_ref_has_a_time_and_properties(storage: Storage) -> None:
    repository = create_repository(storage, Dialect.DRAFT)
    tip = commit(repository)
    repository.create_tag("release", tip)

    for key in ("r/main/ZZZZZZZY.json", "r/release.json"):
        tree = json.loads(bytes(storage.get(key)))
        assert tree["snapshot"] == list(tip)
        assert tree["timestamp"].endswith("Z")
        assert tree["properties"] == {}


@pytest.mark.parametrize(
    ("folder", "names"),
    [
        ("refs/branch:main", ["ZZZZZZZZ", "ZZZZZZZY", "ZZZZZZZX"]),
        ("refs/branch:main", ["ZZZZZZZZZZZZY", "ZZZZZZZZZZZZW", "ZZZZZZZZZZZZT"]),
        ("refs/branch.main", ["ZZZZZZZZZZZZY", "ZZZZZZZZZZZZW", "ZZZZZZZZZZZZT"]),
    ],
)
def test_a_branch_goes_on_in_the_form_that_it_has(
    storage: Storage, folder: str, names: list[str]
) -> None:
    repository = create_repository(storage, Dialect.ALPHA_A)
    commit(repository, message="before")
    found = dict(zip(["ZZZZZZZZ", "ZZZZZZZY"], names[:2], strict=True))
    # A form that was never released; first beside, so that nothing is written over.
    move_branch(storage, "refs/branch.main", "elsewhere", found)
    move_branch(storage, "elsewhere", folder, {name: name for name in names[:2]})

    opened = open_protocol(storage)
    commit(opened, message="after")

    assert detect_dialect(storage) is Dialect.ALPHA_A
    assert messages(opened) == ["after", "before"]
    assert opened.list_branches() == {MAIN}
    assert keys(storage, f"{folder}/") == sorted(f"{name}.json" for name in names)


def test_files_that_are_no_part_of_a_sequence_are_left_alone(storage: Storage) -> None:
    repository = create_repository(storage, Dialect.ALPHA_H)
    for name in ("AAAA.json", "readme.txt", "ref.json", "UUUUUUUU.json", "deep/ZZZZZZZA.json"):
        storage.put(f"refs/branch.main/{name}", b"something else")

    tip = commit(repository)

    assert repository.lookup_branch(MAIN) == tip
    assert repository.list_branches() == {MAIN}


def test_a_damaged_ref_names_its_file(storage: Storage) -> None:
    repository = create_repository(storage, Dialect.ALPHA_H)
    storage.put("refs/branch.main/ZZZZZZZY.json", b"damaged")

    with pytest.raises(FormatError, match=r"refs/branch\.main/ZZZZZZZY\.json") as refusal:
        repository.lookup_branch(MAIN)

    assert refusal.value.kind == "serialization"


@pytest.mark.parametrize("name", ["", ".", "..", "v1.json"])
def test_a_draft_branch_can_not_be_named_like_a_tag_or_a_folder(
    storage: Storage, name: str
) -> None:
    repository = create_repository(storage, Dialect.DRAFT)

    with pytest.raises(InvalidInputError) as refusal:
        repository.create_branch(name, repository.lookup_branch(MAIN))

    assert refusal.value.kind == "invalid-ref-name"


def test_a_draft_keeps_branches_and_tags_apart(storage: Storage) -> None:
    repository = create_repository(storage, Dialect.DRAFT)
    tip = commit(repository)

    repository.create_branch("spring", tip)
    repository.create_tag("spring", tip)
    repository.create_tag(MAIN, tip)

    assert repository.list_branches() == {MAIN, "spring"}
    assert repository.list_tags() == {MAIN, "spring"}


class InterruptedStorage(MemoryStorage):
    """A storage that deletes once, and no more."""

    deletions = 0

    def delete_many(self, keys: object) -> DeleteReport:
        self.deletions += 1
        if self.deletions > 1:
            raise KeyboardInterrupt
        return super().delete_many(keys)  # type: ignore[arg-type]


def test_a_branch_that_is_half_deleted_points_where_it_did() -> None:
    storage = InterruptedStorage()
    repository = create_repository(storage, Dialect.ALPHA_H)
    repository.create_branch("spring", repository.lookup_branch(MAIN))
    tip = commit(repository, "spring")

    with pytest.raises(KeyboardInterrupt):
        repository.delete_branch("spring")

    assert open_as(storage, Dialect.ALPHA_H).lookup_branch("spring") == tip


@pytest.mark.parametrize("key", ["f/ZZZZZZZZ.json", "f/ZZZZZZWV.json", "f/ZZZZZZZZZZZZY.json"])
def test_a_sequence_file_is_its_key(key: str) -> None:
    file = SequenceFile.find(key)

    assert file is not None
    assert file.key == key
    assert file.next.number == file.number + 1
