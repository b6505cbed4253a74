"""Servers that several modules of this lane use."""

from collections.abc import Iterator

import pytest

from tests.storage.object_stores import make_s3, wait_until_writable
from tests.storage.servers import ServerMissing, run_seaweedfs, skip_or_fail


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server with one bucket, which wants credentials."""
    try:
        with run_seaweedfs(tmp_path_factory.mktemp("seaweedfs"), "bucket") as url:
            wait_until_writable(make_s3(url))
            yield url
    except ServerMissing as missing:
        skip_or_fail(missing)
