"""What source files are at the moment: version, first bytes, whether they are folders."""

import json
import stat
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore

from frazil.errors import ObjectNotFoundError, StorageError
from frazil.storage.store_errors import diagnose
from frazil.virtual.readers.formats import FAR_HEAD_BYTES, HEAD_BYTES
from frazil.virtual.readers.stores import SourceStores
from frazil.virtual.sources import FileVersion

_CONCURRENT_REQUESTS = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Of a folder that is a Zarr hierarchy, one of these tells what it is.
_FOLDER_METADATA = (".zmetadata", "zarr.json", ".zgroup", ".zarray")


@contextmanager
def reading(stores: SourceStores, url: str) -> Iterator[None]:
    """Failures of a store inside become errors that name the file."""
    try:
        yield
        return
    except (BaseError, OSError) as error:
        failed = diagnose(error, stores.find_secrets()).to_error("read", url)
    # Not chained to what it comes from, whose text may hold a signed address.
    raise failed


def observe(stores: SourceStores, url: str) -> FileVersion:
    """The version of a file; raises ObjectNotFoundError where there is none."""
    store, key = stores.resolve(url)
    with reading(stores, url):
        if isinstance(store, LocalStore):
            return _observe_local(Path("/", key))
        found = obstore.head(store, key)
    modified_at = found["last_modified"].astimezone(UTC)
    # The etag that obstore makes up for files is none that other readers know.
    e_tag = None if url.startswith("file:") else found["e_tag"]
    return FileVersion(e_tag, modified_at, found["size"])


def _observe_local(path: Path) -> FileVersion:
    """As obstore sees a file, without its threads, which cost more than the question."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise FileNotFoundError(f"{path} is no file")
    modified_at = _EPOCH + timedelta(microseconds=found.st_mtime_ns // 1000)
    return FileVersion(None, modified_at, found.st_size)


def observe_all(stores: SourceStores, urls: Iterable[str]) -> dict[str, FileVersion]:
    """The versions of many files, asked for side by side."""
    wanted = list(urls)
    with ThreadPoolExecutor(_CONCURRENT_REQUESTS) as pool:
        return dict(zip(wanted, pool.map(lambda url: observe(stores, url), wanted), strict=True))


def observe_below(stores: SourceStores, url: str) -> dict[str, FileVersion]:
    """The versions of all files in a folder, by their URL."""
    store, key = stores.resolve(url)
    base = url[: len(url) - len(key)]
    found: dict[str, FileVersion] = {}
    with reading(stores, url):
        for batch in obstore.list(store, prefix=key):
            for each in batch:
                e_tag = None if url.startswith("file:") else each["e_tag"]
                moment = each["last_modified"].astimezone(UTC)
                found[base + each["path"]] = FileVersion(e_tag, moment, each["size"])
    return found


def read_head(stores: SourceStores, url: str, size_bytes: int) -> bytes:
    """The first bytes of a file: many of one that is far away, which readers go on with."""
    if size_bytes == 0:
        return b""
    store, key = stores.resolve(url)
    with reading(stores, url):
        if isinstance(store, LocalStore):
            with Path("/", key).open("rb", buffering=0) as file:
                return file.read(HEAD_BYTES)
        end = min(FAR_HEAD_BYTES, size_bytes)
        return bytes(obstore.get_range(store, key, start=0, end=end))


def read_folder_metadata(stores: SourceStores, url: str) -> Mapping[str, Any] | None:
    """The metadata at the top of a folder; None where there is none."""
    for name in _FOLDER_METADATA:
        store, key = stores.resolve(f"{url.rstrip('/')}/{name}")
        try:
            with reading(stores, url):
                data = bytes(obstore.get(store, key).bytes())
        except ObjectNotFoundError:
            continue
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        # Metadata that nobody understands are still those of a hierarchy, and its reader says so.
        return found if isinstance(found, dict) else {}
    return None


def observe_folder(stores: SourceStores, url: str) -> FileVersion:
    """What stands for the version of a folder: the last change and the size of all that is in it."""
    inside = observe_below(stores, url)
    if not inside:
        raise ObjectNotFoundError(f"there is nothing at {url}")
    last = max(inside.values(), key=lambda each: each.modified_at)
    return replace(last, e_tag=None, size_bytes=sum(each.size_bytes for each in inside.values()))


def refuse_change(url: str, before: FileVersion, after: FileVersion) -> None:
    """Raise where a file changed while it was read."""
    if before != after:
        raise StorageError(
            f"{url} was changed while it was read: it was of {_show(before.modified_at)}, "
            f"{before.size_bytes} bytes, and is of {_show(after.modified_at)}, "
            f"{after.size_bytes} bytes"
        )


def _show(moment: datetime) -> str:
    return moment.isoformat()
