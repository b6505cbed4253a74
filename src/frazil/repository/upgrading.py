"""Bringing a repository to the newest generation of the format."""

from typing import NoReturn

from frazil.engine import opening
from frazil.errors import InvalidInputError
from frazil.maintenance.migrating import MigrationOptions, migrate_to_v2
from frazil.repository.repository import Repository

_DEFAULT_CONCURRENCY = 64


class _Outdated:
    """Stands for what a repository object had open before it was migrated."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(
            "this Repository was invalidated by upgrade_icechunk_repository: use the object that it"
            " returned"
        )


def upgrade_icechunk_repository(
    repo: Repository,
    *,
    dry_run: bool,
    delete_unused_v1_files: bool = True,
    prefetch_concurrency: int | None = None,
) -> Repository:
    """Migrate a repository of any older generation to V2 while nobody else uses it, and open it anew.

    Of a V1 repository only refs and the saved configuration are rewritten, so it takes seconds unless
    the history is very long. Of those from before V1 all metadata is: commits get new ids, with the
    old ones in their metadata. Their chunks stay where they are, but the draft's are copied.

    Broken off anywhere, it leaves a repository that can be opened, as what it was or as V2. A second
    call goes on; of a repository from before V1 it also deletes old files that were left. Raises
    SessionStateError where there is nothing to do.

    The given object can't be used afterwards; the new one has the saved configuration and
    is authorized to read no containers. A dry run changes nothing.
    """
    opened = repo._repository
    concurrency = _DEFAULT_CONCURRENCY if prefetch_concurrency is None else prefetch_concurrency
    if concurrency < 1:
        raise InvalidInputError(f"prefetch_concurrency is {concurrency}, and must be at least 1")
    options = MigrationOptions(
        dry_run, deletes_old_files=delete_unused_v1_files, max_concurrent_snapshots=concurrency
    )
    migrate_to_v2(opened.protocol, options)
    if not dry_run:
        repo._repository = _Outdated()  # type: ignore[assignment]  # whose use is an error
    return Repository(opening.open_repository(opened.storage, attribution=opened.attribution))
