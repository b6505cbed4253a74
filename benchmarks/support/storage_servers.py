"""What `benchmarks/storage.py` needs besides Frazil: an S3 server."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.storage.object_stores import ACCESS_KEY, SECRET_KEY
from tests.storage.servers import run_seaweedfs

_BUCKET = "bucket"


@contextlib.contextmanager
def run_s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """A real server on the loopback interface, for as long as it is needed."""
    with run_seaweedfs(folder, _BUCKET) as url:
        yield {"url": url, "bucket": _BUCKET, "key": ACCESS_KEY, "secret": SECRET_KEY}
