"""Objects on a disk. Concurrent commits from many processes are safe.

- An object is written to a temporary file and put in place atomically; readers see the old or the
  new one.
- `create` is atomic among all processes and machines that share a POSIX file system.
- `replace` compares and swaps under a kernel lock that every Frazil process honours. Where the
  system can exchange two files atomically, a concurrent write by another program is detected and
  restored.
- Before `create` and `replace`, everything that this storage has put is synced, so a commit never
  refers to data that is not on the disk.
"""

import asyncio
import contextlib
import errno
import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from itertools import compress

from frazil.async_names import run_concurrently
from frazil.display import Item
from frazil.errors import (
    InvalidInputError,
    NotDurableError,
    ObjectExistsError,
    StorageError,
    VersionMismatchError,
)
from frazil.storage import disk
from frazil.storage.interface import (
    KEYS_PER_BATCH,
    LOCAL_DEFAULTS,
    NO_OPTIONS,
    Buffer,
    ByteRange,
    Choice,
    DeleteReport,
    ObjectInfo,
    PutOptions,
    Range,
    Storage,
    StorageSettings,
    Version,
    Versioned,
    batches_of,
    resolve_range,
    validate_key,
)

_FEW_FILES = 64
"""Up to this number, files are synced one by one; for more, syncing the file system is cheaper."""


_LARGE_BYTES = 1 << 17
"""Minimum object size for which a thread pays off."""

_LOSSES = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
"""Errors of a sync after which Linux drops the unwritten data; the next sync would succeed."""


class Durability(Enum):
    """Guarantee after a power loss."""

    SAFE = "safe"
    """Every commit survives, with all objects it refers to."""
    NONE = "none"
    """No guarantee; fast, for scratch work."""


class LocalStorage(Storage):
    """Objects as files below a directory.

    Parameters
    ----------
    path
        The directory, created on the first write.
    durability
        Guarantee after a power loss.
    lock_timeout_seconds
        Longest wait for the lock of an object in `replace`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = Durability.SAFE,
        lock_timeout_seconds: float = 60,
    ) -> None:
        self._root = os.path.abspath(path)
        self._durability = durability
        self._lock_timeout_seconds = lock_timeout_seconds
        # Appending and popping need no lock, which a forked process could inherit locked.
        self._unsynced: deque[str] = deque()
        self._flushing = (os.getpid(), threading.Lock())
        self._loss: str | None = None
        self._durable: set[tuple[str, int]] = set()
        """Directories, by path and inode, whose entries in their parents are on the disk."""

    @property
    def path(self) -> str:
        """Return the directory."""
        return self._root

    @property
    def place(self) -> str:
        return self._root

    def shown_items(self) -> Iterator[Item]:
        """Yield the kind of storage and the directory."""
        yield Item("type", "local filesystem")
        yield Item("path", self._root)

    def __reduce__(self) -> tuple[object, ...]:
        return (_restore, (self._root, self._durability, self._lock_timeout_seconds))

    @property
    def is_local(self) -> bool:
        """Return True."""
        return True

    def default_settings(self) -> StorageSettings:
        return LOCAL_DEFAULTS

    # Reading

    def get(self, key: str, range: Range | None = None) -> Buffer:
        try:
            descriptor, status = disk.open_file(self._path(key))
        except OSError as error:
            raise disk.translate(error, key) from error
        try:
            start, end = resolve_range(range, status.st_size, key)
            return disk.read_at(descriptor, start, end - start)
        except OSError as error:
            raise disk.translate(error, key) from error
        finally:
            os.close(descriptor)

    async def get_async(self, key: str, range: Range | None = None) -> Buffer:
        # Reading from a disk takes less time than starting a thread, except for large ranges.
        if type(range) is ByteRange and range.end - range.start >= _LARGE_BYTES:
            return await asyncio.to_thread(self.get, key, range)
        return self.get(key, range)

    def get_many(self, requests: Sequence[tuple[str, Range | None]]) -> Sequence[Buffer]:
        # Read small objects directly, and the rest with several threads after the first large one.
        found: list[Buffer] = []
        for key, range in requests:
            found.append(self.get(key, range))
            if len(found[-1]) >= _LARGE_BYTES:
                break
        return [*found, *super().get_many(requests[len(found) :])]

    def get_versioned(self, key: str) -> Versioned:
        data = self.get(key)
        return Versioned(data, _version_of(data))

    def head(self, key: str) -> ObjectInfo:
        try:
            path = self._path(key)
            status = os.stat(path)
            disk.require_regular(status, path)
        except OSError as error:
            raise disk.translate(error, key) from error
        return _describe(key, status)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self._walk("", prefix, _is_visible)

    def list_selected(self, prefix: str, choose: Choice) -> Iterator[ObjectInfo]:
        for batch in batches_of(self._keys("", prefix), KEYS_PER_BATCH):
            for key in compress(batch, choose(batch)):
                try:
                    status = os.stat(f"{self._root}/{key}")
                except FileNotFoundError:  # deleted meanwhile
                    continue
                yield _describe(key, status)

    def list_sorted(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self._walk("", prefix, _is_visible, in_order=True)

    def list_temporary_files(self) -> Iterator[ObjectInfo]:
        """Yield temporary files left by killed processes, for garbage collection."""
        return self._walk("", "", disk.is_temporary)

    # Writing

    def put(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        path, is_durable = self._path(key), self._is_durable
        try:
            try:
                disk.put_in_place(path, data, durable=is_durable)
            except FileNotFoundError:  # its directory is not there yet
                self._make_directory(path)
                disk.put_in_place(path, data, durable=is_durable)
        except OSError as error:
            raise _translate_write(error, key) from error
        if is_durable:
            self._unsynced.append(path)

    async def put_async(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        if len(data) >= _LARGE_BYTES:
            await asyncio.to_thread(self.put, key, data, options)
        else:
            self.put(key, data, options)

    def put_many(self, objects: Sequence[tuple[str, Buffer, PutOptions]]) -> None:
        # Threads don't pay off for small files. They are all synced together, when they are named.
        super().put_many([each for each in objects if len(each[1]) >= _LARGE_BYTES])
        for each in objects:
            if len(each[1]) < _LARGE_BYTES:
                self.put(*each)

    def create(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> Version:
        path = self._path(key)
        # If the object exists already, fail without writing anything.
        if os.path.lexists(path):
            raise ObjectExistsError(f"{key!r} exists")
        try:
            self._make_directory(path)
            is_ours = disk.put_if_absent(path, data, lambda file: self._flush(file, path))
        except OSError as error:
            raise _translate_write(error, key) from error
        if not is_ours:
            raise ObjectExistsError(f"{key!r} exists")
        self._confirm(key, path)
        return _version_of(data)

    def replace(
        self, key: str, data: Buffer, version: Version, options: PutOptions = NO_OPTIONS
    ) -> Version:
        path = self._path(key)
        ours = _version_of(data)
        try:
            # If the version is outdated, fail without writing anything.
            _require(path, key, version)
            # Write before taking the lock, to hold it as briefly as possible. The version to replace
            # must be durable, too: the sync of its writer may have failed.
            staged = disk.write_temporary(path, data, lambda file: self._flush(file, path))
            self._swap(staged, path, key, version, ours)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise VersionMismatchError(f"{key!r} is gone") from None
        except OSError as error:
            raise _translate_write(error, key) from error
        self._confirm(key, path)
        return ours

    def copy(self, source: str, target: str, version: Version | None = None) -> None:
        data = self.get(source)
        if version is not None and _version_of(data) != version:
            raise VersionMismatchError(f"{source!r} is no longer what was read")
        self.put(target, data)

    def delete_many(self, keys: Iterable[str]) -> DeleteReport:
        gone: list[str] = []
        unlinked: list[str] = []
        failed: dict[str, str] = {}
        for key in keys:
            try:
                path = self._deletable_path(key)
                os.unlink(path)
                unlinked.append(path)
                gone.append(key)
            except (FileNotFoundError, NotADirectoryError):
                gone.append(key)
            except OSError as error:
                failed[key] = error.strerror or str(error)
        if unlinked and self._is_durable:
            try:
                self._sync_all((), set(map(os.path.dirname, unlinked)), None)
            except OSError as error:
                # A power loss may restore any of them.
                reason = f"deleted, but perhaps not from the disk: {error.strerror}"
                return DeleteReport(0, failed | dict.fromkeys(gone, reason))
        return DeleteReport(len(gone), failed)

    def flush(self) -> None:
        self._flush()

    def flush_all(self) -> None:
        self._flush()
        if self._is_durable:
            try:
                disk.sync_all(self._root)
            except OSError as error:
                raise StorageError(f"flush: {error.strerror}", kind="io") from error

    # Helpers

    def _make_directory(self, path: str) -> None:
        """Create the directory of a path if it is missing."""
        directory = os.path.dirname(path)
        if not os.path.isdir(directory):
            os.makedirs(directory, exist_ok=True)
            # The number of an inode is used again soon after its directory was deleted.
            self._durable.clear()

    def _flush(self, file: int | None = None, beside: str | None = None) -> None:
        """Sync all files that were put, an open file, and the directory entries of a path."""
        if self._loss is not None:
            raise StorageError(
                f"objects may be lost since the disk failed: {self._loss}", kind="io"
            )
        # Another thread may be syncing files that this commit refers to: wait for it.
        with self._flush_lock():
            paths = self._take_unsynced()
            if self._is_durable and (paths or beside):
                self._sync(paths, file, [beside] if beside else [])

    def _confirm(self, key: str, path: str) -> None:
        """Sync the directory entry of an object that was just put in place."""
        if not self._is_durable:
            return
        try:
            disk.sync_directory(os.path.dirname(path))
        except OSError as error:
            raise NotDurableError(
                f"{key!r} is in place, but the disk failed to confirm it, so that a loss of power may "
                f"undo it: {error.strerror}"
            ) from error

    def _flush_lock(self) -> threading.Lock:
        if self._flushing[0] != os.getpid():  # a forked process may have got it locked
            self._flushing = (os.getpid(), threading.Lock())
        return self._flushing[1]

    def _sync(self, paths: set[str], file: int | None, beside: Sequence[str]) -> None:
        """Sync files and directories, in any order: nothing names them yet."""
        fresh: set[tuple[str, int]] = set()
        try:
            is_whole = len(paths) > _FEW_FILES and disk.sync_file_system(self._root)
            directories = self._directories_of(beside if is_whole else (*paths, *beside), fresh)
            failure = self._sync_all(() if is_whole else paths, directories, file)
        except OSError as error:
            self._unsynced.extend(paths)
            if error.errno in _LOSSES:
                self._loss = error.strerror
            raise StorageError(f"flush: {error.strerror}", kind="io") from error
        self._durable |= fresh
        if failure is not None:  # only this file is lost, which nobody has seen
            raise failure

    def _sync_all(
        self, paths: Collection[str], directories: Collection[str], file: int | None
    ) -> OSError | None:
        """Sync files, directories and an open file, and return the error of the open file."""
        own = [] if file is None else [file]
        errors = None
        if len(paths) <= _FEW_FILES:
            opened = list[int]()
            try:
                for path in paths:
                    with contextlib.suppress(FileNotFoundError):  # replaced or deleted since
                        opened.append(disk.open_to_sync(path))
                for directory in directories:
                    with _unless_gone(directory, self._root):
                        opened.append(disk.open_directory(directory))
                errors = disk.sync_at_once([*own, *opened])
            finally:
                for each in opened:
                    os.close(each)
        if errors is None:
            return self._sync_in_threads(paths, directories, own)
        for error in errors[len(own) :]:
            if error is not None:
                raise error
        return errors[0] if own else None

    def _sync_in_threads(
        self, paths: Collection[str], directories: Collection[str], own: Sequence[int]
    ) -> OSError | None:
        failures = list[OSError]()

        def sync_open_file(descriptor: int) -> None:
            try:
                disk.sync_descriptor(descriptor)
            except OSError as error:
                failures.append(error)

        calls: list[Callable[[], object]] = [partial(sync_open_file, each) for each in own]
        calls += [partial(disk.sync_file, path) for path in paths]
        calls += [partial(_sync_entries, each, self._root) for each in directories]
        run_concurrently(lambda call: call(), calls, self.concurrency)
        return failures[0] if failures else None

    def _directories_of(self, paths: Iterable[str], fresh: set[tuple[str, int]]) -> dict[str, None]:
        """Return the directories of paths, and the parents of those that may be new.

        Above the root of the storage, go on to the root of its device.
        """
        found: dict[str, None] = {}
        for directory in {os.path.dirname(path): None for path in paths}:
            while directory not in found:
                try:
                    status = os.stat(directory)
                except FileNotFoundError:
                    break
                found[directory] = None
                parent = os.path.dirname(directory)
                if (known := (directory, status.st_ino)) in self._durable or parent == directory:
                    break
                fresh.add(known)
                if len(directory) <= len(self._root) and os.stat(parent).st_dev != status.st_dev:
                    break
                directory = parent
        return found

    @property
    def _is_durable(self) -> bool:
        return self._durability is Durability.SAFE

    def _take_unsynced(self) -> set[str]:
        paths = set()
        with contextlib.suppress(IndexError):
            while True:
                paths.add(self._unsynced.popleft())
        return paths

    def _path(self, key: str) -> str:
        if "#" in key and disk.is_hidden(key):
            raise InvalidInputError(
                f"{key!r} is the name of a temporary file", kind="bad-key-prefix"
            )
        return f"{self._root}/{validate_key(key)}"

    def _deletable_path(self, key: str) -> str:
        # Temporary files of killed processes may be deleted, but never a lock: one process could
        # hold the deleted file while another locks a new one.
        is_temporary = "#" in key and disk.is_temporary(key)
        return f"{self._root}/{validate_key(key)}" if is_temporary else self._path(key)

    def _swap(self, staged: str, path: str, key: str, expected: Version, ours: Version) -> None:
        """Replace the expected version by a staged file, or raise and change nothing."""
        is_ours = True
        try:
            with disk.locked(path, self._lock_timeout_seconds):
                _require(path, key, expected)
                is_ours = not disk.exchange(staged, path)
                if is_ours:
                    os.rename(staged, path)
                    return
                if _taken_version(staged, path) != expected:
                    _put_back(staged, path, ours)
                    is_ours = True
                    raise VersionMismatchError(f"{key!r} was replaced by another program meanwhile")
                disk.discard(staged)
        except BaseException:
            # A file that was exchanged but could not be read may be another program's write.
            if is_ours:
                disk.discard(staged)
            raise

    def _walk(
        self, folder: str, prefix: str, wanted: Callable[[str], bool], *, in_order: bool = False
    ) -> Iterator[ObjectInfo]:
        """Yield files below a folder (empty, or ending with `/`) whose keys start with the prefix."""
        with self._scan(folder) as entries:
            for entry in sorted(entries, key=_key_order) if in_order else entries:
                key = folder + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if _may_hold(f"{key}/", prefix):
                        yield from self._walk(f"{key}/", prefix, wanted, in_order=in_order)
                elif key.startswith(prefix) and wanted(entry.name):
                    try:
                        status = entry.stat()
                    except FileNotFoundError:  # deleted meanwhile
                        continue
                    yield _describe(key, status)

    def _keys(self, folder: str, prefix: str) -> Iterator[str]:
        """Yield the keys of the visible files below a folder, without reading their status."""
        with self._scan(folder) as entries:
            for entry in entries:
                key = folder + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if _may_hold(f"{key}/", prefix):
                        yield from self._keys(f"{key}/", prefix)
                elif key.startswith(prefix) and _is_visible(key):
                    yield key

    @contextlib.contextmanager
    def _scan(self, folder: str) -> Iterator[Iterable[os.DirEntry[str]]]:
        """Open the entries of a folder; none if the folder does not exist."""
        try:
            entries = os.scandir(f"{self._root}/{folder}")
        except (FileNotFoundError, NotADirectoryError):
            yield ()
            return
        except OSError as error:
            raise disk.translate(error, folder) from error
        with entries:
            yield entries


def _sync_entries(directory: str, root: str) -> None:
    with _unless_gone(directory, root):
        disk.sync_directory(directory)


@contextlib.contextmanager
def _unless_gone(directory: str, root: str) -> Iterator[None]:
    """Skip a directory that is gone or, above the root, may not be opened."""
    try:
        yield
    except FileNotFoundError:
        pass
    except PermissionError:
        if len(directory) >= len(root):
            raise


def _may_hold(folder: str, prefix: str) -> bool:
    """Return True if a folder may contain keys that start with a prefix."""
    return folder.startswith(prefix) or prefix.startswith(folder)


def _key_order(entry: os.DirEntry[str]) -> bytes:
    """Return the sort key of an entry: a folder sorts as its name followed by `/`."""
    return os.fsencode(f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name)


def _is_visible(name: str) -> bool:
    return "#" not in name or not disk.is_hidden(name)


def _restore(root: str, durability: Durability, lock_timeout_seconds: float) -> LocalStorage:
    return LocalStorage(root, durability=durability, lock_timeout_seconds=lock_timeout_seconds)


def _describe(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _version_of(data: Buffer) -> Version:
    # A hash of the content, because inode, size and time of a file can all repeat.
    return Version(hashlib.blake2b(data, digest_size=20).hexdigest())


def _require(path: str, key: str, version: Version) -> None:
    if _version_of(disk.read_file(path)) != version:
        raise VersionMismatchError(f"{key!r} is no longer what was read")


def _taken_version(staged: str, path: str) -> Version:
    """Return the version that an exchange removed; restore it if it can't be read."""
    try:
        return _version_of(disk.read_file(staged))
    except OSError:
        disk.exchange(staged, path)
        raise


def _put_back(staged: str, path: str, ours: Version) -> None:
    """Undo an exchange that removed another program's write."""
    placed = ours
    while True:
        taken = _version_of(disk.read_file(staged))
        disk.exchange(staged, path)
        if _version_of(disk.read_file(staged)) == placed:
            return
        # The program wrote again between two exchanges: keep its newest write.
        placed = taken


def _translate_write(error: OSError, key: str) -> StorageError:
    """Translate a system error of a write, which also fails if a file and a folder share a name."""
    if isinstance(error, IsADirectoryError | NotADirectoryError | FileExistsError):
        return StorageError(f"{key!r}: {error.strerror}", kind="io")
    return disk.translate(error, key)
