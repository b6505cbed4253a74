"""obstore does not survive a fork: a child that uses it hangs. Here it gets an error instead.

A child of a process that has not used obstore yet is fine, and so is a spawned one.
"""

import os

from frazil.errors import StorageError

_used_by: int | None = None


def enter() -> None:
    """Say that this process uses obstore; raises StorageError if an ancestor already did."""
    global _used_by
    process = os.getpid()
    if _used_by == process:
        return
    if _used_by is not None:
        raise StorageError(
            "this process was forked from one that had already used an object store, and the client "
            "library can't work here: start processes with 'spawn' or 'forkserver', or fork before "
            "the first use of a storage",
            kind="storage-config",
        )
    _used_by = process
