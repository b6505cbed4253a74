"""V1 repositories in an object store that both libraries write to, where names stay as they are."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from frazil.format.header import Dialect
from frazil.format.ids import FIRST_SNAPSHOT_ID
from frazil.protocols.detection import create_repository, open_protocol
from frazil.protocols.protocol import MAIN
from frazil.testing.object_server import ObjectServer
from tests.interop.official_library import ROOT, find_python
from tests.protocol_repositories import commit, messages
from tests.storage.object_stores import ACCESS_KEY, SECRET_KEY, make_s3

WORK = """
import json, sys
import icechunk, zarr

url, key, secret = sys.argv[1:]
storage = icechunk.s3_storage(
    bucket="bucket", prefix="folder/repository", endpoint_url=url, allow_http=True,
    force_path_style=True, region="us-east-1", access_key_id=key, secret_access_key=secret,
)
repository = icechunk.Repository.open(storage)
found = repository.lookup_branch("ours é☃~")
for path in ("one", "two"):
    session = repository.writable_session("main")
    zarr.open_group(session.store, mode="a").create_group(path)
    session.commit(f"theirs {path}")
repository.create_branch("theirs é☃~", found)
repository.create_tag("theirs é☃~", found)
print(json.dumps([found, sorted(repository.list_branches()), sorted(repository.list_tags())]))
"""


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as running:
        yield running


def work(server: ObjectServer) -> Any:
    """What the official library says after some work on the repository."""
    answer = subprocess.run(
        [find_python(), "-c", WORK, server.url, ACCESS_KEY, SECRET_KEY],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_both_commit_and_find_refs_of_any_name(server: ObjectServer) -> None:
    ours = create_repository(make_s3(server.url), Dialect.V1)
    ours.create_branch("ours é☃~", FIRST_SNAPSHOT_ID)
    ours.create_tag("ours é☃~", FIRST_SNAPSHOT_ID)
    commit(ours, message="ours")

    found, branches, tags = work(server)

    opened = open_protocol(make_s3(server.url))
    assert found == str(FIRST_SNAPSHOT_ID)
    assert set(branches) == opened.list_branches() == {MAIN, "ours é☃~", "theirs é☃~"}
    assert set(tags) == opened.list_tags() == {"ours é☃~", "theirs é☃~"}
    assert opened.lookup_tag("theirs é☃~") == FIRST_SNAPSHOT_ID
    assert messages(opened) == ["theirs two", "theirs one", "ours"]
