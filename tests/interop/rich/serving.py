"""The same in the child process, with the official library."""

from pathlib import Path
from typing import Any

import icechunk

from tests.interop.rich import reading, writing


def write_rich_repository(
    directory: str, files: str, spec_version: int, inline_bytes: int, split: int
) -> None:
    """Write it with the official library."""
    storage = icechunk.local_filesystem_storage(directory)
    writing.write_rich_repository(
        icechunk, storage, Path(files), spec_version, inline_bytes=inline_bytes, split=split
    )


def read_rich_repository(directory: str, files: str) -> dict[str, Any]:
    """Read it with the official library."""
    storage = icechunk.local_filesystem_storage(directory)
    return reading.read_rich_repository(icechunk, storage, Path(files))
