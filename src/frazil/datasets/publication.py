"""Publish an audit branch, by fast-forward or merged with others, and notify others of a run."""

import json
import logging
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen
from uuid import uuid4

import numpy as np
import zarr
from numpy.typing import NDArray

from frazil.datasets.declaration import Declaration, Notify
from frazil.datasets.guards import Version, read_version
from frazil.display import to_plain
from frazil.errors import ConflictError, DivergedError, RefNotFoundError, SetupError
from frazil.format.ids import SnapshotId
from frazil.format.manifest import ChunkTable
from frazil.maintenance.leases import leased, list_leases
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.spark.ingestion.ledger import Entry, write_ledger
from frazil.storage.clients import redact
from frazil.virtual.combine_plan import join

AUDIT = "frazil-audit-"
"""Prefix of the branches that runs write to before they publish."""
BACKFILL = "frazil-backfill-"
"""Prefix of the branches of backfills."""
_TRIES = 20
"""Maximum attempts after others published meanwhile."""


@contextmanager
def auditing(repository: Repository, branch: str, run: str) -> Iterator[str]:
    """Provide a branch at the tip of the published one, and delete it at the end."""
    name = f"{AUDIT}{run}"
    _delete_abandoned(repository)
    with leased(repository.storage, run, "run"):
        repository.create_branch(name, repository.lookup_branch(branch))
        try:
            yield name
        finally:
            with suppress(RefNotFoundError):
                repository.delete_branch(name)


def _delete_abandoned(repository: Repository) -> None:
    """Delete the branches of runs that were killed: nobody holds a lease of theirs."""
    names = [each for each in repository.list_branches() if each.startswith(AUDIT)]
    if not names:
        return
    now = datetime.now(UTC)
    held = {each.id for each in list_leases(repository.storage) if each.holds_at(now)}
    for name in names:
        if name.removeprefix(AUDIT) not in held:
            with suppress(RefNotFoundError):
                repository.delete_branch(name)


def new_run_id() -> str:
    """Return the id of a run."""
    return uuid4().hex[:12]


def publish(
    repository: Repository,
    declaration: Declaration,
    audit: str,
    base: Version,
    accept: Callable[[Version, Version], None],
) -> str:
    """Move the published branch to what the audit branch has, and return its snapshot.

    If others published since `base`, their version and that of the audit branch are merged first, and
    `accept` is called with the published and the merged version; it raises for one that must not be
    published. Raises ConflictError if they can't be merged.
    """
    for _ in range(_TRIES):
        try:
            return repository.fast_forward(declaration.branch, audit)
        except DivergedError:
            pass
        except ConflictError:
            continue
        tip = repository.lookup_branch(declaration.branch)
        ours = read_version(repository.readonly_session(audit), declaration)
        merged = _merge(repository, declaration, tip, ours, base)
        theirs = read_version(repository.readonly_session(snapshot_id=tip), declaration)
        repository.reset_branch(audit, merged)
        accept(theirs, read_version(repository.readonly_session(audit), declaration))
        base = theirs
    raise ConflictError(
        message=f"others published to {declaration.branch} {_TRIES} times meanwhile"
    )


def _merge(
    repository: Repository, declaration: Declaration, tip: str, ours: Version, base: Version
) -> str:
    """Write what changed from `base` to `ours` on top of a snapshot, and return the new one."""
    name = f"{AUDIT}{new_run_id()}"
    repository.create_branch(name, tip)
    try:
        session = repository.writable_session(name)
        theirs = read_version(session, declaration)
        _Merge(repository, declaration, session, base, ours, theirs).run()
        if not session.has_uncommitted_changes:
            return tip
        return session.commit(f"merge {ours.snapshot_id} into {tip}")
    finally:
        repository.delete_branch(name)


@dataclass(frozen=True, slots=True, eq=False)
class _Merge:
    """Three versions of a group, and a session of theirs that gets what is ours."""

    repository: Repository
    declaration: Declaration
    session: Session
    base: Version
    ours: Version
    theirs: Version

    def run(self) -> None:
        self._require_equal_axes()
        own = _find_new(self.base, self.ours)
        other = _find_new(self.base, self.theirs)
        # A source that both ingested is as the published version has it.
        keys = {(each.group, each.source) for each in other}
        own = [each for each in own if (each.group, each.source) not in keys]
        source = self.repository.readonly_session(snapshot_id=self.ours.snapshot_id)
        mine = self._changed_chunks(self.ours)
        published = self._changed_chunks(self.theirs)
        for name in self.ours.arrays:
            path = "/" + join(self.declaration.group, name)
            if name not in self.theirs.arrays:
                self._create(source, path)
            elif name in self.ours.axes:
                self._extend_axis(name, path)
                continue
            else:
                self._grow(name, path)
            changed = mine.get(path)
            if changed is None or not len(changed):
                continue
            both = _as_set(published.get(path)) & _as_set(changed)
            alone = np.array([e for e in changed.tolist() if tuple(e) not in both], np.uint32)
            self._copy_refs(source, path, alone.reshape(-1, changed.shape[1]))
            for chunk in sorted(both):
                self._merge_chunk(source, name, path, chunk, own, other)
        if own:
            write_ledger(self.session.store, self.theirs.ledger, own)

    def _require_equal_axes(self) -> None:
        for dim, axis in self.ours.axes.items():
            other = self.theirs.axes.get(dim)
            if other is None:
                continue
            common = min(len(axis.values), len(other.values))
            if not np.array_equal(axis.values[:common], other.values[:common]):
                raise ConflictError(
                    message=f"others moved the values of {dim} meanwhile, so that positions differ"
                )

    def _changed_chunks(self, version: Version) -> Mapping[str, NDArray[np.uint32]]:
        if version.snapshot_id == self.base.snapshot_id:
            return {}
        found = self.repository.diff(
            from_snapshot_id=self.base.snapshot_id, to_snapshot_id=version.snapshot_id
        )
        return found.chunk_coordinates

    def _create(self, source: Session, path: str) -> None:
        node = source.state.view.get_node(path)
        zarr.core.sync.sync(
            self.session.store.set(
                f"{path.strip('/')}/zarr.json",
                zarr.core.buffer.default_buffer_prototype().buffer.from_bytes(node.user_data),
            )
        )

    def _extend_axis(self, name: str, path: str) -> None:
        mine, there = self.ours.axes[name].values, self.theirs.axes[name].values
        if len(mine) > len(there):
            array = zarr.open_array(self.session.store, path=path, mode="r+")
            array.resize((len(mine),))
            array[...] = mine

    def _grow(self, name: str, path: str) -> None:
        there, mine = self.theirs.arrays[name]["shape"], self.ours.arrays[name]["shape"]
        shape = tuple(map(max, there, mine))
        if shape != there:
            zarr.open_array(self.session.store, path=path, mode="r+").resize(shape)

    def _copy_refs(self, source: Session, path: str, chunks: NDArray[np.uint32]) -> None:
        """Take over references; the commit names the snapshot that they come from."""
        if not len(chunks):
            return
        table = source.state.view.table(source.state.view.get_node(path))
        rows = table.locate(chunks)
        node = self.session.state.view.get_node(path)
        edits = self.session.state.changes.edit_chunks(node)
        found: ChunkTable = table.take(np.sort(rows[rows >= 0]))
        if len(found):
            self.session.state.changes.sources |= {SnapshotId.parse(self.ours.snapshot_id)}
            edits.set_table(found)
        if np.any(rows < 0):
            edits.delete_many(chunks[rows < 0])

    def _merge_chunk(
        self,
        source: Session,
        name: str,
        path: str,
        chunk: tuple[int, ...],
        own: Sequence[Entry],
        other: Sequence[Entry],
    ) -> None:
        """Write what our files brought of a chunk that both changed, but for what theirs brought."""
        about = self.ours.arrays[name]
        box = [
            (at * size, min((at + 1) * size, length))
            for at, size, length in zip(chunk, about["chunks"], about["shape"], strict=True)
        ]
        mask = _find_cells(own, name, about["dims"], box) & ~_find_cells(
            other, name, about["dims"], box
        )
        if mask.all():
            self._copy_refs(source, path, np.array([chunk], np.uint32))
        elif mask.any():
            place = tuple(slice(*each) for each in box)
            mine = zarr.open_array(source.store, path=path, mode="r")
            target = zarr.open_array(self.session.store, path=path, mode="r+")
            values = np.asarray(target[place])
            values[mask] = np.asarray(mine[place])[mask]
            target[place] = values


def _find_new(base: Version, version: Version) -> list[Entry]:
    return [version.ledger.read(row) for row in version.find_new_rows(base).tolist()]


def _find_cells(
    entries: Sequence[Entry], name: str, dims: Sequence[str], box: Sequence[tuple[int, int]]
) -> NDArray[np.bool_]:
    """Return the cells of a box that some files brought."""
    mask = np.zeros([stop - start for start, stop in box], np.bool_)
    for each in entries:
        if each.variables is not None and name not in each.variables:
            continue
        part = []
        for dim, (start, stop) in zip(dims, box, strict=True):
            first, last = each.place.get(dim, (start, stop))
            part.append(slice(max(0, first - start), max(0, min(last, stop) - start)))
        mask[tuple(part)] = True
    return mask


def _as_set(chunks: NDArray[np.uint32] | None) -> set[tuple[int, ...]]:
    return set() if chunks is None else set(map(tuple, chunks.tolist()))


log = logging.getLogger("frazil.datasets")
_OF_RECORDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Format a log record as one line of JSON, with the fields that were given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; what looks like a secret is masked."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at, "level": record.levelname.lower(), "event": record.getMessage()
        }  # fmt: skip
        line |= {name: each for name, each in vars(record).items() if name not in _OF_RECORDS}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return redact(json.dumps(to_plain(line), ensure_ascii=False, default=str))


def log_as_json() -> None:
    """Write the log of Frazil to standard error, one JSON object a line."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("frazil")
    logger.handlers[:] = [
        each for each in logger.handlers if type(each.formatter) is not JsonFormatter
    ]
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def notify(declaration: Declaration, outcome: str, report: Any) -> Iterator[str]:
    """Call the hooks for an outcome, and yield what became of each; a failing hook fails no run."""
    for hook in declaration.notify:
        if outcome not in hook.on:
            continue
        payload = {
            "dataset": declaration.repository,
            "outcome": outcome,
            "report": to_plain(report),
        }
        yield _call(hook, json.dumps(payload, ensure_ascii=False, default=str), outcome)


def _call(hook: Notify, payload: str, outcome: str) -> str:
    name = hook.command[0] if hook.command else (hook.url_env or "webhook")
    secrets: list[str] = []
    problem = ""
    for attempt in range(hook.tries):
        if attempt:
            time.sleep(min(0.2 * 2**attempt, 30.0))
        try:
            secrets = [*_find_secrets(hook)]
            _send(hook, payload, outcome)
        except (OSError, SetupError, subprocess.SubprocessError) as error:
            problem = redact(_describe(error), secrets)
            log.warning("hook failed", extra={"hook": name, "attempt": attempt + 1, "why": problem})
            if isinstance(error, SetupError) or not _is_transient(error):
                return f"{name}: {problem}"
            continue
        log.info("hook called", extra={"hook": name, "outcome": outcome})
        return f"{name}: done"
    return f"{name}: {problem} ({hook.tries} attempts)"


def _is_transient(error: Exception) -> bool:
    return not isinstance(error, HTTPError) or error.code >= 500 or error.code in (408, 429)


def _describe(error: Exception) -> str:
    match error:
        case HTTPError():
            return f"the server answered {error.code}"
        case URLError():
            return f"the server can't be reached: {error.reason}"
        case subprocess.CalledProcessError():
            return f"it exited with {error.returncode}"
        case subprocess.TimeoutExpired():
            return f"it took longer than {error.timeout:g} s"
    return str(error)


def _find_secrets(hook: Notify) -> Iterator[str]:
    for name in (hook.url_env, *hook.headers_env.values()):
        if name is not None:
            if name not in os.environ:
                raise SetupError(f"the environment variable {name} of a hook is not set")
            yield os.environ[name]


def _send(hook: Notify, payload: str, outcome: str) -> None:
    seconds = hook.timeout.delta.total_seconds()
    if hook.command is not None:
        subprocess.run(
            hook.command,
            input=payload,
            text=True,
            check=True,
            timeout=seconds,
            env={**os.environ, "FRAZIL_OUTCOME": outcome},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return
    url = hook.url if hook.url is not None else os.environ[str(hook.url_env)]
    headers = {name: os.environ[variable] for name, variable in hook.headers_env.items()}
    if not url.startswith(("http://", "https://")):
        raise SetupError("the address of a hook must begin with http:// or https://")
    request = Request(
        url, payload.encode(), {"Content-Type": "application/json", **headers}, method="POST"
    )
    with urlopen(request, timeout=seconds) as response:
        response.read(1)
