"""What lies on the disk: objects, names that are hidden, folders, locks."""

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from frazil import Repository
from frazil.errors import (
    InvalidInputError,
    ObjectExistsError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
    StorageTimeoutError,
    VersionMismatchError,
)
from frazil.storage import disk
from frazil.storage.interface import ByteRange, Version
from frazil.storage.local import LocalStorage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "objects")


def _files(storage: LocalStorage) -> set[str]:
    root = Path(storage.path)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_a_storage_makes_nothing_until_something_is_written(storage: LocalStorage) -> None:
    with pytest.raises(ObjectNotFoundError):
        storage.get("object")
    assert list(storage.list()) == []
    storage.delete_many(["object"])
    storage.flush()

    assert not Path(storage.path).exists()


def test_an_object_is_a_file_of_its_bytes(storage: LocalStorage) -> None:
    storage.put("folder/object", b"data")

    assert Path(storage.path, "folder/object").read_bytes() == b"data"
    assert _files(storage) == {"folder/object"}


def test_a_relative_path_stays_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    storage = LocalStorage("objects")

    monkeypatch.chdir("/")
    storage.put("object", b"data")

    assert (tmp_path / "objects" / "object").exists()


def test_a_replaced_object_is_another_file_and_links_to_the_old_one_keep_it(
    storage: LocalStorage,
) -> None:
    # The official library keeps what it overwrites as a hard link.
    version = storage.create("repo", b"first")
    os.link(f"{storage.path}/repo", f"{storage.path}/backup")

    storage.replace("repo", b"second", version)

    assert bytes(storage.get("backup")) == b"first"
    assert bytes(storage.get("repo")) == b"second"


def test_replacing_leaves_a_lock_that_nobody_sees(storage: LocalStorage) -> None:
    version = storage.create("repo", b"first")
    storage.replace("repo", b"second", version)

    assert _files(storage) == {"repo", "repo#00"}
    assert [info.key for info in storage.list()] == ["repo"]
    assert [info.key for info in storage.list_sorted("repo")] == ["repo"]
    assert list(storage.list_temporary_files()) == []


def test_writes_that_fail_leave_nothing(storage: LocalStorage) -> None:
    storage.create("repo", b"first")
    with pytest.raises(ObjectExistsError):
        storage.create("repo", b"second")
    with pytest.raises(VersionMismatchError):
        storage.replace("repo", b"second", Version("stale"))
    with pytest.raises(VersionMismatchError):
        storage.replace("folder/missing", b"second", Version("stale"))

    assert _files(storage) == {"repo"}


def test_a_replacement_that_loses_under_the_lock_leaves_nothing(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = storage.create("repo", b"first")
    stage = disk.write_temporary

    def stage_and_lose(path: str, data: bytes, finish: disk.Finish) -> str:
        monkeypatch.undo()
        storage.replace("repo", b"winner", version)
        return stage(path, data, finish)

    monkeypatch.setattr(disk, "write_temporary", stage_and_lose)
    with pytest.raises(VersionMismatchError, match="repo"):
        storage.replace("repo", b"loser", version)

    assert bytes(storage.get("repo")) == b"winner"
    assert _files(storage) == {"repo", "repo#00"}


@pytest.mark.parametrize("key", ["repo#00", "repo#1", "folder/object#123456"])
def test_hidden_names_are_no_keys(storage: LocalStorage, key: str) -> None:
    storage.put("object", b"data")

    for use in (
        lambda: storage.get(key),
        lambda: storage.head(key),
        lambda: storage.put(key, b"data"),
        lambda: storage.create(key, b"data"),
        lambda: storage.replace(key, b"data", Version("any")),
        lambda: storage.copy("object", key),
    ):
        with pytest.raises(InvalidInputError, match="temporary file"):
            use()


@pytest.mark.parametrize("key", ["repo#", "repo#a1", "repo#1a", "repo#1/object", "#"])
def test_names_that_only_look_hidden_are_keys(storage: LocalStorage, key: str) -> None:
    storage.put(key, b"data")

    assert [info.key for info in storage.list()] == [key]


def test_what_a_killed_process_left_is_listed_apart_and_can_be_deleted(
    storage: LocalStorage,
) -> None:
    storage.put("folder/object", b"data")
    Path(storage.path, "folder/object#4712").write_bytes(b"da")
    Path(storage.path, "repo#1").write_bytes(b"")

    assert [info.key for info in storage.list()] == ["folder/object"]
    temporaries = {info.key: info.size_bytes for info in storage.list_temporary_files()}
    assert temporaries == {"folder/object#4712": 2, "repo#1": 0}
    storage.delete_many(temporaries)
    assert _files(storage) == {"folder/object"}


def test_a_lock_can_not_be_deleted(storage: LocalStorage) -> None:
    version = storage.create("repo", b"first")
    storage.replace("repo", b"second", version)

    with pytest.raises(InvalidInputError):
        storage.delete_many(["repo#00"])
    assert "repo#00" in _files(storage)


def test_a_lock_that_others_hold_is_waited_for_until_time_is_out(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, lock_timeout_seconds=0.02)
    version = storage.create("repo", b"first")
    holder = os.open(tmp_path / "repo#00", os.O_RDWR | os.O_CREAT)
    fcntl.flock(holder, fcntl.LOCK_EX)

    with pytest.raises(StorageTimeoutError, match="'repo' has been locked by others"):
        storage.replace("repo", b"second", version)
    os.close(holder)
    storage.replace("repo", b"third", version)

    assert bytes(storage.get("repo")) == b"third"
    assert list(storage.list_temporary_files()) == []


def test_where_an_object_is_no_folder_can_be(storage: LocalStorage) -> None:
    storage.put("object", b"data")

    for write in (storage.put, storage.create):
        with pytest.raises(StorageError, match="object/nested") as caught:
            write("object/nested", b"data")
        assert not isinstance(caught.value, ObjectNotFoundError)
    with pytest.raises(ObjectNotFoundError):
        storage.get("object/nested")
    with pytest.raises(VersionMismatchError):
        storage.replace("object/nested", b"data", Version("any"))
    assert storage.delete_many(["object/nested"]).deleted == 1
    assert bytes(storage.get("object")) == b"data"


def test_where_a_folder_is_no_object_can_be(storage: LocalStorage) -> None:
    storage.put("folder/object", b"data")

    with pytest.raises(StorageError, match="folder") as caught:
        storage.put("folder", b"data")
    assert not isinstance(caught.value, ObjectNotFoundError)
    with pytest.raises(ObjectExistsError):
        storage.create("folder", b"data")
    assert "folder" in storage.delete_many(["folder"]).failed
    assert _files(storage) == {"folder/object"}


def test_a_folder_without_objects_is_nothing(storage: LocalStorage) -> None:
    storage.put("folder/nested/object", b"data")
    storage.delete_many(["folder/nested/object"])

    assert list(storage.list()) == []
    assert list(storage.list_sorted("folder/")) == []


def test_what_may_not_be_read_is_said_to_be_so(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.put("object", b"data")

    def refuse(path: str, *_: object) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "open", refuse)

    for use in (lambda: storage.get("object"), lambda: storage.put("object", b"data")):
        with pytest.raises(PermissionDeniedError, match="'object': Permission denied"):
            use()


def test_a_full_disk_is_an_error_that_leaves_the_old_object(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = storage.create("repo", b"first")

    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patches:
        patches.setattr(os, "write", refuse)
        for write in (
            lambda: storage.put("repo", b"second"),
            lambda: storage.create("new", b"second"),
            lambda: storage.replace("repo", b"second", version),
        ):
            with pytest.raises(StorageError, match="No space left on device"):
                write()

    assert bytes(storage.get("repo")) == b"first"
    assert _files(storage) == {"repo"}


def _bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


_SPECIAL: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a socket": _bind,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", _SPECIAL)
def test_a_file_that_is_not_regular_is_named_and_not_waited_for(
    storage: LocalStorage, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(storage.path).mkdir()
    monkeypatch.chdir(storage.path)  # the path of a socket must be short
    _SPECIAL[kind](Path("object"))
    monkeypatch.chdir("/")

    for read in (
        lambda: storage.get("object"),
        lambda: storage.get("object", ByteRange(0, 4)),
        lambda: storage.get_many([("object", None)]),
        lambda: storage.get_versioned("object"),
        lambda: storage.head("object"),
        lambda: storage.copy("object", "copy"),
        lambda: storage.replace("object", b"data", Version("any")),
    ):
        with pytest.raises(StorageError, match=f"object is {kind} where a regular file must be"):
            read()
    with pytest.raises(ObjectExistsError):
        storage.create("object", b"data")


def test_a_repository_whose_repo_object_is_a_fifo_is_refused_by_name(
    storage: LocalStorage,
) -> None:
    Path(storage.path).mkdir()
    os.mkfifo(Path(storage.path, "repo"))

    for use in (Repository.open, Repository.exists, Repository.open_or_create):
        with pytest.raises(StorageError, match="repo is a FIFO where a regular file must be"):
            use(storage)


# Locks and forks


def test_a_lock_is_given_back_though_a_forked_process_has_its_descriptor(tmp_path: Path) -> None:
    path = str(tmp_path / "object")
    with disk.locked(path, 1):
        # As a process has it that another thread forked outside Python, where nobody can close it.
        inherited = [os.dup(each) for each in disk._lock_descriptors]
    try:
        with disk.locked(path, 0):
            pass
    finally:
        for each in inherited:
            os.close(each)


FORKING = """
import os, signal, sys
from frazil.errors import StorageTimeoutError
from frazil.storage import disk

path = sys.argv[1]


def fork_a_sleeper():
    child = os.fork()
    if child == 0:
        signal.pause()
    return child


def is_free(within_seconds=0):
    try:
        with disk.locked(path, within_seconds):
            return True
    except StorageTimeoutError:
        return False


with disk.locked(path, 1):
    sleepers = [fork_a_sleeper()]
print("released while a child lives:", is_free())

reading, writing = os.pipe()
holder = os.fork()
if holder == 0:
    with disk.locked(path, 1):
        os.write(writing, fork_a_sleeper().to_bytes(4, "big"))
        os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(holder, 0)
sleepers.append(int.from_bytes(os.read(reading, 4), "big"))
print("released by a killed holder whose child lives:", is_free(within_seconds=30))

with disk.locked(path, 1):
    child = os.fork()
    if child != 0:
        os.waitpid(child, 0)
        print("released by the child:", is_free())
if child == 0:
    os._exit(0)
for each in sleepers:
    os.kill(each, signal.SIGKILL)
"""


def test_a_process_forked_while_a_lock_is_held_neither_keeps_it_nor_gives_it_back(
    tmp_path: Path,
) -> None:
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path / "object")],
        capture_output=True,
        timeout=60,
        check=True,
        text=True,
    )

    assert answer.stdout.splitlines() == [
        "released while a child lives: True",
        "released by a killed holder whose child lives: True",
        "released by the child: False",
    ]
