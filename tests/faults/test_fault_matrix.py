"""Each call by which a verb changes the disk fails once, or is the last one before a loss of power.

A verb that was acknowledged has done its work and a loss of power takes nothing of it away. One that
was not has done all of it or nothing, for every reader and after a loss of power, and can be tried
again.
"""

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import zarr

from frazil import (
    IcechunkError,
    Repository,
    RepositoryConfig,
    RepositoryNotFoundError,
    create_legacy,
    upgrade_icechunk_repository,
)
from frazil.format.header import Dialect
from frazil.storage.local import Durability, LocalStorage
from tests.faults.power_loss import (
    FailingDisk,
    Files,
    PowerLossError,
    kept_by_chance,
    kept_least,
    kept_most,
)
from tests.unit.maintenance.legacy_repositories import contents_of

DEEP = "FRAZIL_DEEP" in os.environ
CHANCES = 10 if DEEP else 1

_ALL = frozenset(Dialect)
_V2 = frozenset((Dialect.V2,))
_OLD = _ALL - _V2
_DIALECTS = list(Dialect) if DEEP else [Dialect.V2, Dialect.V1, Dialect.ALPHA_H, Dialect.DRAFT]
_WITH_CONFIG = _ALL - {Dialect.DRAFT, Dialect.ALPHA_A, Dialect.ALPHA_B}
_NEWER = frozenset((Dialect.V2, Dialect.V1, Dialect.ALPHA_H))
_NEVER_INLINE = RepositoryConfig(inline_chunk_threshold_bytes=0)
_OTHER_CONFIG = RepositoryConfig(inline_chunk_threshold_bytes=3)


# Verbs


@dataclass(frozen=True)
class Verb:
    """One way to change a repository."""

    perform: Callable[[Repository], object]
    dialects: frozenset[Dialect] = _ALL
    is_atomic: bool = True
    """Whether all refs change together."""


def _commit(repository: Repository, message: str, value: int, branch: str = "main") -> str:
    session = repository.writable_session(branch)
    array = zarr.open_array(session.store, path="numbers")
    array[value % 4 : value % 4 + 1] = value
    return session.commit(message)


def _amend(repository: Repository) -> None:
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="numbers")[:1] = 9
    session.amend("amended")


def _first(repository: Repository) -> str:
    return repository.lookup_branch("first")


def _soon() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def _delete_everything_old(repository: Repository) -> None:
    repository.expire_snapshots(_soon(), delete_expired_branches=True)


VERBS = {
    "commit": Verb(lambda each: _commit(each, "new", 7)),
    "amend": Verb(_amend, _V2),
    "create tag": Verb(lambda each: each.create_tag("new", _first(each))),
    "delete tag": Verb(lambda each: each.delete_tag("tag"), _NEWER),
    "create branch": Verb(lambda each: each.create_branch("new", _first(each))),
    "reset branch": Verb(lambda each: each.reset_branch("main", _first(each))),
    "delete branch": Verb(lambda each: each.delete_branch("side")),
    "fast-forward": Verb(lambda each: each.fast_forward("first", "main")),
    "squash": Verb(lambda each: each.squash("main", _first(each), message="one")),
    "cherry-pick": Verb(
        lambda each: each.cherry_pick(each.lookup_branch("side"), onto="main"), _NEWER
    ),
    "rewrite manifests": Verb(lambda each: each.rewrite_manifests("rewritten", branch="main")),
    "expire": Verb(_delete_everything_old, is_atomic=False),
    "collect garbage": Verb(lambda each: each.garbage_collect(_soon())),
    "migrate": Verb(lambda each: upgrade_icechunk_repository(each, dry_run=False), _OLD),
    "save config": Verb(lambda each: each.reopen(_OTHER_CONFIG).save_config(), _WITH_CONFIG),
    "set metadata": Verb(lambda each: each.set_metadata({"a": 2}), _V2),
    "set feature flag": Verb(lambda each: each.set_feature_flag("move_node", False), _V2),
    "protect branch": Verb(lambda each: each.protect_branch("side"), _V2),
}


# Repositories


def _create(storage: LocalStorage, dialect: Dialect) -> Repository:
    if dialect in (Dialect.V1, Dialect.V2):
        return Repository.create(storage, spec_version=1 if dialect is Dialect.V1 else 2)
    return create_legacy(storage, dialect.value)


def _fill(folder: Path, dialect: Dialect) -> None:
    """Write a repository with branches, a tag, garbage, metadata and a configuration."""
    storage = LocalStorage(_storage(folder).path, durability=Durability.NONE)
    repository = _create(storage, dialect).reopen(_NEVER_INLINE)
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="numbers", shape=(4,), chunks=(2,), dtype="i4")[:] = 1
    first = session.commit("first")
    repository.create_branch("first", first)
    repository.create_branch("side", first)
    repository.create_branch("gone", first)
    repository.create_tag("tag", first)
    _commit(repository, "aside", 2, "side")
    _commit(repository, "garbage", 3, "gone")
    repository.delete_branch("gone")
    _commit(repository, "second", 4)
    if dialect in _WITH_CONFIG:
        repository.save_config()
    if dialect is Dialect.V2:
        repository.set_metadata({"a": 1})


@cache
def _template(dialect: Dialect) -> Path:
    folder = Path(_templates().name, dialect.value)
    _fill(folder, dialect)
    return folder


@cache
def _templates() -> "TemporaryDirectory[str]":
    return TemporaryDirectory()


def _storage(folder: Path) -> LocalStorage:
    return LocalStorage(folder / "a" / "b" / "repository")


def _open(folder: Path) -> Repository:
    return Repository.open(_storage(folder), _NEVER_INLINE)


State = dict[str, Any]


def observe(folder: Path) -> State:
    """Read all of a repository; ids and times are left out, since each run has its own."""
    storage = _storage(folder)
    try:
        repository = Repository.open(storage)
    except RepositoryNotFoundError:
        return {}
    lines = {
        f"branch {name}": repository.ancestry(branch=name) for name in repository.list_branches()
    }
    lines |= {f"tag {name}": repository.ancestry(tag=name) for name in repository.list_tags()}

    @cache
    def read(id: str) -> dict[str, Any]:
        return contents_of(repository.readonly_session(snapshot_id=id))

    state: State = {
        name: [(info.message, read(info.id)) for info in line] for name, line in lines.items()
    }
    state["config"] = repository.config
    if repository.dialect is Dialect.V2:
        state["metadata"] = repository.metadata
        state["flags"] = repository.feature_flags()
    return state


# The matrix


@dataclass
class Trial:
    """A verb on a fresh copy of a repository, with one fault."""

    folder: Path
    dialect: Dialect
    disk: FailingDisk
    before: State
    after: State
    verb: Verb
    error: BaseException | None = None
    is_acknowledged: bool = False
    seen: list[tuple[Files, State]] = field(default_factory=list)

    def run(self, perform: Callable[[], object]) -> None:
        """Note whether the verb is acknowledged, and how it fails."""
        self.error, self.is_acknowledged = None, False
        try:
            with self.disk.in_use():
                perform()
            self.is_acknowledged = True
        except (IcechunkError, PowerLossError) as error:
            self.error = error

    def check(self, state: State, where: str) -> None:
        """Raise AssertionError unless a state is what it may be."""
        if self.is_acknowledged:
            assert state == self.after, f"acknowledged, and lost {where}"
        elif self.verb.is_atomic:
            assert state in (self.before, self.after), f"a wrong state {where}"
        else:
            for name in state.keys() | self.before.keys() | self.after.keys():
                allowed = (self.before.get(name), self.after.get(name))
                assert state.get(name) in allowed, f"a wrong state of {name} {where}"

    def survivors(self, chances: int = CHANCES) -> Iterator[tuple[str, State]]:
        """Read what losses of power leave."""
        choices: dict[str, Callable[[], bool]] = {"nothing": kept_least}
        choices |= {"everything": kept_most} if DEEP else {}
        choices |= {f"chance {seed}": kept_by_chance(seed) for seed in range(chances)}
        for name, choose in choices.items():
            files = self.disk.survivors(choose)
            yield f"after a loss of power that keeps {name}", self._observe(files)

    def look(self) -> State:
        """Read the repository as it is."""
        return self._observe(_read_files(self.folder))

    def _observe(self, files: Files) -> State:
        if not DEEP and _has_only_garbage_more(files, _template_files(self.dialect)):
            return self.before
        for seen, state in self.seen:
            if files == seen:
                return state
        target = self.folder.with_name("observed")
        for name, data in files.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(data)
        try:
            self.seen.append((files, observe(target)))
        finally:
            shutil.rmtree(target, ignore_errors=True)
        return self.seen[-1][1]


def _read_files(folder: Path) -> Files:
    paths = (f"{at}/{name}" for at, _, names in os.walk(folder) for name in names)
    return {path.removeprefix(f"{folder}/"): Path(path).read_bytes() for path in paths}


@cache
def _template_files(dialect: Dialect) -> Files:
    return _read_files(_template(dialect))


def _has_only_garbage_more(files: Files, before: Files) -> bool:
    """Tell whether all files are there that were, and besides them only such as no ref leads to."""
    new = files.keys() - before.keys()
    return all(name.split("/")[3] in _CONTENTS or "#" in name for name in new) and all(
        files.get(name) == data for name, data in before.items()
    )


_CONTENTS = ("chunks", "manifests", "snapshots", "transactions", "overwritten", "c", "m", "s")
"""Folders of files that matter only if something refers to them."""


@contextmanager
def _trial(
    tmp_path: Path, dialect: Dialect, verb: Verb, after: State, at: int | None, error: int | None
) -> Iterator[Trial]:
    folder = tmp_path / "world"
    # Links will do: no file is ever changed.
    shutil.copytree(_template(dialect), folder, copy_function=os.link)
    # One generation is enough for the threads of a system that can't sync many files at once.
    disk = FailingDisk(folder, at, error, syncs_at_once=dialect is not Dialect.V1)
    trial = Trial(folder, dialect, disk, _before(dialect), after, verb)
    try:
        yield trial
    finally:
        disk.close()
        shutil.rmtree(folder)


@cache
def _before(dialect: Dialect) -> State:
    return observe(_template(dialect))


def _count_calls(tmp_path: Path, dialect: Dialect, verb: Verb) -> tuple[list[str], State]:
    with _trial(tmp_path, dialect, verb, {}, None, None) as trial:
        repository = _open(trial.folder)
        with trial.disk.in_use():
            verb.perform(repository)
        return trial.disk.calls, observe(trial.folder)


CASES = [(verb, each) for verb in VERBS for each in _DIALECTS if each in VERBS[verb].dialects]
ERRORS = [errno.EIO, errno.ENOSPC] if DEEP else [errno.EIO]


@pytest.mark.parametrize(("name", "dialect"), CASES, ids=str)
def test_a_fault_loses_nothing_that_was_acknowledged(
    tmp_path: Path, name: str, dialect: Dialect
) -> None:
    verb = VERBS[name]
    calls, after = _count_calls(tmp_path, dialect, verb)
    for error in ERRORS:
        for number, call in _chosen(calls):
            for go_on in (
                (_try_again, _collect_garbage) if DEEP or call.endswith("/") else (_try_again,)
            ):
                with _trial(tmp_path, dialect, verb, after, number, error) as trial:
                    repository = _open(trial.folder)
                    trial.run(partial(verb.perform, repository))
                    where = f"where {call!r} failed"
                    trial.check(trial.look(), where)
                    for survivor, state in trial.survivors():
                        trial.check(state, f"{where}, {survivor}")
                    trial.disk.fails_at = None  # threads may have made fewer calls than before
                    go_on(trial, where)


@pytest.mark.parametrize(("name", "dialect"), CASES, ids=str)
def test_a_loss_of_power_leaves_what_was_or_what_is_to_be(
    tmp_path: Path, name: str, dialect: Dialect
) -> None:
    verb = VERBS[name]
    calls, after = _count_calls(tmp_path, dialect, verb)
    for number, call in _chosen(calls):
        with _trial(tmp_path, dialect, verb, after, number, None) as trial:
            trial.run(partial(verb.perform, _open(trial.folder)))
            assert trial.is_acknowledged or isinstance(trial.error, PowerLossError)
            for survivor, state in trial.survivors():
                trial.check(state, f"before {call!r}, {survivor}")


def _chosen(calls: list[str]) -> list[tuple[int, str]]:
    """Choose all calls, or for a quick run the first and the last of those that are alike.

    Alike are those on all files that nothing refers to yet, and those on one directory.
    """
    if DEEP:
        return list(enumerate(calls))
    alike: dict[str, list[int]] = {}
    for number, call in enumerate(calls):
        verb, _, path = call.partition(" ")
        is_directory = path.endswith("/") and not _ID.search(path)
        alike.setdefault(f"{verb} {path}" if is_directory else verb, []).append(number)
    chosen = {number for numbers in alike.values() for number in (numbers[0], numbers[-1])}
    return [(number, calls[number]) for number in sorted(chosen)]


_ID = re.compile(r"[0-9A-Z]{8}")


def _try_again(trial: Trial, where: str) -> None:
    """Perform the verb again, or commit on top of what it did: that is acknowledged and kept."""
    repository = _open(trial.folder)
    is_done = trial.is_acknowledged or trial.look() != trial.before
    if is_done:
        trial.run(lambda: _commit(repository, "later", 6))
    else:
        trial.run(lambda: trial.verb.perform(repository))
    if trial.error is not None:
        raise trial.error
    now = trial.look()
    for survivor, state in trial.survivors(0):
        kept, wanted = (state.get("branch main"), now["branch main"]) if is_done else (state, now)
        assert kept == wanted, f"tried again {where}, {survivor}"


def _collect_garbage(trial: Trial, where: str) -> None:
    """Delete what is garbage by what can be seen: nothing that a loss of power brings back needs it."""
    repository = _open(trial.folder)
    trial.run(lambda: repository.garbage_collect(_soon()))
    if trial.error is not None:
        raise trial.error
    now = trial.look()
    for survivor, state in trial.survivors():
        assert state == now, f"collected garbage {where}, {survivor}"
