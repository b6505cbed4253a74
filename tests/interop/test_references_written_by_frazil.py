"""Manifests that Frazil encodes, as the official library reads them."""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from frazil.format.files import FileEncoding
from frazil.format.header import Dialect
from frazil.format.ids import ChunkId, NodeId
from frazil.format.manifest import (
    Checksum,
    ChunkRef,
    ETag,
    InlineRef,
    LastModified,
    Manifest,
    NativeRef,
    VirtualRef,
)
from frazil.format.snapshot import Node
from tests.interop.building import (
    DIALECTS,
    FIRST_SNAPSHOT,
    Contents,
    RepositoryFiles,
    make_array,
    make_group,
    make_id,
    make_manifest,
    make_snapshot,
    manifest_ref,
)
from tests.interop.descriptions import describe_manifest, describe_refs
from tests.interop.official_library import (
    Container,
    OfficialError,
    OfficialLibrary,
    OfficialRepository,
)

Refs = Mapping[tuple[int, ...], ChunkRef]

SNAPSHOT = str(make_snapshot("references", FIRST_SNAPSHOT, []).id)


@pytest.fixture(params=DIALECTS, ids=lambda dialect: f"v{dialect.value}")
def files(request: pytest.FixtureRequest, tmp_path: Path) -> RepositoryFiles:
    return RepositoryFiles(tmp_path / "repo", request.param)


@pytest.fixture
def files_v2(tmp_path: Path) -> RepositoryFiles:
    return RepositoryFiles(tmp_path / "repo", Dialect.V2)


@pytest.fixture
def virtual(tmp_path: Path) -> Path:
    """A directory for files outside the repository."""
    directory = tmp_path / "virtual"
    directory.mkdir()
    return directory


def commit(files: RepositoryFiles, nodes: Sequence[Node], manifests: Sequence[Manifest]) -> None:
    """A repository of one commit, whose arrays have all references that the manifests give them."""
    listed = [files.write_manifest(manifest) for manifest in manifests]
    connected = [_connect(node, manifests) for node in nodes]
    snapshot = make_snapshot("references", FIRST_SNAPSHOT, [make_group("/"), *connected], listed)
    files.write(Contents([FIRST_SNAPSHOT, snapshot], {"main": snapshot.id}))


def _connect(node: Node, manifests: Sequence[Manifest]) -> Node:
    if node.array is None:
        return node
    refs = [manifest_ref(m, node.path) for m in manifests if node.id in m.arrays]
    return replace(node, array=replace(node.array, manifests=tuple(refs)))


def read_refs(repository: OfficialRepository, path: str) -> list[dict[str, object]]:
    refs: list[dict[str, object]] = repository.call(
        "read_chunk_refs", snapshot_id=SNAPSHOT, path=path
    )
    return refs


def read_data(repository: OfficialRepository, path: str) -> bytes:
    data: bytes = repository.call("read_array", snapshot_id=SNAPSHOT, path=path)["data"]
    return data


def write_one_reference(files: RepositoryFiles, virtual: Path, checksum: Checksum | None) -> None:
    """An array of one virtual chunk, four bytes of a file."""
    ref = VirtualRef(f"file://{virtual}/file.bin", 2, 4, checksum)
    manifest = make_manifest("checksum", {"/v": {(0,): ref}})
    commit(files, [make_array("/v", [4], [4])], [manifest])


# The three kinds


def test_references_of_all_kinds_in_one_array_give_their_bytes(
    files: RepositoryFiles, official: OfficialLibrary, virtual: Path
) -> None:
    (virtual / "file.bin").write_bytes(b"__virtual__")
    chunk_id = files.write_chunk(b"native!")
    refs: Refs = {
        (0,): InlineRef(b"inline!"),
        (1,): NativeRef(chunk_id, 0, 7),
        (2,): VirtualRef(f"file://{virtual}/file.bin", 2, 7),
        (4,): InlineRef(b"\0\1\2\3\4\5\6"),
    }
    manifest = make_manifest("all", {"/mixed": refs})

    commit(files, [make_array("/mixed", [35], [7])], [manifest])

    repository = official.open(files.root, [Container.of(virtual)])
    assert read_refs(repository, "/mixed") == describe_refs(refs)
    assert read_data(repository, "/mixed") == (
        b"inline!native!virtual" + bytes(7) + b"\0\1\2\3\4\5\6"
    )
    inspected = repository.call("inspect_manifest", manifest_id=str(manifest.id))
    assert describe_manifest(manifest).items() <= inspected.items()


def test_native_references_may_start_inside_a_chunk_file(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    chunk_id = files.write_chunk(bytes(range(100)))
    refs: Refs = {
        (0, 0): NativeRef(chunk_id, 0, 4),
        (0, 1): NativeRef(chunk_id, 50, 4),
        (1, 0): NativeRef(chunk_id, 96, 4),
    }
    manifest = make_manifest("offsets", {"/packed": refs})

    commit(files, [make_array("/packed", [4, 4], [2, 2])], [manifest])

    repository = official.open(files.root)
    assert read_refs(repository, "/packed") == describe_refs(refs)
    keys = ["packed/c/0/0", "packed/c/0/1", "packed/c/1/0", "packed/c/1/1"]
    assert repository.call("read_values", snapshot_id=SNAPSHOT, keys=keys) == {
        keys[0]: bytes(range(4)),
        keys[1]: bytes(range(50, 54)),
        keys[2]: bytes(range(96, 100)),
        keys[3]: None,
    }


def test_a_scalar_has_one_chunk_without_coordinates(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    refs: Refs = {(): InlineRef(b"\x2a")}
    manifest = make_manifest("scalar", {"/scalar": refs})

    commit(files, [make_array("/scalar", [], [])], [manifest])

    repository = official.open(files.root)
    assert read_refs(repository, "/scalar") == describe_refs(refs)
    assert read_data(repository, "/scalar") == b"\x2a"


def test_arrays_of_four_axes_keep_every_reference(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    grid = itertools.product(range(3), range(2), range(4), range(5))
    refs: Refs = {at: InlineRef(bytes([n])) for n, at in enumerate(grid) if n % 3}
    manifest = make_manifest("four", {"/four": refs})

    commit(files, [make_array("/four", [3, 2, 4, 5], [1, 1, 1, 1])], [manifest])

    repository = official.open(files.root)
    assert read_refs(repository, "/four") == describe_refs(refs)
    assert read_data(repository, "/four") == bytes(n if n % 3 else 0 for n in range(120))


def test_large_numbers_survive(files: RepositoryFiles, official: OfficialLibrary) -> None:
    far = 2**32 - 2
    refs: Refs = {
        (0, far): VirtualRef("s3://bucket/key", 2**63, 2**62),
        (far, 0): NativeRef(make_id(ChunkId, "far"), 2**40, 2**41),
    }
    manifest = make_manifest("large", {"/large": refs})

    commit(files, [make_array("/large", [2**32 - 1, 2**32 - 1], [1, 1])], [manifest])

    assert read_refs(official.open(files.root), "/large") == describe_refs(refs)


# Locations


def test_references_may_share_a_location(
    files: RepositoryFiles, official: OfficialLibrary, virtual: Path
) -> None:
    (virtual / "one.bin").write_bytes(bytes(range(200)))
    (virtual / "two.bin").write_bytes(bytes(reversed(range(200))))
    locations = f"file://{virtual}/one.bin", f"file://{virtual}/two.bin"
    refs: Refs = {(n,): VirtualRef(locations[n % 2], n, 1) for n in range(200)}
    manifest = make_manifest("shared", {"/shared": refs})

    written = files.write_manifest(manifest)
    commit(files, [make_array("/shared", [200], [1])], [manifest])

    repository = official.open(files.root, [Container.of(virtual)])
    assert read_refs(repository, "/shared") == describe_refs(refs)
    assert read_data(repository, "/shared") == bytes(199 - n if n % 2 else n for n in range(200))
    assert written.size_bytes is not None
    assert written.size_bytes < 200 * len(locations[0])


def test_a_dictionary_compresses_many_locations_but_not_the_long_ones(
    files_v2: RepositoryFiles, official: OfficialLibrary, virtual: Path
) -> None:
    long_names = ["/".join(["d" * 200] * 5) + f"/{number}" for number in range(5)]
    for number, name in enumerate([*long_names, "short/0", "short/1"]):
        path = virtual / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"_" * number + b"%04d" % number)
    names = [*long_names, *(f"short/{number}" for number in range(1500))]
    locations = [f"file://{virtual}/{name}" for name in names]
    refs: Refs = {(n,): VirtualRef(location, n, 4) for n, location in enumerate(locations)}
    manifest = make_manifest("dictionary", {"/many": refs})

    commit(files_v2, [make_array("/many", [4 * len(refs)], [4])], [manifest])

    repository = official.open(files_v2.root, [Container.of(virtual)])
    compression = repository.call("inspect_manifest", manifest_id=str(manifest.id))["compression"]
    assert compression["uses_location_compression"]
    assert compression["num_compressed_refs"] == 1500
    assert 0 < compression["dictionary_size_bytes"] <= 2048
    assert min(map(len, locations[:5])) > 1024
    assert read_refs(repository, "/many") == describe_refs(refs)
    assert repository.call("read_locations", snapshot_id=SNAPSHOT) == sorted(locations)
    keys = [f"many/c/{number}" for number in range(7)]
    values = repository.call("read_values", snapshot_id=SNAPSHOT, keys=keys)
    assert values == {key: b"%04d" % number for number, key in enumerate(keys)}


def test_references_share_compressed_locations_too(
    files_v2: RepositoryFiles, official: OfficialLibrary
) -> None:
    refs: Refs = {
        (n, m): VirtualRef(f"s3://bucket/été/file-{n:05}.nc", 100 * m, 100 + m)
        for n in range(1100)
        for m in range(3)
    }
    manifest = make_manifest("shared", {"/shared": refs})

    commit(files_v2, [make_array("/shared", [1100, 3], [1, 1])], [manifest])

    repository = official.open(files_v2.root)
    compression = repository.call("inspect_manifest", manifest_id=str(manifest.id))["compression"]
    assert compression["num_compressed_refs"] == 3300
    assert read_refs(repository, "/shared") == describe_refs(refs)


def test_many_locations_stay_as_they_are_in_v1_and_where_the_options_say_so(
    official: OfficialLibrary, tmp_path: Path
) -> None:
    refs: Refs = {(n,): VirtualRef(f"gcs://bucket/{n}.nc", n, 8) for n in range(1200)}
    manifest = make_manifest("plain", {"/plain": refs})
    plain = FileEncoding(location_compression=None)

    for files in (
        RepositoryFiles(tmp_path / "v1", Dialect.V1),
        RepositoryFiles(tmp_path / "v2", Dialect.V2, plain),
    ):
        commit(files, [make_array("/plain", [1200], [1])], [manifest])
        repository = official.open(files.root)
        inspected = repository.call("inspect_manifest", manifest_id=str(manifest.id))
        assert not inspected["compression"]["uses_location_compression"]
        assert inspected["total_virtual"] == 1200
        assert read_refs(repository, "/plain") == describe_refs(refs)


def test_locations_relative_to_a_named_container_are_found(
    files_v2: RepositoryFiles, official: OfficialLibrary, virtual: Path
) -> None:
    (virtual / "file.bin").write_bytes(b"relative")
    manifest = make_manifest("vcc", {"/v": {(0,): VirtualRef("vcc://here/file.bin", 0, 8)}})

    commit(files_v2, [make_array("/v", [8], [8])], [manifest])

    repository = official.open(files_v2.root, [Container.of(virtual, "here")])
    assert read_data(repository, "/v") == b"relative"


# Checksums


def test_a_chunk_is_read_if_its_file_has_the_recorded_etag(
    files: RepositoryFiles, official: OfficialLibrary, virtual: Path
) -> None:
    (virtual / "file.bin").write_bytes(b"__data__")
    repository = official.open(files.root, [Container.of(virtual)])

    # Of a local file the official library takes no etag for the right one but this, which any is.
    write_one_reference(files, virtual, ETag("*"))
    assert read_data(repository, "/v") == b"data"

    write_one_reference(files, virtual, ETag("another"))
    with pytest.raises(OfficialError, match="virtual-chunk-modified"):
        read_data(repository, "/v")


def test_a_chunk_is_read_while_its_file_is_not_newer_than_recorded(
    files: RepositoryFiles, official: OfficialLibrary, virtual: Path
) -> None:
    file = virtual / "file.bin"
    file.write_bytes(b"__data__")
    os.utime(file, (1_600_000_000, 1_600_000_000))

    write_one_reference(files, virtual, LastModified(1_600_000_001))
    repository = official.open(files.root, [Container.of(virtual)])

    assert read_data(repository, "/v") == b"data"
    os.utime(file, (1_600_000_009, 1_600_000_009))
    with pytest.raises(OfficialError, match="virtual-chunk-modified"):
        read_data(repository, "/v")


def test_checksums_of_both_kinds_stand_beside_references_without_one(
    files: RepositoryFiles, official: OfficialLibrary, virtual: Path
) -> None:
    file = virtual / "file.bin"
    file.write_bytes(bytes(range(8)))
    os.utime(file, (1_600_000_000, 1_600_000_000))
    location = f"file://{file}"
    refs: Refs = {
        (0,): VirtualRef(location, 0, 1),
        (1,): VirtualRef(location, 1, 1, ETag("another")),
        (2,): VirtualRef(location, 2, 1, LastModified(1_600_000_000)),
        (3,): VirtualRef(location, 3, 1, LastModified(1_500_000_000)),
        (4,): VirtualRef(location, 4, 1),
    }
    manifest = make_manifest("checksums", {"/v": refs})

    commit(files, [make_array("/v", [5], [1])], [manifest])
    repository = official.open(files.root, [Container.of(virtual)])

    readable = ["v/c/0", "v/c/2", "v/c/4"]
    values = repository.call("read_values", snapshot_id=SNAPSHOT, keys=readable)
    assert values == {"v/c/0": b"\0", "v/c/2": b"\2", "v/c/4": b"\4"}
    for key in ("v/c/1", "v/c/3"):
        with pytest.raises(OfficialError, match="virtual-chunk-modified"):
            repository.call("read_values", snapshot_id=SNAPSHOT, keys=[key])


# Several manifests, several arrays


def test_an_array_split_over_several_manifests_is_whole(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    grid = list(itertools.product(range(7), range(5)))
    refs: Refs = {at: InlineRef(bytes([n])) for n, at in enumerate(grid)}
    node = make_array("/split", [7, 5], [1, 1])
    table = make_manifest("whole", {"/split": refs}).tables()[node.id]
    pieces = table.split([[0, 2, 4, 6, 7], [0, 3, 5]])
    manifests = [
        Manifest(make_manifest(f"piece {cell}", {"/split": refs}).id, {node.id: piece})
        for cell, piece in sorted(pieces.items())
    ]

    commit(files, [node], manifests)

    repository = official.open(files.root)
    assert len(manifests) == 8
    assert read_refs(repository, "/split") == describe_refs(refs)
    assert read_data(repository, "/split") == bytes(range(35))


def test_one_manifest_serves_several_arrays(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    paths = [f"/array {number}" for number in range(20)]
    refs: dict[str, Refs] = {
        path: {(n,): InlineRef(bytes([number, n])) for n in range(number % 4 + 1)}
        for number, path in enumerate(paths)
    }
    manifest = make_manifest("several", refs)

    commit(files, [make_array(path, [8], [2]) for path in paths], [manifest])

    repository = official.open(files.root)
    for path in paths:
        assert read_refs(repository, path) == describe_refs(refs[path])
    found = repository.call("read_array", snapshot_id=SNAPSHOT, path="array 3")
    assert found["data"] == bytes([3, 0, 3, 1, 3, 2, 3, 3])
    inspected = repository.call("inspect_manifest", manifest_id=str(manifest.id))
    assert describe_manifest(manifest).items() <= inspected.items()


def test_arrays_in_one_manifest_share_compressed_locations(
    files_v2: RepositoryFiles, official: OfficialLibrary
) -> None:
    refs: dict[str, Refs] = {
        path: {(n,): VirtualRef(f"s3://bucket/run/{n:04}.nc", start + n, 8) for n in range(1000)}
        for path, start in (("/t", 0), ("/u", 10_000), ("/v", 20_000))
    }
    manifest = make_manifest("several", refs)

    commit(files_v2, [make_array(path, [1000], [1]) for path in refs], [manifest])

    repository = official.open(files_v2.root)
    compression = repository.call("inspect_manifest", manifest_id=str(manifest.id))["compression"]
    assert compression["num_compressed_refs"] == 3000
    for path in refs:
        assert read_refs(repository, path) == describe_refs(refs[path])


# Fields for extensions


def test_extra_bytes_in_a_manifest_are_passed_over(
    files_v2: RepositoryFiles, official: OfficialLibrary
) -> None:
    refs: Refs = {(n,): InlineRef(bytes([n])) for n in range(5)}
    node_id = make_id(NodeId, "/extra")
    table = make_manifest("extra", {"/extra": refs}).tables()[node_id]
    table = replace(table, extra=np.array([0, -1, 1, -1, 0], np.int32), extras=(b"one", b"two"))
    manifest = Manifest(
        make_manifest("extra", {"/extra": refs}).id,
        {node_id: table},
        extra=b"of the manifest",
        array_extras={node_id: b"of the array"},
    )

    commit(files_v2, [make_array("/extra", [5], [1])], [manifest])

    repository = official.open(files_v2.root)
    assert read_refs(repository, "/extra") == describe_refs(refs)
    assert read_data(repository, "/extra") == bytes(range(5))
