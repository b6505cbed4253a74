"""Repositories that the official library writes, with contents drawn from a seed."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import zarr
from icechunk.credentials import LocalFileSystemAccess

# Names whose order by bytes is not their order by segments, and some beyond ASCII.
_NAMES = ("a", "a-b", "a b", "a.b", "ab", "Z", "é", "température", "☀", "𝄞", "x_1", "b", "c-", "c")
_DTYPES = ("int8", "uint16", "int32", "int64", "float32", "float64", "bool", "complex64")
_METADATA: tuple[Any, ...] = (
    None, True, -1, 2**40, 2**63 + 5, 0.1, -0.0, "", "été ☃", [], {}, [1, "two", None, [3.5]],
    [True, False], [1, 2, 3], [0.5, 1.5], {"deep": {"er": [{"k": None}]}}, ["a", "b"], 1e300,
)  # fmt: skip
_VIRTUAL_FILES = 12
_VIRTUAL_FILE_SIZE = 4096


def write_random_repository(path: str, spec_version: int, seed: int, virtual_path: str) -> None:
    """Write a repository with several commits, branches and tags into an empty directory."""
    chance = random.Random(seed)
    virtual = _write_virtual_files(Path(virtual_path), chance)
    repository = _create(path, spec_version, virtual, chance)
    _write_commits(repository, "main", virtual, chance)
    # On a local disk the official library can't list V1 refs whose names are not ASCII.
    names = ("dev", "v 1, really!", "t2") if spec_version == 1 else ("dev é", "v1", "étiquette ☀")
    _change_refs(repository, names, virtual, chance)
    if spec_version == 2:
        _add_rectilinear_array(repository, chance)
        _rearrange(repository)
        _amend(repository, chance)
        _change_state(repository, chance)
    _flush(repository)
    if spec_version == 2 and chance.random() < 0.5:
        _expire(repository)


def _write_virtual_files(directory: Path, chance: random.Random) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(_VIRTUAL_FILES):
        (directory / f"file {number}.bin").write_bytes(chance.randbytes(_VIRTUAL_FILE_SIZE))
    return directory


def _create(
    path: str, spec_version: int, virtual: Path, chance: random.Random
) -> icechunk.Repository:
    config = icechunk.RepositoryConfig(inline_chunk_threshold_bytes=chance.choice((0, 16, 64)))
    config.num_updates_per_repo_info_file = chance.choice((3, 7, 1000))
    prefix = f"file://{virtual}/"
    store = icechunk.storage.local_filesystem_store(str(virtual))
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store, name="local"))
    splits: Any = {
        icechunk.ManifestSplitCondition.AnyArray(): {
            icechunk.ManifestSplitDimCondition.Any(): chance.choice((2, 3, 100))
        }
    }
    config.manifest = icechunk.ManifestConfig(
        splitting=icechunk.ManifestSplittingConfig.from_dict(splits),
        virtual_chunk_location_compression=icechunk.ManifestVirtualChunkLocationCompressionConfig(
            min_num_chunks=chance.choice((20, 1000))
        ),
    )
    storage = icechunk.local_filesystem_storage(path)
    access: Any = {prefix: LocalFileSystemAccess}
    repository = icechunk.Repository.create(storage, config, access, spec_version=spec_version)
    repository.save_config()
    return repository


def _metadata(chance: random.Random) -> dict[str, Any]:
    values = chance.sample(_METADATA, chance.randrange(6))
    return {f"clé {number}": value for number, value in enumerate(values)}


# Commits


def _write_commits(
    repository: icechunk.Repository, branch: str, virtual: Path, chance: random.Random
) -> None:
    for number in range(chance.randrange(2, 4)):
        session = repository.writable_session(branch)
        root = zarr.open_group(session.store, mode="a")
        root.attrs["commit"] = f"{branch} {number}"
        for _ in range(chance.randrange(3, 7)):
            _CHANGES[chance.randrange(len(_CHANGES))](session, root, chance)
        _write_virtual_array(session, root, virtual, chance)
        session.commit(f"commit {number}: ☃ été", metadata=_metadata(chance))


def _groups(root: zarr.Group) -> list[zarr.Group]:
    groups = [node for _, node in sorted(root.members(None)) if isinstance(node, zarr.Group)]
    return [root, *groups]


def _arrays(root: zarr.Group) -> list[zarr.Array[Any]]:
    return [node for _, node in sorted(root.members(None)) if isinstance(node, zarr.Array)]


def _free_name(group: zarr.Group, chance: random.Random) -> str:
    taken = set(group.keys())
    return chance.choice(
        [name for name in _NAMES if name not in taken] or [chance.randbytes(4).hex()]
    )


def _add_group(_: icechunk.Session, root: zarr.Group, chance: random.Random) -> None:
    parent = chance.choice(_groups(root))
    parent.create_group(_free_name(parent, chance), attributes=_metadata(chance))


def _add_array(_: icechunk.Session, root: zarr.Group, chance: random.Random) -> None:
    parent = chance.choice(_groups(root))
    axes = chance.randrange(5)
    shape = tuple(chance.randrange(1, 9) for _ in range(axes))
    names = [chance.choice((None, "x", "température", f"axis{axis}")) for axis in range(axes)]
    array = parent.create_array(
        _free_name(parent, chance),
        shape=shape,
        chunks=tuple(chance.randrange(1, length + 1) for length in shape),
        dtype=chance.choice(_DTYPES),
        dimension_names=names if chance.random() < 0.5 else None,
    )
    if chance.random() < 0.8:
        array[...] = _values(array.shape, array.dtype, chance)


def _values(shape: tuple[int, ...], dtype: np.dtype[Any], chance: random.Random) -> Any:
    numbers = [chance.randrange(1, 100) for _ in range(int(np.prod(shape)))]
    return np.array(numbers).reshape(shape).astype(dtype)


def _write_region(_: icechunk.Session, root: zarr.Group, chance: random.Random) -> None:
    candidates = [array for array in _arrays(root) if array.ndim and "virtual" not in array.path]
    if candidates:
        array = chance.choice(candidates)
        start = chance.randrange(array.shape[0])
        array[start:] = _values((array.shape[0] - start, *array.shape[1:]), array.dtype, chance)


def _resize(_: icechunk.Session, root: zarr.Group, chance: random.Random) -> None:
    candidates = [array for array in _arrays(root) if array.ndim]
    if candidates:
        array = chance.choice(candidates)
        array.resize((chance.randrange(1, 12), *array.shape[1:]))


def _update_attributes(_: icechunk.Session, root: zarr.Group, chance: random.Random) -> None:
    node: Any = chance.choice([*_groups(root), *_arrays(root)])
    node.update_attributes(_metadata(chance))


def _delete(_: icechunk.Session, root: zarr.Group, chance: random.Random) -> None:
    nodes: list[Any] = [*_groups(root)[1:], *_arrays(root)]
    if nodes and chance.random() < 0.5:
        del root[chance.choice(nodes).path]


_CHANGES = (_add_group, _add_array, _add_array, _write_region, _resize, _update_attributes, _delete)


def _write_virtual_array(
    session: icechunk.Session, root: zarr.Group, virtual: Path, chance: random.Random
) -> None:
    count = chance.randrange(1, 60)
    name = f"virtual {chance.randrange(10**6)}"
    root.create_array(
        name, shape=(count * 4,), chunks=(4,), dtype="uint8", compressors=None, filters=None
    )
    for index in range(count):
        file = virtual / f"file {chance.randrange(_VIRTUAL_FILES)}.bin"
        location = chance.choice((f"file://{file}", f"vcc://local/{file.name}"))
        checksum = chance.choice((None, datetime(2100, 1, 1, tzinfo=UTC)))
        session.store.set_virtual_ref(
            f"{name}/c/{index}",
            location.replace(" ", "%20"),
            offset=chance.randrange(_VIRTUAL_FILE_SIZE - 4),
            length=4,
            checksum=checksum,
        )


# Refs and state


def _change_refs(
    repository: icechunk.Repository, names: Sequence[str], virtual: Path, chance: random.Random
) -> None:
    branch, *tags = names
    ids = [info.id for info in repository.ancestry(branch="main")]
    repository.create_branch(branch, chance.choice(ids))
    _write_commits(repository, branch, virtual, chance)
    repository.create_branch("gone", ids[0])
    repository.delete_branch("gone")
    repository.create_branch("moved", ids[0])
    repository.reset_branch("moved", ids[-1])
    for name in (*tags, "dropped"):
        repository.create_tag(name, chance.choice(ids))
    repository.delete_tag("dropped")


def _add_rectilinear_array(repository: icechunk.Repository, chance: random.Random) -> None:
    session = repository.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    # zarr-python only types this since a later release than Python 3.11 gets.
    lengths: Any = [
        [chance.randrange(1, 5) for _ in range(chance.randrange(1, 4))] for _ in range(2)
    ]
    shape = tuple(map(sum, lengths))
    array = root.create_array("rectilinear", shape=shape, chunks=lengths, dtype="int32")
    array[...] = _values(shape, array.dtype, chance)
    session.commit("chunks of unequal lengths")


def _rearrange(repository: icechunk.Repository) -> None:
    session = repository.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    root.create_group("from/here/down")
    root.create_group("from/here-too")
    session.commit("to be moved")
    session = repository.rearrange_session("main")
    session.move("/from", "/moved-to")
    session.move("/moved-to/here/down", "/up")
    session.commit("moved")


def _amend(repository: icechunk.Repository, chance: random.Random) -> None:
    for message in ("to be amended", "amended"):
        session = repository.writable_session("main")
        zarr.open_group(session.store, mode="a").attrs["amend"] = chance.random()
        if message == "amended":
            session.amend(message, metadata=_metadata(chance))
        else:
            session.commit(message)


def _flush(repository: icechunk.Repository) -> None:
    session = repository.writable_session("main")
    zarr.open_group(session.store, mode="a").create_group("detached")
    session.flush("flushed")


def _change_state(repository: icechunk.Repository, chance: random.Random) -> None:
    repository.set_metadata(_metadata(chance))
    repository.update_metadata({"more": "é"})
    repository.set_feature_flag("create_tag", True)
    repository.set_feature_flag("delete_tag", False)
    repository.set_feature_flag("move_node", chance.choice((True, False, None)))
    online = icechunk.RepoAvailability.online
    repository.set_status(icechunk.RepoStatus(online, limited_availability_reason="pourquoi ☂"))


def _expire(repository: icechunk.Repository) -> None:
    ancestry = list(repository.ancestry(branch="main"))
    repository.expire_snapshots(ancestry[min(2, len(ancestry) - 1)].written_at)


# Single changes


def write_group(repository: icechunk.Repository, branch: str, path: str, message: str) -> str:
    """Commit one new group; returns the new snapshot's id."""
    session = repository.writable_session(branch)
    zarr.open_group(session.store, mode="a").create_group(path)
    return str(session.commit(message))
