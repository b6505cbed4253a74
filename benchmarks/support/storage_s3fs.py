"""What `benchmarks/storage.py` measures of s3fs, in an environment that has it."""

import os

import s3fs

from benchmarks.support.measuring import Figures, answer
from benchmarks.support.storage_rounds import take_turns

OBJECTS = 16


def read(server: dict[str, str], size: int, at_once: int, operations: int) -> Figures:
    """Whole objects."""
    files = _open(**server)
    names = [f"{server['bucket']}/s3fs/{size}/{number}" for number in range(OBJECTS)]
    for name in names:
        files.pipe_file(name, os.urandom(size))
    return take_turns(
        {"s3fs": lambda number: files.cat_file(names[number % OBJECTS])},
        operations=operations,
        size=size,
        at_once=at_once,
    )


def write(server: dict[str, str], size: int, at_once: int, operations: int) -> Figures:
    """Objects, over older ones."""
    files = _open(**server)
    data = os.urandom(size)
    return take_turns(
        {
            "s3fs": lambda number: files.pipe_file(
                f"{server['bucket']}/s3fs/{number % OBJECTS}", data
            )
        },
        operations=operations,
        size=size,
        at_once=at_once,
    )


def _open(url: str, key: str, secret: str, **_: str) -> s3fs.S3FileSystem:
    return s3fs.S3FileSystem(key=key, secret=secret, client_kwargs={"endpoint_url": url})


if __name__ == "__main__":
    answer({"read": read, "write": write})
