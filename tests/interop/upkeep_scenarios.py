"""Upkeep of a repository on the local disk, by whichever library is given: both have one interface.

This module knows neither library. Steps and answers are plain values, so that they can be sent to the
child process.
"""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import zarr

Library = Any
"""The module `icechunk`, or `frazil`."""

Step = list[Any]
"""The name of an operation, then its arguments."""

# Longer than the time between two ticks of a disk's clock.
_PAUSE_SECONDS = 0.006


def open_repository(library: Library, path: str, num_chunks: int | None = None) -> Any:
    """A repository on the disk, perhaps with manifests of so many chunks along every axis."""
    config = library.RepositoryConfig()
    if num_chunks is not None:
        sizes = {library.ManifestSplitDimCondition.Any(): num_chunks}
        rules = {library.ManifestSplitCondition.AnyArray(): sizes}
        splitting = library.ManifestSplittingConfig.from_dict(rules)
        config.manifest = library.ManifestConfig(splitting=splitting)
    return library.Repository.open(library.local_filesystem_storage(path), config)


# Writing


def write_history(library: Library, path: str, spec_version: int, seed: int) -> list[datetime]:
    """Make a repository of random commits and refs; gives moments before, between and after them."""
    chance = random.Random(seed)
    config = library.RepositoryConfig(inline_chunk_threshold_bytes=chance.choice((0, 8, 100)))
    storage = library.local_filesystem_storage(path)
    repository = library.Repository.create(storage, config, spec_version=spec_version)
    moments = [_pass_time()]
    for number in range(chance.randrange(7, 15)):
        _CHANGES[chance.randrange(len(_CHANGES))](repository, chance, number)
        moments.append(_pass_time())
    return moments


def _pass_time() -> datetime:
    time.sleep(_PAUSE_SECONDS)
    now = datetime.now(UTC)
    time.sleep(_PAUSE_SECONDS)
    return now


def _some_branch(repository: Any, chance: random.Random) -> str:
    return str(chance.choice(sorted(repository.list_branches())))


def _some_snapshot(repository: Any, chance: random.Random) -> str:
    branch = _some_branch(repository, chance)
    return str(chance.choice([info.id for info in repository.ancestry(branch=branch)]))


def edit(repository: Any, branch: str, number: int) -> Any:
    """A session with one chunk of an array written."""
    session = repository.writable_session(branch)
    root = zarr.open_group(session.store, mode="a")
    if "numbers" not in root:
        root.create_array("numbers", shape=(12,), chunks=(2,), dtype="int64", compressors=None)
    array: Any = root["numbers"]
    at = number % 6 * 2
    array[at : at + 2] = number + 1
    return session


def _commit(repository: Any, chance: random.Random, number: int) -> None:
    session = edit(repository, _some_branch(repository, chance), number)
    session.commit(f"commit {number}", metadata={"number": number})


def _flush(repository: Any, chance: random.Random, number: int) -> None:
    edit(repository, _some_branch(repository, chance), number).flush(f"flush {number}")


def _abandon(repository: Any, chance: random.Random, number: int) -> None:
    edit(repository, _some_branch(repository, chance), number)


def _amend(repository: Any, chance: random.Random, number: int) -> None:
    branch = _some_branch(repository, chance)
    is_first = len(list(repository.ancestry(branch=branch))) == 1
    if repository.spec_version == 1 or is_first:
        return _commit(repository, chance, number)
    edit(repository, branch, number).amend(f"amend {number}")
    return None


def _branch(repository: Any, chance: random.Random, number: int) -> None:
    repository.create_branch(f"branch{number}", _some_snapshot(repository, chance))


def _tag(repository: Any, chance: random.Random, number: int) -> None:
    repository.create_tag(f"tag{number}", _some_snapshot(repository, chance))


def _reset(repository: Any, chance: random.Random, _: int) -> None:
    branch = _some_branch(repository, chance)
    repository.reset_branch(branch, _some_snapshot(repository, chance))


def _delete(repository: Any, chance: random.Random, _: int) -> None:
    tags, branches = repository.list_tags(), repository.list_branches() - {"main"}
    if tags and chance.random() < 0.5:
        repository.delete_tag(chance.choice(sorted(tags)))
    elif branches:
        repository.delete_branch(chance.choice(sorted(branches)))


_CHANGES: tuple[Callable[[Any, random.Random, int], None], ...] = (
    *(_commit,) * 7, _flush, _abandon, _amend, _branch, _branch, _tag, _tag, _reset, _delete,
)  # fmt: skip


# Upkeep


def maintain(library: Library, path: str, step: Step) -> Any:
    """What one operation answers."""
    name, *arguments = step
    return _OPERATIONS[name](library, path, *arguments)


def _expire(
    library: Library, path: str, older_than: datetime, branches: bool, tags: bool
) -> list[str]:
    repository = open_repository(library, path)
    released = repository.expire_snapshots(
        older_than, delete_expired_branches=branches, delete_expired_tags=tags
    )
    return sorted(released)


def _collect(library: Library, path: str, older_than: datetime, dry_run: bool) -> dict[str, Any]:
    summary = open_repository(library, path).garbage_collect(older_than, dry_run=dry_run)
    return {name: getattr(summary, name) for name in _SUMMARY}


_SUMMARY = (
    "bytes_deleted", "chunks_deleted", "manifests_deleted", "snapshots_deleted",
    "attributes_deleted", "transaction_logs_deleted", "objects_failed_to_delete",
    "throttled_batches", "delete_errors", "skipped_phases",
)  # fmt: skip


def _measure(library: Library, path: str) -> list[int]:
    stats = open_repository(library, path).chunk_storage_stats()
    return [stats.native_bytes, stats.virtual_bytes, stats.inlined_bytes]


def _rewrite(library: Library, path: str, num_chunks: int, commit_method: str) -> dict[str, Any]:
    repository = open_repository(library, path, num_chunks)
    id = repository.rewrite_manifests(
        "rewritten", branch="main", metadata={"by": "a test"}, commit_method=commit_method
    )
    snapshot = repository.inspect_snapshot(id)
    log = repository.inspect_transaction_log(id)
    return {
        "is_tip": id == repository.lookup_branch("main"),
        "metadata": snapshot["metadata"],
        "extents": [
            [ref["extents"] for ref in node.get("manifest_refs", [])] for node in snapshot["nodes"]
        ],
        "counts": sorted(file["num_chunk_refs"] for file in snapshot["manifests"]),
        "log": {name: value for name, value in log.items() if name != "header"},
    }


def _migrate(library: Library, path: str, dry_run: bool, deletes_files: bool) -> dict[str, Any]:
    old = open_repository(library, path, 3)
    new = library.upgrade_icechunk_repository(
        old, dry_run=dry_run, delete_unused_v1_files=deletes_files
    )
    return {
        "version": int(new.spec_version),
        "threshold": new.config.inline_chunk_threshold_bytes,
        "is_split": new.config.manifest is not None,
        "old": _say(lambda: sorted(old.list_branches())),
    }


def _say(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except RuntimeError as error:
        return type(error).__name__


def _refuse(library: Library, path: str, method: str, *arguments: Any) -> list[str] | None:
    """The error of a call that can't be done."""
    try:
        maintain(library, path, [method, *arguments])
    except (library.IcechunkError, TypeError, ValueError) as error:
        return [type(error).__name__, str(getattr(error, "kind", ""))]
    return None


def _set_status(library: Library, path: str, availability: str) -> None:
    status = library.RepoStatus(getattr(library.RepoAvailability, availability))
    open_repository(library, path).set_status(status)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "expire": _expire,
    "collect": _collect,
    "measure": _measure,
    "rewrite": _rewrite,
    "migrate": _migrate,
    "refuse": _refuse,
    "set_status": _set_status,
}


# Reading


def describe_history(library: Library, path: str) -> dict[str, Any]:
    """Refs with their ancestors and the values that they lead to, and the kinds of updates."""
    repository = open_repository(library, path)
    branches = {name: _describe(repository, branch=name) for name in repository.list_branches()}
    tags = {name: _describe(repository, tag=name) for name in repository.list_tags()}
    updates = list(repository.ops_log()) if repository.spec_version == 2 else []
    return {
        "branches": branches,
        "tags": tags,
        "updates": [type(update.kind).__name__.removeprefix("UpdateType_") for update in updates],
    }


def _describe(repository: Any, **ref: str) -> dict[str, Any]:
    ancestors = [[i.id, i.parent_id, i.message, i.metadata] for i in repository.ancestry(**ref)]
    store = repository.readonly_session(**ref).store
    values = _read(store) if len(ancestors) > 1 else None
    return {"ancestors": ancestors, "values": values}


def _read(store: Any) -> Any:
    array: Any = zarr.open_array(store, path="numbers", mode="r")
    return array[:].tolist()


def commit_again(library: Library, path: str, number: int) -> str:
    """One more commit to `main`."""
    return str(edit(open_repository(library, path), "main", number).commit(f"again {number}"))
