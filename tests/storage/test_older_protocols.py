"""Old generations in an object store, whose responses get lost."""

from collections.abc import Iterator

import pytest

from frazil.format.header import Dialect
from frazil.protocols.detection import create_repository, open_protocol
from frazil.protocols.protocol import MAIN
from frazil.testing.object_server import LoseResponse, ObjectServer, Rule
from tests.protocol_repositories import OLDER, commit, messages
from tests.storage.object_stores import make_s3


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as running:
        yield running


@pytest.mark.parametrize("dialect", OLDER)
def test_refs_and_commits_land_once_though_answers_get_lost(
    server: ObjectServer, dialect: Dialect
) -> None:
    storage = make_s3(server.url, prefix=f"folder/{dialect.value}")
    server.inject([Rule(LoseResponse(), method="PUT", probability=0.3)], seed=7)
    repository = create_repository(storage, dialect)

    for number in range(4):
        tip = commit(repository, message=f"change {number}")
        repository.create_branch(f"branch {number}", tip)
        repository.create_tag(f"tag {number}", tip)
    repository.delete_branch("branch 0")

    opened = open_protocol(storage)
    assert messages(opened) == [f"change {number}" for number in (3, 2, 1, 0)]
    assert opened.list_branches() == {MAIN, *(f"branch {number}" for number in (1, 2, 3))}
    assert opened.list_tags() == {f"tag {number}" for number in range(4)}
