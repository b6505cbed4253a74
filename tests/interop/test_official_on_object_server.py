"""The official library commits on the server inside this process, where Frazil sees its objects."""

import subprocess
from collections.abc import Iterator

import pytest

from frazil.storage import ByteRange
from frazil.testing.object_server import DoAndRefuse, LoseResponse, ObjectServer, Refuse, Rule
from tests.interop.official_library import ROOT, find_python
from tests.storage.object_stores import ACCESS_KEY, SECRET_KEY, make_s3

COMMIT = """
import sys
import icechunk, numpy, zarr

url, bucket, prefix, key, secret, writers = sys.argv[1:]
storage = icechunk.s3_storage(
    bucket=bucket, prefix=prefix, endpoint_url=url, allow_http=True, force_path_style=True,
    region="us-east-1", access_key_id=key, secret_access_key=secret,
)
repository = icechunk.Repository.open_or_create(storage)
session = repository.writable_session("main")
group = zarr.group(session.store)
array = group.require_array("array", shape=(100,), chunks=(10,), dtype="int64")
session.commit("array", rebase_with=icechunk.ConflictDetector(), allow_empty=True)
for number in range(int(writers)):
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="array")[number * 10 : number * 10 + 10] = number + 1
    session.commit(f"commit {number}")
values = zarr.open_array(repository.readonly_session("main").store, path="array", mode="r")[:]
print(len(list(repository.ancestry(branch="main"))), int(numpy.count_nonzero(values)))
"""


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as running:
        yield running


def commit(server: ObjectServer, prefix: str, writers: int) -> str:
    """What the official library says after some commits."""
    answer = subprocess.run(
        [
            find_python(), "-c", COMMIT, server.url, "bucket", prefix, ACCESS_KEY, SECRET_KEY,
            str(writers),
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


def test_the_official_library_commits_on_it(server: ObjectServer) -> None:
    said = commit(server, "folder/repository", 3)

    storage = make_s3(server.url)
    keys = [info.key for info in storage.list_sorted()]
    assert said == "5 30"
    assert "repo" in keys
    assert sum(key.startswith("snapshots/") for key in keys) == 5
    assert sum(key.startswith("overwritten/repo.") for key in keys) == 4
    assert bytes(storage.get("repo", ByteRange(0, 3))) == b"ICE"
    version = storage.get_versioned("repo").version
    storage.copy("repo", "overwritten/copy", version)


def test_the_official_library_finds_its_way_through_faults(server: ObjectServer) -> None:
    server.inject(
        [
            Rule(Refuse(500), probability=0.05),
            Rule(LoseResponse(), method="PUT", probability=0.05),
            Rule(DoAndRefuse(500), method="PUT", probability=0.05),
        ],
        seed=11,
    )

    assert commit(server, "folder/repository", 3) == "5 30"
