"""The ops log of a V2 repository: its order, its pages and its backups. Pure."""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from itertools import pairwise

from frazil.errors import FormatError
from frazil.format.repo_info import RepoInfo, Update
from frazil.maintenance.checking.problems import Problem, Problems, error, few, note, warning
from frazil.protocols.ops_log import BACKUPS
from frazil.protocols.repo_file import REPO


@dataclass(frozen=True, slots=True)
class Page:
    """A repo info that holds a part of the ops log."""

    key: str
    info: RepoInfo


@dataclass(frozen=True, slots=True)
class OpsLog:
    """The pages that can be read, newest first, and why there are no more."""

    pages: tuple[Page, ...]
    problems: tuple[Problem, ...] = ()

    def backups(self) -> frozenset[str]:
        """The keys of all backups that it names."""
        named = {each.backup_path for page in self.pages for each in page.info.latest_updates}
        named |= {page.info.repo_before_updates for page in self.pages}
        return frozenset(f"{BACKUPS}/{name}" for name in named if name is not None)


def read_pages(info: RepoInfo, find: Callable[[str], RepoInfo | None]) -> OpsLog:
    """All pages, by a function that finds the backup of a name; it may raise FormatError."""
    pages, problems = [Page(REPO, info)], list[Problem]()
    seen: set[str] = set()
    while (name := pages[-1].info.repo_before_updates) is not None:
        key = f"{BACKUPS}/{name}"
        if name in seen:
            problems.append(error(key, "the pages of the ops log go round in a circle"))
            break
        seen.add(name)
        try:
            page = find(name)
        except FormatError as failure:
            problems.append(error(key, f"a page of the ops log can't be read: {failure.message}"))
            break
        if page is None:
            problems.append(
                warning(key, "the backup is gone, and with it the ops log from there on")
            )
            break
        pages.append(Page(key, page))
    return OpsLog(tuple(pages), tuple(problems))


def check_ops_log(log: OpsLog, existing: Container[str], num_updates_per_file: int) -> Problems:
    """The whole log against the objects that there are."""
    yield from log.problems
    for page in log.pages:
        yield from check_page(page, num_updates_per_file)
        yield from _check_backups(page, existing)
    for newer, older in pairwise(log.pages):
        last, first = newer.info.latest_updates[-1:], older.info.latest_updates[:1]
        if last and first and first[0].updated_at >= last[0].updated_at:
            yield error(older.key, "it tells of updates that are younger than those after them")


def check_page(page: Page, num_updates_per_file: int) -> Problems:
    """One page: newest first, and no longer than it should be."""
    updates = page.info.latest_updates
    if not len(updates):
        yield error(page.key, "the ops log is empty, and begins with how the repository was made")
        return
    unordered = [b for a, b in pairwise(updates) if a.updated_at <= b.updated_at]
    if unordered:
        what = "the times of updates do not increase, and the official library refuses to write"
        yield error(page.key, f"{what}: {len(unordered)} are no younger than those before them")
    backed_up = sum(each.backup_path is not None for each in updates)
    if backed_up > max(num_updates_per_file, 1):
        yield note(page.key, f"it has {len(updates)} updates, {num_updates_per_file} make a page")
    if updates[0].backup_path is not None:
        yield warning(page.key, "its newest update has a backup, which is made by the next one")


def _check_backups(page: Page, existing: Container[str]) -> Problems:
    lost = list(_find_lost(page.info, existing))
    problems = (
        warning(key, f"the backup is gone that {page.key} names in its ops log") for key in lost
    )
    yield from few(problems, len(lost), warning(page.key, "backups of its ops log are gone"))


def _find_lost(info: RepoInfo, existing: Container[str]) -> Iterator[str]:
    for update in info.latest_updates:
        key = _backup_key(update)
        if key is not None and key not in existing:
            yield key


def _backup_key(update: Update) -> str | None:
    return None if update.backup_path is None else f"{BACKUPS}/{update.backup_path}"
