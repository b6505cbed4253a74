"""Names of refs as parts of keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ConflictError, FormatError, InvalidInputError
from frazil.format.header import Dialect
from frazil.protocols.detection import create_repository
from frazil.protocols.protocol import MAIN, CommitProtocol
from frazil.protocols.v1_protocol import RefSpelling, encode_name
from frazil.storage.interface import Storage
from frazil.storage.memory import MemoryStorage
from tests.protocol_repositories import commit, open_as

ENCODED, PLAIN = RefSpelling(is_encoded=True), RefSpelling(is_encoded=False)

names = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("main", "main"),
        (" !$&'()+,-.0:;=@A_a", " !$&'()+,-.0:;=@A_a"),
        ('"#%*<>?[\\]^`{|}~', "%22%23%25%2A%3C%3E%3F%5B%5C%5D%5E%60%7B%7C%7D%7E"),
        ("\x00\n\x7f", "%00%0A%7F"),
        ("é", "%C3%A9"),
    ],
)
def test_names_are_encoded_as_the_official_library_does(name: str, spelled: str) -> None:
    assert encode_name(name) == spelled


@given(names)
def test_an_encoded_name_is_read_as_it_was(name: str) -> None:
    assert ENCODED.read(ENCODED.spell(name)[0]) == name


@given(names.filter(lambda name: "\0" not in name))
def test_a_plain_name_is_read_as_it_was(name: str) -> None:
    assert PLAIN.read(PLAIN.spell(name)[0]) == name


@given(names)
def test_both_spellings_are_looked_for(name: str) -> None:
    assert set(ENCODED.spell(name)) == set(PLAIN.spell(name))


def test_what_nobody_encodes_so_is_taken_as_it_is() -> None:
    assert ENCODED.read("a%b") == "a%b"
    assert ENCODED.read("a%20b") == "a%20b"
    assert ENCODED.read("%ff") == "%ff"
    assert PLAIN.read("%C3%A9") == "%C3%A9"


def test_a_slash_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        ENCODED.spell("a/b")


class PlainNames(MemoryStorage):
    """A storage where the official library leaves names as they are: S3."""

    @property
    def has_encoded_names(self) -> bool:
        return False


@pytest.fixture
def repository(storage: Storage) -> CommitProtocol:
    return create_repository(storage, Dialect.V1)


def keys(storage: Storage, prefix: str = "") -> set[str]:
    return {info.key for info in storage.list(prefix)}


# Refs


def test_a_commit_replaces_the_file_of_the_branch(
    storage: Storage, repository: CommitProtocol
) -> None:
    tip = commit(repository)

    assert keys(storage, "refs/") == {"refs/branch.main/ref.json"}
    assert bytes(storage.get("refs/branch.main/ref.json")) == (
        b'{"snapshot":"%s"}' % str(tip).encode()
    )


def test_a_deleted_tag_keeps_its_file_beside_an_empty_one(
    storage: Storage, repository: CommitProtocol
) -> None:
    repository.create_tag("release", repository.lookup_branch(MAIN))

    repository.delete_tag("release")

    assert keys(storage, "refs/tag") == {
        "refs/tag.release/ref.json",
        "refs/tag.release/ref.json.deleted",
    }
    assert bytes(storage.get("refs/tag.release/ref.json.deleted")) == b""


def test_a_deleted_branch_leaves_no_file(storage: Storage, repository: CommitProtocol) -> None:
    repository.create_branch("spring", repository.lookup_branch(MAIN))

    repository.delete_branch("spring")

    assert keys(storage, "refs/") == {"refs/branch.main/ref.json"}


def test_the_empty_name_is_a_name(storage: Storage, repository: CommitProtocol) -> None:
    repository.create_branch("", repository.lookup_branch(MAIN))
    repository.create_tag("", repository.lookup_branch(MAIN))

    assert repository.list_branches() == {MAIN, ""}
    assert repository.list_tags() == {""}
    assert "refs/branch./ref.json" in keys(storage)


def test_names_are_spelled_as_the_official_library_finds_them(
    storage: Storage, repository: CommitProtocol
) -> None:
    plain = PlainNames()
    elsewhere = create_repository(plain, Dialect.V1)

    for place in (repository, elsewhere):
        place.create_branch("é~", place.lookup_branch(MAIN))

    assert "refs/branch.%C3%A9%7E/ref.json" in keys(storage)
    assert "refs/branch.é~/ref.json" in keys(plain)


@pytest.mark.parametrize("spelled", ["é", "%C3%A9"])
def test_a_branch_in_either_spelling_is_moved_where_it_is(
    storage: Storage, repository: CommitProtocol, spelled: str
) -> None:
    storage.put(f"refs/branch.{spelled}/ref.json", storage.get("refs/branch.main/ref.json"))

    tip = commit(repository, "é")

    assert repository.list_branches() == {MAIN, "é"}
    assert repository.lookup_branch("é") == tip
    assert keys(storage, "refs/") == {
        "refs/branch.main/ref.json",
        f"refs/branch.{spelled}/ref.json",
    }
    repository.delete_branch("é")
    assert repository.list_branches() == {MAIN}


def test_a_tag_in_the_other_spelling_is_taken(storage: Storage, repository: CommitProtocol) -> None:
    first = repository.lookup_branch(MAIN)
    storage.put("refs/tag.é/ref.json", storage.get("refs/branch.main/ref.json"))

    with pytest.raises(Exception, match="é"):
        repository.create_tag("é", first)

    assert repository.list_tags() == {"é"}
    repository.delete_tag("é")
    assert repository.list_tags() == set()


def test_a_damaged_ref_names_its_file(storage: Storage, repository: CommitProtocol) -> None:
    storage.put("refs/branch.main/ref.json", b'{"snapshot":"ZZ"}')

    with pytest.raises(FormatError, match=r"refs/branch\.main/ref\.json") as refusal:
        repository.lookup_branch(MAIN)

    assert refusal.value.kind == "serialization"


# Configuration


def test_a_configuration_is_saved_and_read_by_others(
    storage: Storage, repository: CommitProtocol
) -> None:
    assert repository.read_config() is None

    repository.write_config({"inline_chunk_threshold_bytes": 12})

    assert open_as(storage, Dialect.V1).read_config() == {"inline_chunk_threshold_bytes": 12}
    assert keys(storage, "overwritten/") == set()


def test_a_configuration_that_is_overwritten_is_kept(
    storage: Storage, repository: CommitProtocol
) -> None:
    repository.write_config({"inline_chunk_threshold_bytes": 12})
    before = bytes(storage.get("config.yaml"))

    repository.write_config({"inline_chunk_threshold_bytes": 13})
    open_as(storage, Dialect.V1).write_config({"inline_chunk_threshold_bytes": 14})

    backups = keys(storage, "overwritten/config.yaml.")
    assert len(backups) == 2
    assert before in {bytes(storage.get(key)) for key in backups}
    assert repository.read_config() == {"inline_chunk_threshold_bytes": 14}


@pytest.mark.parametrize("is_first", [True, False])
def test_a_configuration_that_others_saved_since_is_not_overwritten(
    storage: Storage, repository: CommitProtocol, is_first: bool
) -> None:
    if not is_first:
        repository.write_config({})
    ours, theirs = open_as(storage, Dialect.V1), open_as(storage, Dialect.V1)
    ours.read_config()
    theirs.read_config()
    theirs.write_config({"inline_chunk_threshold_bytes": 12})

    with pytest.raises(ConflictError) as refusal:
        ours.write_config({"inline_chunk_threshold_bytes": 13})

    assert refusal.value.kind == "config-updated"
    assert ours.read_config() == {"inline_chunk_threshold_bytes": 12}
    ours.write_config({"inline_chunk_threshold_bytes": 13})
