"""What both libraries say about the files and the changes of a repository that either has written."""

import asyncio
import random
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from tests.interop.official_library import Container, OfficialLibrary, OfficialRepository
from tests.interop.rebase_scenarios import describe_diff

MANY = 1500
"""Enough virtual chunks for a dictionary of their locations."""


class Both:
    """One repository, seen through both libraries."""

    def __init__(self, official: OfficialLibrary, root: Path, virtual: Container) -> None:
        self.root = root
        self.official: OfficialRepository = official.open(root, [virtual])
        config = frazil.RepositoryConfig()
        config.set_virtual_chunk_container(
            frazil.VirtualChunkContainer(
                virtual.url_prefix,
                frazil.local_filesystem_store(virtual.path),
                name=virtual.name,
            )
        )
        self.frazil = frazil.Repository.open(frazil.local_filesystem_storage(str(root)), config)

    def files(self, folder: str) -> list[str]:
        """The ids of the files in a folder."""
        return sorted(path.name for path in (self.root / folder).iterdir())


@pytest.fixture(
    scope="module", params=[(w, v) for w in ("official", "frazil") for v in (1, 2)], ids=str
)
def both(
    request: pytest.FixtureRequest,
    official: OfficialLibrary,
    tmp_path_factory: pytest.TempPathFactory,
) -> Both:
    """A repository of either version that either library has written."""
    writer, version = request.param
    directory = tmp_path_factory.mktemp("inspected")
    virtual = Container.of(directory / "virtual", "local")
    root = directory / "repo"
    if writer == "frazil":
        Path(virtual.path).mkdir()
        write_repository(root, version, virtual)
    else:
        official.call(
            "write_random_repository",
            path=str(root), spec_version=version, seed=random.randrange(2**32),
            virtual_path=virtual.path,
        )  # fmt: skip
    return Both(official, root, virtual)


def write_repository(root: Path, version: int, virtual: Container) -> None:
    """Commits with references of all kinds, split manifests, and all that V2 has besides."""
    config = frazil.RepositoryConfig(
        inline_chunk_threshold_bytes=8,
        manifest=frazil.ManifestConfig(splitting=split_every_three()),
    )
    store = frazil.local_filesystem_store(virtual.path)
    container = frazil.VirtualChunkContainer(virtual.url_prefix, store, name=virtual.name)
    config.set_virtual_chunk_container(container)
    storage = frazil.local_filesystem_storage(str(root))
    repository = frazil.Repository.create(storage, config, spec_version=version)
    session = repository.writable_session("main")
    group = zarr.group(session.store)
    create_arrays(group, session.store)
    session.commit("arrays", {"list": [1, {"deep": None}]})
    for number in range(3):
        session = repository.writable_session("main")
        zarr.open_array(session.store, path="é/native", mode="r+")[number] = number + 2
        zarr.open_group(session.store, path="é").attrs["number"] = number
        session.commit(f"change {number}")
    session = repository.writable_session("main")
    del zarr.open_group(session.store)["scalar"]
    session.flush("nobody's")
    repository.create_tag("a tag", repository.lookup_branch("main"))
    if version == 2:
        write_what_only_v2_has(repository)


def split_every_three() -> Any:
    condition = frazil.ManifestSplitCondition.name_matches("native")
    return frazil.ManifestSplittingConfig.from_dict(
        {condition: {frazil.ManifestSplitDimCondition.Any(): 3}}
    )


def create_arrays(group: Any, store: Any) -> None:
    """Inline, native and virtual chunks, and an array without axes."""
    inline = group.create_array("inline", shape=(4,), chunks=(1,), dtype="i1", compressors=None)
    inline[:3] = 1
    native = group.create_group("é").create_array(
        "native", shape=(5, 8), chunks=(1, 4), dtype="i4", dimension_names=["x", None]
    )
    native[...] = np.arange(40).reshape(5, 8)
    group.create_array("scalar", shape=(), dtype="f8")[...] = 1.5
    group.create_array("virtual", shape=(2 * MANY,), chunks=(1,), dtype="i1")
    prefix = "vcc://local"
    store.set_virtual_refs(
        "virtual",
        [frazil.VirtualChunkSpec([n], f"{prefix}/file {n % 7}.bin", n, 1) for n in range(MANY)],
    )


def write_what_only_v2_has(repository: frazil.Repository) -> None:
    session = repository.rearrange_session("main")
    session.move("/é", "/moved")
    session.move("/inline", "/moved/inline")
    session.commit("moved")
    session = repository.writable_session("main")
    zarr.open_group(session.store).create_group("late")
    session.commit("late")
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="moved/native", mode="r+")[0] = 9
    session.amend("amended")
    repository.delete_tag("a tag")
    repository.set_metadata({"key": ["value"]})
    repository.set_feature_flag("move_node", False)
    reason = "it is to be left alone"
    repository.set_status(
        frazil.RepoStatus(
            frazil.RepoAvailability.read_only, datetime.now(UTC), limited_availability_reason=reason
        )
    )
    repository.set_status(frazil.RepoStatus(frazil.RepoAvailability.online))


def test_snapshots_are_inspected_alike(both: Both) -> None:
    ids = both.files("snapshots")

    for id in ids:
        inspected = both.frazil.inspect_snapshot(id)
        assert inspected == both.official.call("inspect_snapshot", snapshot_id=id)
        listed = [
            {"id": each.id, "size_bytes": each.size_bytes, "num_chunk_refs": each.num_chunk_refs}
            for each in both.frazil.list_manifest_files(id)
        ]
        assert listed == inspected["manifests"]

    assert len(ids) > 3


def test_manifests_are_inspected_alike(both: Both) -> None:
    ids = both.files("manifests")

    for id in ids:
        inspected = both.frazil.inspect_manifest(id)
        assert inspected == both.official.call("inspect_manifest", manifest_id=id)

    assert len(ids) > 3


def test_transaction_logs_are_inspected_alike(both: Both) -> None:
    ids = both.files("transactions")

    for id in ids:
        inspected = both.frazil.inspect_transaction_log(id)
        expected = both.official.call("inspect_transaction_log", snapshot_id=id)
        for each in (inspected, expected):
            each.get("synthetic_composite", {}).pop("note", None)
        assert inspected == expected

    assert len(ids) > 3


def test_the_repo_info_is_inspected_alike(both: Both) -> None:
    if both.frazil.spec_version == frazil.SpecVersion.v1:
        with pytest.raises(frazil.FormatError) as refused:
            both.frazil.inspect_repo_info()
        assert refused.value.kind == frazil.ErrorKind.UNSUPPORTED_SPEC_VERSION
        return

    assert both.frazil.inspect_repo_info() == both.official.call("inspect_repo_info")


def test_diffs_are_the_same(both: Both) -> None:
    ids = [info.id for info in both.frazil.ancestry(branch="main")]
    pairs = list(combinations(reversed(ids), 2))

    for start, end in pairs:
        diff = both.frazil.diff(from_snapshot_id=start, to_snapshot_id=end)
        ends = {"from_snapshot_id": start, "to_snapshot_id": end}
        expected = both.official.call("read_diff", **ends)
        described = describe_diff(diff)
        described["moved_nodes"] = described.pop("moved")
        assert described == {**expected, "updated_chunks": as_lists(expected["updated_chunks"])}

    assert len(pairs) > 2


def as_lists(chunks: dict[str, list[Any]]) -> dict[str, list[list[int]]]:
    return {path: [list(each) for each in found] for path, found in chunks.items()}


def test_a_diff_needs_a_way_from_one_end_to_the_other(both: Both) -> None:
    tip = both.frazil.lookup_branch("main")
    root = list(both.frazil.ancestry(branch="main"))[-1].id

    for start, end in [(tip, tip), (tip, root)]:
        with pytest.raises(frazil.InvalidInputError) as refused:
            both.frazil.diff(from_snapshot_id=start, to_snapshot_id=end)
        assert refused.value.kind == frazil.ErrorKind.BAD_SNAPSHOT_CHAIN_FOR_DIFF


def test_locations_are_listed_alike(both: Both) -> None:
    for id in [info.id for info in both.frazil.ancestry(branch="main")]:
        session = both.frazil.readonly_session(snapshot_id=id)

        locations = sorted(session.all_virtual_chunk_locations())

        assert locations == both.official.call("read_locations", snapshot_id=id)


def test_references_are_listed_alike(both: Both) -> None:
    tip = both.frazil.lookup_branch("main")
    store = both.frazil.readonly_session(snapshot_id=tip).store
    nodes = both.frazil.inspect_snapshot(tip)["nodes"]
    paths = [node["path"] for node in nodes if node["node_type"] == "array"]

    for path in paths:
        refs = asyncio.run(list_references(store, path))
        expected = both.official.call("read_chunk_refs", snapshot_id=tip, path=path)
        assert refs == [tuple(ref.values()) for ref in expected]
        for coordinates, kind, *_ in refs[:3]:
            assert store.session.chunk_type(path, coordinates).name == kind

    assert paths


async def list_references(store: frazil.IcechunkStore, path: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    async for coords, kinds, places, offsets, lengths, inline in store.array_chunk_iterator(
        path, 7
    ):
        assert len(coords) <= 7
        names = [frazil.ChunkType(kind).name for kind in kinds.tolist()]
        data = [inline.get(row) for row in range(len(names))]
        columns = (coords.tolist(), names, places, offsets.tolist(), lengths.tolist(), data)
        found += zip(*columns, strict=True)
    return sorted(found, key=lambda ref: ref[0])
