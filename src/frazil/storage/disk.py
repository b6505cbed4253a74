"""Safe file operations on a POSIX file system.

- Bytes are written to a temporary file in the same directory and then put in place atomically: by
  `link`, which fails if the name exists, or by `rename`, which replaces.
- Temporary files are named `<name>#<digits>`. Like the official library, we hide such names in
  listings, so files left by a killed process are invisible and harmless.
- Locks are kernel locks on a separate file, `<name>#00`. The kernel releases them when their holder
  dies. The file stays and is hidden in the same way.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import random
import re
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from frazil.errors import (
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
    StorageTimeoutError,
)

Writable = bytes | bytearray | memoryview

_HIDDEN = r"(?a)#\d+$"
_LOCK_SUFFIX = "#00"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_LARGEST_READ = 0x7FFF_F000
_SYNC_FILE_RANGE_WRITE = 2
_WORTH_BEGINNING_BYTES = 1 << 17
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Non-blocking: opening a FIFO would otherwise wait for a writer."""
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_NOT_SUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)


def is_hidden(name: str) -> bool:
    """Return True for the name of a temporary file or of a lock."""
    return re.search(_HIDDEN, name) is not None


def is_temporary(name: str) -> bool:
    """Return True for the name of a temporary file, which only a killed process leaves behind."""
    return is_hidden(name) and not name.endswith(_LOCK_SUFFIX)


# Reading


def open_file(path: str) -> tuple[int, os.stat_result]:
    """Open a regular file and return its descriptor and status.

    Raises IsADirectoryError for a directory, and OSError for a FIFO, a socket or a device.
    """
    try:
        descriptor = os.open(path, _READING)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            require_regular(os.stat(path), path)
        raise
    try:
        status = os.fstat(descriptor)
        require_regular(status, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


def require_regular(status: os.stat_result, path: str) -> None:
    """Raise IsADirectoryError or OSError unless the status is that of a regular file."""
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "a special file")
    raise OSError(errno.ENXIO, f"{path} is {kind} where a regular file must be: move it away")


def read_at(descriptor: int, start: int, size: int) -> bytes:
    """Read bytes of an open file; return fewer only at the end of the file."""
    data = os.pread(descriptor, min(size, _LARGEST_READ), start)
    if len(data) == size or not data:
        return data
    parts = [data]
    done = len(data)
    while done < size and parts[-1]:
        parts.append(os.pread(descriptor, min(size - done, _LARGEST_READ), start + done))
        done += len(parts[-1])
    return b"".join(parts)


def read_file(path: str) -> bytes:
    """Return all bytes of a file."""
    descriptor, status = open_file(path)
    try:
        return read_at(descriptor, 0, status.st_size)
    finally:
        os.close(descriptor)


def translate(error: OSError, key: str) -> StorageError:
    """Translate a system error of a read to a storage error."""
    if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return ObjectNotFoundError(f"object not found: there is no {key!r}")
    if isinstance(error, PermissionError):
        return PermissionDeniedError(f"{key!r}: {error.strerror}")
    return StorageError(f"{key!r}: {error.strerror or error}", kind="io")


# Writing


Finish = Callable[[int], None]
"""Function called with the descriptor of a file that is written and has no name yet."""


def write_temporary(path: str, data: Writable, finish: Finish | None = None) -> str:
    """Write bytes to a temporary file next to a path and return its name."""
    temporary = f"{path}#{random.getrandbits(62) | 1 << 62}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        _write_all(descriptor, data)
        if finish is not None:
            finish(descriptor)
    except BaseException:
        discard(temporary)
        raise
    finally:
        os.close(descriptor)
    return temporary


def discard(temporary: str) -> None:
    """Delete a temporary file. If that fails, it stays hidden until garbage collection deletes it."""
    with contextlib.suppress(OSError):
        os.unlink(temporary)


def put_in_place(path: str, data: Writable, *, durable: bool) -> None:
    """Write a file atomically, replacing an existing one.

    If `durable`, sync the bytes before they replace an existing file, which a power loss would
    otherwise destroy. A new file only starts writeback, so that a later sync has little to do.
    """
    finish: Finish | None = None
    if durable and os.path.lexists(path):
        finish = sync_descriptor
    elif durable and len(data) >= _WORTH_BEGINNING_BYTES:
        finish = begin_sync
    temporary = write_temporary(path, data, finish)
    try:
        os.rename(temporary, path)
    except BaseException:
        discard(temporary)
        raise


def put_if_absent(path: str, data: Writable, finish: Finish | None = None) -> bool:
    """Write a file atomically unless it exists, and return True if written.

    One of several writers wins.
    """
    if _NAMELESS is not None:
        try:
            return _link_nameless(path, data, finish)
        except OSError as error:
            if error.errno not in (*_NOT_SUPPORTED, errno.EISDIR, errno.ENOENT, errno.EXDEV):
                raise
    temporary = write_temporary(path, data, finish)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        discard(temporary)
    return True


_NAMELESS: int | None = getattr(os, "O_TMPFILE", None)


def _link_nameless(path: str, data: Writable, finish: Finish | None) -> bool:
    """Write an unnamed file and link it. It leaves nothing behind if the writer dies."""
    assert _NAMELESS is not None
    flags = _NAMELESS | os.O_WRONLY | os.O_CLOEXEC
    descriptor = os.open(os.path.dirname(path), flags, 0o666)
    try:
        _write_all(descriptor, data)
        if finish is not None:
            finish(descriptor)
        # Python follows the link in /proc only relative to a descriptor.
        os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)
    except FileExistsError:
        return False
    finally:
        os.close(descriptor)
    return True


def exchange(first: str, second: str) -> bool:
    """Swap two files atomically; return False where the system does not support it."""
    function = _renameat2()
    if function is None:
        return False
    paths = os.fsencode(first), os.fsencode(second)
    if function(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_SUPPORTED:
        return False
    raise OSError(number, os.strerror(number), first, None, second)


@functools.cache
def _renameat2() -> Callable[..., int] | None:
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = (
            ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint,
        )  # fmt: skip
    return function


def _write_all(descriptor: int, data: Writable) -> None:
    view = memoryview(data)
    if view.nbytes == 0:  # a view with a length of zero can't be cast
        return
    view = view.cast("B")
    done = os.write(descriptor, view)
    while done < len(view):
        done += os.write(descriptor, view[done:])


# Durability


def sync_descriptor(descriptor: int) -> None:
    """Sync an open file to the disk."""
    full = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync stops at the drive's own memory
    if full is not None:
        fcntl.fcntl(descriptor, full)
    else:
        os.fsync(descriptor)


def begin_sync(descriptor: int) -> None:
    """Start writeback of an open file without waiting, where the system supports it."""
    function = _find_function("sync_file_range")
    if function is not None:
        # This is only a hint, so a failure is harmless.
        function(descriptor, ctypes.c_int64(0), ctypes.c_int64(0), _SYNC_FILE_RANGE_WRITE)


def open_directory(path: str) -> int:
    """Open a directory, to sync its entries."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)


def sync_directory(path: str) -> None:
    """Sync the entries of a directory to the disk."""
    descriptor = open_directory(path)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_to_sync(path: str) -> int:
    """Open a file, to sync it."""
    return os.open(path, _READING)


def sync_file(path: str) -> None:
    """Sync a file to the disk, unless it was replaced or deleted since."""
    with contextlib.suppress(FileNotFoundError):
        descriptor = open_to_sync(path)
        try:
            sync_descriptor(descriptor)
        finally:
            os.close(descriptor)


_AIO_CALLS = {"x86_64": (206, 209, 208, 207), "aarch64": (0, 2, 4, 1)}
"""Numbers of the calls io_setup, io_submit, io_getevents and io_destroy, which libc does not have."""
_AIO_REQUEST, _AIO_EVENT = struct.Struct("=Q8xHhI40x"), struct.Struct("=QQqq")
_AIO_FSYNC = 2
_MOST_AT_ONCE = 256
"""Size of an asynchronous context, in requests."""

_idle_contexts: list[int] = []
"""Contexts without requests; taking and returning one needs no lock."""


def sync_at_once(descriptors: Sequence[int]) -> list[OSError | None] | None:
    """Sync open files and directories with one call, and return the error of each or None.

    The kernel runs all of these `fsync` at once. Most file systems then write one journal and flush
    the disk once for all of them, and once for each if they come one after another. Return None where
    the system does not support it, or not now; nothing is synced then.
    """
    call, numbers = _find_aio()
    count = len(descriptors)
    if call is None or count > _MOST_AT_ONCE:
        return None
    if not count:
        return []
    setup, submit, wait, destroy = numbers
    try:
        context = _idle_contexts.pop()
    except IndexError:
        made = ctypes.c_ulong(0)
        if call(setup, _MOST_AT_ONCE, ctypes.byref(made)) != 0:
            return None
        context = made.value
    packed = [_AIO_REQUEST.pack(i, _AIO_FSYNC, 0, each) for i, each in enumerate(descriptors)]
    requests = ctypes.create_string_buffer(b"".join(packed))
    size, first = _AIO_REQUEST.size, ctypes.addressof(requests)
    pointers = (ctypes.c_void_p * count)(*range(first, first + count * size, size))
    events = ctypes.create_string_buffer(count * _AIO_EVENT.size)
    handle, errors = ctypes.c_ulong(context), dict[int, OSError | None]()
    is_idle = False
    try:
        # Fewer than all if one is refused, which `fsync` then does or says why.
        begun = max(0, call(submit, handle, ctypes.c_long(count), pointers))
        while len(errors) < begun:
            left = ctypes.c_long(begun - len(errors))
            found = call(wait, handle, left, left, events, None)
            if found < 0 and ctypes.get_errno() != errno.EINTR:
                raise OSError(ctypes.get_errno(), "waiting for a sync failed")
            for start in range(0, max(0, found) * _AIO_EVENT.size, _AIO_EVENT.size):
                number, _, result, _ = _AIO_EVENT.unpack_from(events, start)
                errors[number] = OSError(-result, os.strerror(-result)) if result else None
        is_idle = True
    finally:
        if is_idle:
            _idle_contexts.append(context)
        else:  # an interrupt: what was begun must not be taken for answers of the next call
            call(destroy, handle)
    if not begun:
        return None
    for number, descriptor in enumerate(descriptors):
        error = errors.get(number, OSError(errno.EINVAL, ""))
        # Never after another error: the system reports a loss once, and the next sync succeeds.
        if error is not None and error.errno in _NOT_SUPPORTED:
            try:
                os.fsync(descriptor)
                error = None
            except OSError as refused:
                error = refused
        errors[number] = error
    return [errors[number] for number in range(count)]


@functools.cache
def _find_aio() -> tuple[Callable[..., int] | None, tuple[int, ...]]:
    numbers = _AIO_CALLS.get(os.uname().machine, ())
    if not sys.platform.startswith("linux") or sys.maxsize < 2**32 or not numbers:
        return None, ()
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    return function, numbers


# Contexts belong to the memory of a process: a forked one has none of them.
os.register_at_fork(after_in_child=_idle_contexts.clear)


def sync_all(root: str) -> None:
    """Sync all directory entries below a root to the disk, and thereby files synced before."""
    if os.path.isdir(root) and not sync_file_system(root):
        for directory, _, _ in os.walk(root):
            sync_directory(directory)


def sync_file_system(root: str) -> bool:
    """Sync a whole file system to its disk; return False where the system does not support it."""
    function = _find_function("syncfs")
    if function is None:
        return False
    descriptor = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if function(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), root)
    finally:
        os.close(descriptor)
    return True


@functools.cache
def _find_function(name: str) -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None, use_errno=True), name, None)


# Locking


@contextlib.contextmanager
def locked(path: str, timeout_seconds: float) -> Iterator[None]:
    """Hold the lock of a path, exclusive among all threads and processes that use this function."""
    descriptor = os.open(f"{path}{_LOCK_SUFFIX}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    _lock_descriptors.add(descriptor)
    try:
        _wait_for_lock(descriptor, path, timeout_seconds)
        yield
    finally:
        # Not in a process forked here: its descriptor is closed, and the lock is the parent's.
        if descriptor in _lock_descriptors:
            _lock_descriptors.discard(descriptor)
            try:
                # A process forked meanwhile by another thread also has the descriptor: only closing
                # ours would leave the lock to that process.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            finally:
                os.close(descriptor)


_lock_descriptors: set[int] = set()
"""Open lock files of this process."""


def _close_inherited_locks() -> None:
    """Close the locks inherited by a forked process, which may outlive its parent."""
    while _lock_descriptors:
        os.close(_lock_descriptors.pop())


os.register_at_fork(after_in_child=_close_inherited_locks)


def _wait_for_lock(descriptor: int, path: str, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    pause = 0.0001
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StorageTimeoutError(
                    f"{os.path.basename(path)!r} has been locked by others for {timeout_seconds} s"
                ) from None
            time.sleep(random.uniform(0, pause))
            pause = min(pause * 2, 0.005)
        else:
            return
