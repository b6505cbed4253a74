"""Files of development builds, whose structs mix the layouts of two releases."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zarr

from frazil import Repository, create_legacy
from frazil.errors import FormatError
from frazil.format import alpha
from frazil.format.alpha import LAYOUTS, open_envelope, pack, seal_envelope, unpack
from frazil.format.header import Dialect, FileType
from frazil.format.ids import ManifestId
from frazil.storage.memory import MemoryStorage

BUILD = "ic-0.1.0-alpha.15"
VALUES = np.arange(40, dtype="int32")
Change = Callable[[Any], Any]


def with_versions_of_manifests(snapshot: tuple[Any, ...]) -> tuple[Any, ...]:
    """Eight fields whose manifest files have an id, a version, a size and a number of rows."""
    *first, infos, attributes, nodes = snapshot
    return (*first, tuple((id, 1, *sizes) for id, *sizes in infos), attributes, nodes)


def rewrite(storage: MemoryStorage, folder: str, kind: FileType, change: Change) -> None:
    for info in list(storage.list(f"{folder}/")):
        payload = open_envelope(bytes(storage.get(info.key)), kind).payload
        changed = pack(change(unpack(payload)))
        layout = LAYOUTS[Dialect.ALPHA_H]
        storage.put(info.key, seal_envelope(changed, kind, layout, BUILD, 3))


@pytest.fixture
def storage() -> MemoryStorage:
    """A repository as builds of late January 2025 wrote it: new snapshots, old everything else."""
    storage = MemoryStorage()
    session = create_legacy(storage, Dialect.ALPHA_H.value).writable_session("main")
    root = zarr.create_group(session.store)
    root.create_array("numbers", shape=(40,), chunks=(10,), dtype="int32")[:] = VALUES
    session.commit("numbers")
    rewrite(storage, "manifests", FileType.MANIFEST, lambda tree: (1, {}, *tree))
    sizes = {info.key: info.size_bytes for info in storage.list("manifests/")}

    def correct(tree: Any) -> Any:
        *first, infos, attributes, nodes = with_versions_of_manifests(tree)
        keys = [f"manifests/{ManifestId(id[0])}" for id, *_ in infos]
        infos = tuple(
            (id, version, sizes[key], rows)
            for key, (id, version, _, rows) in zip(keys, infos, strict=True)
        )
        return (*first, infos, attributes, nodes)

    rewrite(storage, "snapshots", FileType.SNAPSHOT, correct)
    rewrite(storage, "transactions", FileType.TRANSACTION_LOG, lambda tree: (1, *tree))
    return storage


def read(repository: Repository, name: str) -> Any:
    array = zarr.open_array(repository.readonly_session("main").store, path=name, mode="r")
    return array[:]


def test_a_repository_of_a_development_build_is_read(storage: MemoryStorage) -> None:
    repository = Repository.open(storage)

    np.testing.assert_array_equal(read(repository, "numbers"), VALUES)
    assert next(info.message for info in repository.ancestry(branch="main")) == "numbers"
    assert repository.check().is_healthy


def test_a_repository_of_a_development_build_is_committed_to(storage: MemoryStorage) -> None:
    session = Repository.open(storage).writable_session("main")
    root = zarr.open_group(session.store)
    root.create_array("more", shape=(3,), chunks=(1,), dtype="int32")[:] = 7
    open_numbers = zarr.open_array(session.store, path="numbers")
    open_numbers[:10] = -1
    session.commit("more")

    repository = Repository.open(storage)
    np.testing.assert_array_equal(read(repository, "more"), [7, 7, 7])
    np.testing.assert_array_equal(read(repository, "numbers"), [*[-1] * 10, *VALUES[10:]])
    assert repository.check().is_healthy


NEIGHBOURS: dict[str, Change] = {
    "a version before all": lambda tree: (1, *tree),
    "a version and flags before all": lambda tree: (1, {}, *tree),
    "manifest files with versions": with_versions_of_manifests,
    "both": lambda tree: (1, {}, *with_versions_of_manifests(tree)),
}


@pytest.mark.parametrize("change", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_a_snapshot_means_the_same_in_every_mixture(storage: MemoryStorage, change: Change) -> None:
    tip = Repository.open(storage).lookup_branch("main")
    plain = unpack(snapshot_payload(storage, tip))
    as_released = (*plain[:5], tuple((id, *sizes) for id, _, *sizes in plain[5]), *plain[6:])

    expected = alpha.decode_snapshot_payload(pack(as_released), None)
    found = alpha.decode_snapshot_payload(pack(change(as_released)), None)

    assert found == expected
    assert found.value.manifest_files[0].num_chunk_refs == 4
    assert found.dialect is Dialect.ALPHA_H


@pytest.mark.parametrize("sizes", [(), (1,), (500,), (1, 500), (500, 4), (1, 500, 4)])
@pytest.mark.parametrize("dialect", [Dialect.ALPHA_D, Dialect.ALPHA_F, Dialect.ALPHA_G])
def test_sizes_of_manifest_files_are_reported_by_their_shape(
    dialect: Dialect, sizes: tuple[int, ...]
) -> None:
    id = "0" * 20
    leading: tuple[object, ...] = (0, {}) if dialect is Dialect.ALPHA_D else ()
    own = (id if dialect is Dialect.ALPHA_D else (bytes(12), ()), "2025-01-27T00:00:00Z", "m")
    tree = (*leading, ((id, *sizes),), (), 0, 0, (), own, "2025-01-27T00:00:00Z", {}, {})

    (file,) = alpha.decode_snapshot_payload(pack(tree), None).value.manifest_files

    assert file.size_bytes == (500 if 500 in sizes else None)
    assert file.num_chunk_refs == (4 if 4 in sizes else None)


@pytest.mark.parametrize("sizes", [(1, 2, 3, 4), ("1",), (-1,), (1, None)])
def test_what_is_no_description_of_a_manifest_file_is_refused(sizes: tuple[object, ...]) -> None:
    own = ((bytes(12), ()), "2025-01-27T00:00:00Z", "m")
    infos = ((("0" * 20), *sizes),)
    tree: tuple[object, ...] = (infos, (), 0, 0, (), own, "2025-01-27T00:00:00Z", {}, {})

    with pytest.raises(FormatError, match="manifest_files"):
        alpha.decode_snapshot_payload(pack(tree), None)


def snapshot_payload(storage: MemoryStorage, id: str) -> bytes:
    data = bytes(storage.get(f"snapshots/{id}"))
    return open_envelope(data, FileType.SNAPSHOT).payload


@pytest.mark.parametrize("leading", [(1,), (1, {}), ()])
@pytest.mark.parametrize("with_id", [False, True])
@pytest.mark.parametrize("by_node", [False, True])
def test_a_manifest_is_read_in_every_mixture(
    leading: tuple[object, ...], with_id: bool, by_node: bool
) -> None:
    node, payload = (bytes(8), ()), {"Inline": b"chunk"}
    chunks: dict[Any, Any] = {node: {(0,): payload}} if by_node else {(node, (0,)): payload}
    ids = ((bytes(12), ()),) if with_id else ()
    if not leading and not with_id:
        with pytest.raises(FormatError):
            alpha.decode_manifest_payload(pack((chunks,)), None)
        return

    header = open_envelope(
        seal_envelope(b"\x90", FileType.MANIFEST, LAYOUTS[Dialect.ALPHA_H], BUILD, 3),
        FileType.MANIFEST,
    ).header
    manifest = alpha.decode_manifest_payload(pack((*leading, *ids, chunks)), header).value

    assert (manifest.id is not None) is with_id
    assert len(manifest) == 1
