"""When the local disk is told to keep what was written: before it is named, and not more often."""

import errno
import multiprocessing
import os
import pickle
import shutil
import stat
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import zarr

from frazil import Repository, RepositoryConfig
from frazil.errors import NotDurableError, ObjectNotFoundError, StorageError
from frazil.storage import disk
from frazil.storage.interface import NO_OPTIONS
from frazil.storage.local import Durability, LocalStorage


@dataclass
class Events:
    """What was synced and published, in order; files by inode, since they change their names."""

    seen: list[tuple[str, object]] = field(default_factory=list)

    def record(self, name: str, what: Callable[..., object], then: Callable[..., Any]) -> Any:
        """A function that notes that it was called."""

        def recorded(*args: Any, **options: Any) -> Any:
            self.seen.append((name, what(*args)))
            return then(*args, **options)

        return recorded

    def take(self) -> list[tuple[str, object]]:
        """What was seen since the last time."""
        seen, self.seen = self.seen, []
        return seen


def _refuse_to_sync_at_once(_: Sequence[int]) -> None:
    return None


@pytest.fixture(params=[True, False], ids=["at once", "in threads"])
def events(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Events:
    """What happens where the kernel syncs many files with one call, and where it does not."""
    events = Events()
    sync_at_once = disk.sync_at_once

    def sync_all(descriptors: Sequence[int]) -> list[OSError | None] | None:
        found = sync_at_once(descriptors)
        assert found == [None] * len(descriptors)
        for each in descriptors:
            status = os.fstat(each)
            if stat.S_ISDIR(status.st_mode):
                events.seen.append(("directory", str(Path(f"/proc/self/fd/{each}").readlink())))
            else:
                events.seen.append(("file", status.st_ino))
        return found

    is_supported = request.param and sys.platform == "linux"
    chosen = sync_all if is_supported else _refuse_to_sync_at_once
    monkeypatch.setattr(disk, "sync_at_once", chosen)
    for function, name, what in (
        ("sync_descriptor", "file", lambda descriptor: os.fstat(descriptor).st_ino),
        ("sync_directory", "directory", lambda path: path),
        ("sync_file_system", "file system", lambda path: path),
        ("exchange", "publish", lambda _, path: path),
    ):
        recorded = events.record(name, what, getattr(disk, function))
        monkeypatch.setattr(disk, function, recorded)
    for function in ("link", "rename"):
        recorded = events.record("publish", lambda _, path: path, getattr(os, function))
        monkeypatch.setattr(os, function, recorded)
    return events


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "objects"


def _inode(path: Path) -> int:
    return path.stat().st_ino


def test_a_created_object_and_its_new_folders_are_synced_before_it_has_its_name(
    root: Path, events: Events
) -> None:
    LocalStorage(root).create("refs/main/ref.json", b"data")

    path = root / "refs/main/ref.json"
    seen = events.take()
    device = root.stat().st_dev
    folders = [path.parent, path.parent.parent, root, *root.parents]
    on_disk = [folder for folder in folders if folder.stat().st_dev == device]
    # In any order, before it is published: threads sync them.
    synced = [("file", _inode(path)), *(("directory", str(folder)) for folder in on_disk)]
    assert sorted(seen[:-2], key=str) == sorted(synced, key=str)
    assert seen[-2:] == [("publish", str(path)), ("directory", str(path.parent))]


def test_folders_above_that_of_a_storage_are_synced_once(root: Path, events: Events) -> None:
    storage = LocalStorage(root)
    storage.create("first", b"data")
    events.take()

    storage.create("second", b"data")

    folders = {what for name, what in events.take() if name == "directory"}
    assert folders == {str(root)}


def test_a_folder_that_was_deleted_and_made_again_is_new(root: Path, events: Events) -> None:
    storage = LocalStorage(root)
    storage.create("refs/main", b"data")
    shutil.rmtree(root)
    events.take()

    storage.create("refs/main", b"data")

    assert {("directory", str(folder)) for folder in (root / "refs", root, root.parent)} <= set(
        events.take()
    )


def test_all_files_and_folders_of_a_commit_are_synced_at_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(root)
    version = storage.create("repo", b"first")
    for folder in ("chunks", "manifests", "snapshots"):
        storage.put(f"{folder}/old", b"data")
    storage.flush()
    monkeypatch.setattr(disk, "sync_at_once", _refuse_to_sync_at_once)
    objects = [(f"{folder}/new", b"data", NO_OPTIONS) for folder in ("chunks", "manifests")]
    storage.put_many([*objects, ("snapshots/new", b"data", NO_OPTIONS)])
    # Three files with their folders, and the new repo with its folder: all of them wait for the
    # others to begin, which only a wave of all can do.
    all_begun = threading.Barrier(8)
    waves: list[str] = []

    def begin_together(sync: Callable[[Any], None]) -> Callable[[Any], None]:
        def call(what: Any) -> None:
            if all_begun.n_waiting or not waves:
                if all_begun.wait(30) == 0:
                    waves.append("together")
            else:
                waves.append("alone")
            sync(what)

        return call

    for function in ("sync_descriptor", "sync_directory"):
        monkeypatch.setattr(disk, function, begin_together(getattr(disk, function)))
    storage.replace("repo", b"second", version)

    assert waves == ["together", "alone"]


@pytest.mark.parametrize("has_exchange", [True, False])
def test_a_replacement_is_synced_before_it_is_in_place_and_its_folder_after(
    root: Path, events: Events, monkeypatch: pytest.MonkeyPatch, has_exchange: bool
) -> None:
    storage = LocalStorage(root)
    version = storage.create("repo", b"first")
    if not has_exchange:
        monkeypatch.setattr(disk, "exchange", lambda *_: False)
    events.take()

    storage.replace("repo", b"second", version)

    seen = events.take()
    assert sorted(seen[:2]) == [
        ("directory", str(root)),  # the version that is replaced may not be durable
        ("file", _inode(root / "repo")),
    ]
    assert seen[2:] == [("publish", str(root / "repo")), ("directory", str(root))]


def test_objects_that_are_put_wait_for_the_commit_that_names_them(
    root: Path, events: Events
) -> None:
    storage = LocalStorage(root)
    for number in range(3):
        storage.put(f"chunks/{number}", b"data")
    assert {name for name, _ in events.take()} == {"publish"}

    storage.create("repo", b"names them")

    seen = events.take()
    published = seen.index(("publish", str(root / "repo")))
    files = {what for name, what in seen[:published] if name == "file"}
    assert files == {_inode(root / "chunks" / str(number)) for number in range(3)} | {
        _inode(root / "repo")
    }
    for folder in (root / "chunks", root):
        assert ("directory", str(folder)) in seen[:published]


def test_an_object_that_is_put_in_place_of_another_is_synced_before(
    root: Path, events: Events
) -> None:
    storage = LocalStorage(root)
    storage.put("chunks/0", b"data")
    events.take()

    storage.put("chunks/0", b"again")

    path = root / "chunks/0"
    assert events.take() == [("file", _inode(path)), ("publish", str(path))]


def test_a_replacement_flushes_what_was_put_before(root: Path, events: Events) -> None:
    storage = LocalStorage(root)
    version = storage.create("repo", b"first")
    storage.put("chunks/0", b"data")
    events.take()

    storage.replace("repo", b"second", version)

    seen = events.take()
    published = seen.index(("publish", str(root / "repo")))
    assert ("file", _inode(root / "chunks/0")) in seen[:published]
    assert ("directory", str(root / "chunks")) in seen[:published]


def test_nothing_is_synced_twice(root: Path, events: Events) -> None:
    storage = LocalStorage(root)
    storage.put("chunks/0", b"data")
    storage.flush()
    assert events.take()

    storage.flush()

    assert events.take() == []


def test_many_objects_are_synced_with_the_whole_file_system(root: Path, events: Events) -> None:
    storage = LocalStorage(root)
    for number in range(65):
        storage.put(f"chunks/{number}", b"data")
    events.take()

    storage.flush()

    assert events.take() == [("file system", str(root))]


def test_up_to_64_objects_are_synced_one_by_one(root: Path, events: Events) -> None:
    storage = LocalStorage(root)
    for number in range(64):
        storage.put(f"chunks/{number}", b"data")
    events.take()

    storage.flush()

    names = [name for name, _ in events.take()]
    assert names.count("file") == 64
    assert "file system" not in names


def test_many_objects_are_synced_one_by_one_where_the_system_can_not_do_it_at_once(
    root: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "sync_file_system", lambda _: False)
    storage = LocalStorage(root)
    for number in range(100):
        storage.put(f"chunks/{number}", b"data")
    events.take()

    storage.flush()

    assert [name for name, _ in events.take()].count("file") == 100


def test_without_durability_nothing_is_synced(root: Path, events: Events) -> None:
    storage = LocalStorage(root, durability=Durability.NONE)
    for number in range(65):
        storage.put(f"chunks/{number}", b"data")
    version = storage.create("repo", b"first")
    storage.replace("repo", b"second", version)
    storage.flush()

    assert {name for name, _ in events.take()} == {"publish"}


def test_a_sync_that_could_not_begin_is_tried_again(
    root: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(root)
    storage.put("chunks/0", b"data")
    _fail_to_create(storage, monkeypatch, OSError(errno.EMFILE, "Too many open files"))
    events.take()

    storage.create("repo", b"names it")

    assert ("file", _inode(root / "chunks/0")) in events.take()


@pytest.mark.parametrize("at_once", [True, False])
def test_after_a_sync_that_lost_something_nothing_is_committed(
    root: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    # The system forgets what it could not write, and the next sync would know nothing of it.
    storage = LocalStorage(root)
    version = storage.create("repo", b"first")
    storage.put("chunks/0", b"data")
    error = OSError(errno.EIO, "Input/output error")
    _fail_to_create(storage, monkeypatch, error, at_once=at_once)

    with pytest.raises(StorageError, match="objects may be lost since the disk failed"):
        storage.create("another", b"names it")
    with pytest.raises(StorageError, match="Input/output error"):
        storage.replace("repo", b"names it", version)
    assert bytes(storage.get("repo")) == b"first"


def _fail_to_create(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, error: OSError, *, at_once: bool = True
) -> None:
    def refuse(_: int) -> None:
        raise error

    def refuse_all(descriptors: Sequence[int]) -> list[OSError | None]:
        return [error] * len(descriptors)

    with monkeypatch.context() as patches:
        patches.setattr(disk, "sync_at_once", refuse_all if at_once else _refuse_to_sync_at_once)
        patches.setattr(disk, "sync_descriptor", refuse)
        with pytest.raises(StorageError, match=str(error.strerror)):
            storage.create("new", b"names it")
    with pytest.raises(ObjectNotFoundError):
        storage.get("new")


def test_a_deleted_object_needs_no_sync_and_its_folder_does(root: Path, events: Events) -> None:
    storage = LocalStorage(root)
    storage.put("chunks/0", b"data")
    storage.put("chunks/1", b"data")
    events.take()

    storage.delete_many(["chunks/0", "chunks/1", "chunks/2"])

    assert events.take() == [("directory", str(root / "chunks"))]
    storage.flush()
    assert "file" not in {name for name, _ in events.take()}


def test_what_may_come_back_after_a_loss_of_power_is_not_said_to_be_deleted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(root)
    storage.put("chunks/0", b"data")
    monkeypatch.setattr(disk, "sync_at_once", _refuse_to_sync_at_once)
    monkeypatch.setattr(disk, "sync_directory", _fail)

    report = storage.delete_many(["chunks/0", "chunks/1"])

    assert report.deleted == 0
    assert set(report.failed) == {"chunks/0", "chunks/1"}
    assert "Input/output error" in report.failed["chunks/0"]


def _fail(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_an_object_whose_folder_could_not_be_synced_is_not_acknowledged(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(root)
    version = storage.create("repo", b"first")
    writes: list[Callable[[], object]] = [
        lambda: storage.create("new", b"new"),
        lambda: storage.replace("repo", b"second", version),
    ]
    for write in writes:
        with monkeypatch.context() as patches:
            _fail_after_publishing(patches)
            with pytest.raises(NotDurableError, match="is in place, but the disk failed to"):
                write()
    assert bytes(storage.get("repo")) == b"second"


def _fail_after_publishing(patches: pytest.MonkeyPatch) -> None:
    def fail_then(publish: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            patches.setattr(disk, "sync_directory", _fail)
            return publish(*args, **options)

        return call

    patches.setattr(os, "link", fail_then(os.link))
    patches.setattr(disk, "exchange", fail_then(disk.exchange))


def test_everything_that_can_be_read_is_made_durable_even_if_another_wrote_it(
    root: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    LocalStorage(root).put("refs/main/ref.json", b"data")
    events.take()

    LocalStorage(root).flush_all()
    assert events.take() == [("file system", str(root))]

    monkeypatch.setattr(disk, "sync_file_system", lambda _: False)
    LocalStorage(root).flush_all()
    folders = [root, root / "refs", root / "refs/main"]
    assert events.take() == [("directory", str(folder)) for folder in folders]


def test_what_can_not_be_looked_at_after_an_exchange_is_put_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(root)
    version = storage.create("repo", b"first")
    read, exchange = disk.read_file, disk.exchange

    def exchange_what_another_program_wrote(first: str, second: str) -> bool:
        (root / "repo").write_bytes(b"foreign")
        monkeypatch.setattr(disk, "exchange", exchange)
        monkeypatch.setattr(disk, "read_file", _fail)
        return exchange(first, second)

    monkeypatch.setattr(disk, "exchange", exchange_what_another_program_wrote)
    with pytest.raises(StorageError, match="Input/output error"):
        storage.replace("repo", b"ours", version)

    monkeypatch.setattr(disk, "read_file", read)
    assert bytes(storage.get("repo")) == b"foreign"


def test_a_commit_waits_for_a_sync_that_another_thread_has_begun(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(root)
    storage.put("chunks/a", b"chunk")
    has_begun, may_go_on = threading.Event(), threading.Event()
    sync = disk.sync_file

    def slow_sync(path: str) -> None:
        has_begun.set()
        assert may_go_on.wait(10)
        sync(path)

    monkeypatch.setattr(disk, "sync_at_once", _refuse_to_sync_at_once)
    monkeypatch.setattr(disk, "sync_file", slow_sync)
    with ThreadPoolExecutor(2) as pool:
        flushing = pool.submit(storage.flush)
        assert has_begun.wait(10)
        committing = pool.submit(storage.create, "repo", b"names the chunk")
        assert not wait([committing], timeout=0.2).done
        assert not (root / "repo").exists()
        may_go_on.set()
        committing.result(10)
        flushing.result(10)

    assert (root / "repo").exists()


def test_a_session_that_is_sent_elsewhere_has_its_chunks_on_the_disk(
    root: Path, events: Events
) -> None:
    repository = Repository.create(
        LocalStorage(root), RepositoryConfig(inline_chunk_threshold_bytes=0)
    )
    fork = repository.writable_session("main").fork()
    zarr.create_array(fork.store, name="numbers", shape=(1,), chunks=(1,), dtype="i4")[:] = 1
    events.take()

    pickle.dumps(fork)

    (chunk,) = (root / "chunks").iterdir()
    assert ("file", _inode(chunk)) in events.take()


def test_a_commit_whose_folder_could_not_be_synced_is_not_acknowledged(
    root: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository.create(LocalStorage(root))
    tip = repository.lookup_branch("main")
    with monkeypatch.context() as patches:
        _fail_after_publishing(patches)
        with pytest.raises(NotDurableError):
            repository.create_tag("first", tip)
    events.take()

    repository.create_tag("second", tip)

    seen = events.take()
    published = seen.index(("publish", str(root / "repo")))
    assert ("directory", str(root)) in seen[:published]
    assert ("directory", str(root)) in seen[published:]


def test_a_commit_waits_for_the_disk_twice(root: Path, events: Events) -> None:
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repository = Repository.create(LocalStorage(root), config)
    for value in (1, 2):
        events.take()
        session = repository.writable_session("main")
        array = zarr.create_array(
            session.store, name="numbers", shape=(1,), chunks=(1,), dtype="i4", overwrite=True
        )
        array[:] = value
        session.commit("numbers")

    seen = events.take()
    names = [name for name, _ in seen]
    published = seen.index(("publish", str(root / "repo")))
    first_sync = min(names.index("file"), names.index("directory"))
    # All objects have their names before anything is synced, and nothing is synced twice.
    assert set(names[first_sync:published]) == {"file", "directory"}
    assert len(set(seen[first_sync:published])) == published - first_sync
    assert seen[published + 1 :] == [("directory", str(root))]


@pytest.mark.skipif(sys.platform != "linux", reason="no other system can do it")
def test_many_files_and_directories_are_synced_with_one_call_and_each_has_its_own_error(
    tmp_path: Path,
) -> None:
    for number in range(3):
        (tmp_path / str(number)).write_bytes(b"data")
    opened = [disk.open_to_sync(str(tmp_path / str(number))) for number in range(3)]
    folder = disk.open_directory(str(tmp_path))
    reader, writer = os.pipe()
    gone = os.dup(reader)
    os.close(gone)

    for _ in range(3):  # with one context of the kernel
        assert disk.sync_at_once([*opened, folder]) == [None] * 4
        found = disk.sync_at_once([opened[0], reader, opened[1], gone, opened[2]])
        assert found is not None
        assert [error and error.errno for error in found] == [
            None, errno.EINVAL, None, errno.EBADF, None
        ]  # fmt: skip

    for each in (*opened, folder, reader, writer):
        os.close(each)


@pytest.mark.skipif(sys.platform != "linux", reason="no other system can do it")
def test_threads_and_forked_processes_sync_at_once_on_their_own(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"data")

    def sync_often(_: int) -> bool:
        descriptor = disk.open_to_sync(str(path))
        found = [disk.sync_at_once([descriptor] * 5) for _ in range(20)]
        os.close(descriptor)
        return found == [[None] * 5] * 20

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(sync_often, range(8)))
    assert disk._idle_contexts
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks where there are threads
        process = context.Process(target=lambda: os._exit(0 if sync_often(0) else 1))
        process.start()
    process.join(30)
    assert process.exitcode == 0
    assert sync_often(0)
