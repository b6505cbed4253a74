"""Writes the repository, with `icechunk` or `frazil`: the same contents each time, whoever writes."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
    "float32", "float64", "complex64", "complex128", "datetime64[s]", "timedelta64[ms]", "<U5", "S4",
    ">i4", ">f8",
)  # fmt: skip

VIRTUAL_BYTES = bytes(range(256))


def write_rich_repository(
    library: Any, storage: Any, files: Path, spec_version: int, *, inline_bytes: int, split: int
) -> None:
    """Write commits, branches, tags and, of V2, amends and moves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Zarr warns of types that it alone has so far
        repository = _create(library, storage, files, spec_version, inline_bytes, split)
        _write_first(repository, spec_version, files)
        _write_second(repository)
        _write_branch(repository)
        if spec_version > 1:
            _amend(repository)
            _rearrange(repository)


def container_of(library: Any, files: Path) -> Any:
    """The container of the file that virtual chunks are in."""
    store = library.storage.local_filesystem_store(str(files))
    return library.VirtualChunkContainer(f"file://{files}/", store, name="files")


def _create(
    library: Any, storage: Any, files: Path, spec_version: int, inline_bytes: int, split: int
) -> Any:
    (files / "v.bin").write_bytes(VIRTUAL_BYTES)
    config = library.RepositoryConfig(inline_chunk_threshold_bytes=inline_bytes)
    config.set_virtual_chunk_container(container_of(library, files))
    sizes = {library.ManifestSplitDimCondition.Any(): split}
    splitting = library.ManifestSplittingConfig.from_dict(
        {library.ManifestSplitCondition.AnyArray(): sizes}
    )
    config.manifest = library.ManifestConfig(splitting=splitting)
    return library.Repository.create(storage, config, spec_version=spec_version)


def _write_first(repository: Any, spec_version: int, files: Path) -> None:
    session = repository.writable_session("main")
    root = zarr.open_group(session.store, mode="a", attributes={"title": "☃", "deep": {"er": [1]}})
    for number, dtype in enumerate(DTYPES):
        array = root.create_array(f"types/{number}", shape=(7,), chunks=(3,), dtype=dtype)
        array[:5] = _values(5, dtype)
    _write_shapes(root)
    if spec_version > 1:
        _write_rectilinear(root)
    _write_virtual(session, root, files)
    _write_consolidated(session)
    repository.create_tag("first", session.commit("first ☃", metadata={"k": [1, None, "é"]}))


def _values(count: int, dtype: str) -> Any:
    numbers = np.arange(1, count + 1)
    if np.dtype(dtype).kind in "US":
        return np.array(
            [f"té{number}" if "U" in dtype else f"t{number}" for number in numbers], dtype
        )
    return numbers.astype(dtype)


def _write_shapes(root: zarr.Group) -> None:
    shards = root.create_array("sharded", shape=(8, 8), chunks=(2, 2), shards=(4, 4), dtype="int16")
    shards[:6, :5] = np.arange(30, dtype="int16").reshape(6, 5)
    root.create_array("scalar", shape=(), dtype="float64")[...] = 1.5
    root.create_array("empty", shape=(0, 3), chunks=(1, 3), dtype="int8")
    root.create_array("unwritten", shape=(5,), chunks=(2,), dtype="int8", fill_value=7)
    texts = root.create_array("texts", shape=(4,), chunks=(2,), dtype=str)
    texts[:3] = np.array(["", "été ☃", "a longer text than that"], dtype=object)
    large = root.create_array(
        "large", shape=(30, 20), chunks=(4, 5), dtype="float64", dimension_names=("y", "x")
    )
    large[:] = np.arange(600.0).reshape(30, 20)
    deep = root.create_group("deep/a/b/c/d", attributes={"level": 5})
    deep.create_array("x", shape=(3,), chunks=(1,), dtype="uint8")[1:] = 9


def _write_rectilinear(root: zarr.Group) -> None:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        array: Any = root.create_array(
            "rectilinear", shape=(6, 4), chunks=[[1, 2, 3], [3, 1]], dtype="int32"
        )  # type: ignore[arg-type, unused-ignore]
        array[:] = np.arange(24, dtype="int32").reshape(6, 4)


def _write_virtual(session: Any, root: zarr.Group, files: Path) -> None:
    root.create_array(
        "virtual", shape=(32,), chunks=(8,), dtype="uint8", compressors=None, filters=None
    )
    place = f"file://{files}/v.bin"
    session.store.set_virtual_ref("virtual/c/0", place, offset=8, length=8)
    session.store.set_virtual_ref("virtual/c/2", "vcc://files/v.bin", offset=64, length=8)


def _write_consolidated(session: Any) -> None:
    """A group whose document holds those of its members, too, as some writers leave it."""
    member = json.loads(sync(_read(session.store, "scalar/zarr.json")))
    consolidated = {"kind": "inline", "must_understand": False, "metadata": {"x": member}}
    group = {
        "zarr_format": 3, "node_type": "group", "attributes": {"n": 1},
        "consolidated_metadata": consolidated,
    }  # fmt: skip
    sync(_write(session.store, "consolidated/zarr.json", json.dumps(group).encode()))
    sync(_write(session.store, "consolidated/x/zarr.json", json.dumps(member).encode()))


async def _read(store: Any, key: str) -> Any:
    return (await store.get(key, default_buffer_prototype())).to_bytes()


async def _write(store: Any, key: str, data: bytes) -> None:
    await store.set(key, default_buffer_prototype().buffer.from_bytes(data))


def _write_second(repository: Any) -> None:
    session = repository.writable_session("main")
    root: Any = zarr.open_group(session.store, mode="a")
    root["large"].resize((34, 20))
    root["large"][30:] = -1
    root["types/3"].resize((2,))
    root["types/4"].attrs["unit"] = "K"
    root.attrs["commit"] = 2
    del root["types/5"]
    del root["deep/a/b/c"]
    session.shift_array("/virtual", [1])
    repository.create_tag("second", session.commit("second"))
    session = repository.writable_session("main")
    zarr.open_group(session.store, mode="a").create_group("flushed")
    repository.create_tag("flushed", session.flush("detached"))


def _write_branch(repository: Any) -> None:
    repository.create_branch("dev", repository.lookup_tag("first"))
    session = repository.writable_session("dev")
    fork = session.fork()
    member: Any = zarr.open_group(fork.store, mode="a")
    member["large"][:4] = 0
    session.merge(fork)
    session.commit("on a branch")


def _amend(repository: Any) -> None:
    session = repository.writable_session("dev")
    zarr.open_group(session.store, mode="a").create_group("amended")
    session.amend("amended", metadata={"by": "amend"})


def _rearrange(repository: Any) -> None:
    session = repository.rearrange_session("main")
    session.move("/types/0", "/deep/moved")
    session.move("/deep", "/shallow")
    session.commit("moved")
