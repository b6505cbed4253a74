"""What `benchmarks/storage.py` needs besides Frazil: an S3 server, and an environment with s3fs."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.support.measuring import ROOT
from tests.storage.object_stores import ACCESS_KEY, SECRET_KEY
from tests.storage.servers import run_seaweedfs

_BUCKET = "bucket"


@contextlib.contextmanager
def run_s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """A real server on the loopback interface, for as long as it is needed."""
    with run_seaweedfs(folder, _BUCKET) as url:
        yield {"url": url, "bucket": _BUCKET, "key": ACCESS_KEY, "secret": SECRET_KEY}


def find_s3fs_python() -> str:
    """An interpreter that has s3fs; an environment is made if there is none."""
    environment = ".venv-bench"
    command = [str(ROOT / "scripts" / "environment"), environment, "--without-project"]
    subprocess.run([sys.executable, *command, "--groups", "bench"], check=True, cwd=ROOT)
    return str(ROOT / environment / "bin" / "python")
