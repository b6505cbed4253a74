"""The ops log of a V2 repository: its newest page is in the repo info, the others in its backups.

An update that is overtaken by another gets the name of the backup in which it was the newest. A page
is full at so many updates; what would be too much is found in the backup of the first that is left
out, which also has all those before it.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from frazil.format.overlays import prepend
from frazil.format.repo_info import RepoInfo, Update, UpdateType
from frazil.format.times import Nanoseconds

BACKUPS = "overwritten"
"""The folder of the backups."""

_LAST_MILLISECOND = 32_503_680_000_000
"""The year 3000: counted down from, so that the newest backup is listed first."""


def backup_name(now: Nanoseconds, id: str) -> str:
    """The name of a backup, unique by its id."""
    return f"repo.{_LAST_MILLISECOND - now // 1_000_000:014}.{id}"


def newest_time(info: RepoInfo) -> Nanoseconds:
    """When the repository was last updated."""
    return info.latest_updates[0].updated_at if info.latest_updates else 0


def record_update(
    info: RepoInfo,
    kind: UpdateType,
    time: Nanoseconds,
    *,
    backup: str,
    num_updates_per_file: int,
) -> RepoInfo:
    """The repo info with one more update, where `backup` is what it was before."""
    overtaken = (replace(update, backup_path=backup) for update in info.latest_updates[:1])
    updates = prepend((Update(kind, time), *overtaken), info.latest_updates[1:])
    # Updates that never had a backup, as a migration makes them up, are nowhere else: they stay.
    for index in range(num_updates_per_file, len(updates)):
        left_out = updates[index].backup_path
        if left_out is not None:
            return replace(info, latest_updates=updates[:index], repo_before_updates=left_out)
    return replace(info, latest_updates=updates)


def read_updates(info: RepoInfo, find_backup: Callable[[str], RepoInfo | None]) -> Iterator[Update]:
    """All updates, newest first, reading backups as they are reached; one that is gone ends them."""
    yield from info.latest_updates
    visited: set[str] = set()
    name = info.repo_before_updates
    while name is not None and name not in visited:
        visited.add(name)
        page = find_backup(name)
        if page is None:
            return
        for update in page.latest_updates:
            yield update if update.backup_path is not None else replace(update, backup_path=name)
        name = page.repo_before_updates
