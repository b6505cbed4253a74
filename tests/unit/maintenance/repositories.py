"""Repositories for tests of upkeep: a few commits, and something that nothing leads to any more."""

from datetime import UTC, datetime, timedelta

import zarr

from frazil import Repository
from frazil.config import RepositoryConfig

ALL_NATIVE = RepositoryConfig(inline_chunk_threshold_bytes=0)


def later() -> datetime:
    """After everything that was written, also by a clock that knows no fractions of seconds."""
    return datetime.now(UTC) + timedelta(seconds=2)


def write(repository: Repository, value: int, branch: str = "main", path: str = "numbers") -> str:
    """Commit an array of four chunks with one value."""
    session = repository.writable_session(branch)
    zarr.create_array(
        session.store, name=path, shape=(8,), chunks=(2,), dtype="i4", fill_value=-1, overwrite=True
    )[:] = value
    return session.commit(f"{path} are {value}")


def write_chunk(repository: Repository, at: int, value: int, branch: str = "main") -> str:
    """Commit one chunk of the array."""
    session = repository.writable_session(branch)
    zarr.open_array(session.store, path="numbers")[2 * at : 2 * at + 2] = value
    return session.commit(f"chunk {at} is {value}")


def messages(repository: Repository, **ref: str) -> list[str]:
    """Of a ref's commits, newest first."""
    return [info.message for info in repository.ancestry(**ref)]


def keys(repository: Repository, prefix: str = "") -> set[str]:
    """The keys of a repository's files, without backups."""
    found = {info.key for info in repository.storage.list(prefix)}
    return {key for key in found if not key.startswith("overwritten/")}


def written_at(repository: Repository, snapshot_id: str) -> datetime:
    return repository.lookup_snapshot(snapshot_id).written_at
