"""The steps of an ingest, planned without Spark."""

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import obstore
import pytest
from obstore.store import MemoryStore

import frazil
from frazil import virtual
from frazil.errors import InvalidInputError, InvalidSourcesError
from frazil.format.manifest import ChunkTable
from frazil.protocols.assets import new_node_id
from frazil.repository.changes import prewrite_manifest
from frazil.repository.virtual_refs import ChecksumColumn, TextColumn, make_table
from frazil.spark.ingestion import ledger
from frazil.spark.ingestion.discovery import SourceFile, discover, list_files, tabulate
from frazil.spark.ingestion.ingest_options import refuse_invalid_choices
from frazil.spark.ingestion.ingest_plan import (
    IngestPlan,
    Target,
    plan_ingest,
    read_existing,
)
from frazil.spark.ingestion.ingest_tasks import Cutter, with_small_cache, write
from frazil.spark.ingestion.ledger import Entry, Ledger, read_ledger, subtract, write_ledger
from frazil.spark.ingestion.source_data import (
    BadFile,
    ParsedSource,
    Reading,
    add_to,
    common_folders,
    group_files,
    pack,
    parse,
    plan_containers,
    share_equal,
    unpack,
)
from frazil.spark.ingestion.target_arrays import (
    adopt,
    assign_tasks,
    make_room,
    plan_placement,
    plan_rules,
    unite,
)
from frazil.spark.regions import configured_rules, plan_sizes
from frazil.virtual import FileVersion, Source
from frazil.virtual.new_dimensions import loaded_everywhere
from frazil.virtual.source import ArrayHeaders, HeaderPool
from frazil.virtual.source_formats import SourceStores
from tests.spark.ingestion.archives import save_archive, save_days

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
VERSION = FileVersion(None, MOMENT, 10)


def new_session() -> frazil.Session:
    return frazil.Repository.create(frazil.in_memory_storage()).writable_session("main")


# Discovering


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/0000.nc", ["a/0000.nc"]),
        ("a", ["a/0000.nc", "a/0002.nc", "a/deep/0004.nc"]),
        ("a/", ["a/0000.nc", "a/0002.nc", "a/deep/0004.nc"]),
        ("a/*.nc", ["a/0000.nc", "a/0002.nc"]),
        ("a/**/*.nc", ["a/0000.nc", "a/0002.nc", "a/deep/0004.nc"]),
        ("a/000[!0].nc", ["a/0002.nc"]),
        ("*/deep/000?.nc", ["a/deep/0004.nc"]),
    ],
)
def test_names_patterns_and_folders_find_files(
    tmp_path: Path, name: str, expected: list[str]
) -> None:
    save_archive(tmp_path / "a", 2)
    save_days(tmp_path / "a" / "deep", 4)

    found = discover([f"{tmp_path}/{name}"], SourceStores())

    assert found["source"].to_pylist() == [(tmp_path / each).as_uri() for each in expected]
    assert list_files(found)[0].version == virtual.open(tmp_path / expected[0]).version


def test_a_file_that_two_names_find_is_there_once(tmp_path: Path) -> None:
    path = save_days(tmp_path, 0)

    assert len(discover([path, f"{tmp_path}/*.nc"], SourceStores())) == 1


def test_a_name_that_finds_nothing_is_refused(tmp_path: Path) -> None:
    save_days(tmp_path, 0)

    with pytest.raises(InvalidInputError, match=r"no file at .*\.hdf"):
        discover([f"{tmp_path}/*.nc", f"{tmp_path}/*.hdf"], SourceStores())


def test_folders_of_a_large_bucket_are_listed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    keys = [f"top/{a}/{b}/x{c}.nc" for a in "pq" for b in "rs" for c in range(3)]
    for key in [*keys, "top/first.nc", "top/p/z.zarr/zarr.json", "top/p/z.zarr/c/0", "other/a.nc"]:
        obstore.put(store, key, b"bytes")
    monkeypatch.setattr("frazil.spark.ingestion.discovery._LISTED_AT_ONCE", 2)
    monkeypatch.setattr(
        SourceStores, "resolve", lambda _, url: (store, url.removeprefix("s3://b/"))
    )

    found = discover(["s3://b/top/**/*"], SourceStores())

    expected = sorted([*keys, "top/first.nc", "top/p/z.zarr"])
    assert found["source"].to_pylist() == [f"s3://b/{key}" for key in expected]
    assert set(found["size"].to_pylist()) == {5, 10}


# The ledger


def entry(source: str, version: FileVersion = VERSION, group: str = "") -> Entry:
    return Entry(source, group, version, {"time": (2, 4)}, "a job", frozenset({"t"}))


def test_files_are_new_changed_or_known() -> None:
    later = FileVersion(None, MOMENT + timedelta(seconds=1), 10)
    ledger = Ledger.of([entry("known"), entry("changed"), entry("elsewhere", group="other")])
    files = [
        SourceFile("known", VERSION),
        SourceFile("changed", later),
        SourceFile("elsewhere", VERSION),
        SourceFile("new", VERSION),
    ]

    work = subtract(tabulate(files), ledger, "")

    assert work.known.to_pylist() == ["known"]
    assert [each.location for each, _ in work.changed] == ["changed"]
    assert [each.location for each in work.new] == ["elsewhere", "new"]


@pytest.mark.parametrize(
    ("version", "is_known"),
    [
        (FileVersion("e", MOMENT.replace(microsecond=0), 10), True),
        (FileVersion("other", MOMENT, 10), False),
        (FileVersion("e", MOMENT, 11), False),
    ],
)
def test_an_etag_says_more_than_a_time(version: FileVersion, is_known: bool) -> None:
    ledger = Ledger.of([entry("a", FileVersion("e", MOMENT, 10))])

    assert bool(subtract(tabulate([SourceFile("a", version)]), ledger, "").known) is is_known


def test_a_ledger_is_read_as_it_was_written() -> None:
    store = new_session().store
    first = [entry("a"), entry("b", FileVersion("etag", MOMENT, 2**40), "group")]
    second = [entry("c"), Entry("a", "", FileVersion("new", MOMENT, 1), {}, "another job")]

    write_ledger(store, Ledger(), first)
    assert read_ledger(store).entries == first
    write_ledger(store, read_ledger(store), second)

    assert read_ledger(store).entries == [second[1], first[1], second[0]]


def test_a_ledger_is_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_WRITTEN_ROWS", 4)
    store, entries = new_session().store, [entry(f"{number:02}") for number in range(22)]

    for start, stop in [(0, 3), (3, 4), (4, 8), (8, 17), (17, 22)]:
        write_ledger(store, read_ledger(store), entries[start:stop])

    assert read_ledger(store).entries == entries


# Configuring


def test_folders_that_no_container_holds_get_one() -> None:
    folders = common_folders(
        ["s3://bucket/a/x/1.nc", "s3://bucket/a/y/2.nc", "s3://other/3.nc", "file:///data/4.nc"]
    )
    assert folders == ("file:///data/", "s3://bucket/a/", "s3://other/")
    given = frazil.VirtualChunkContainer("s3://bucket/", frazil.s3_store(region="here"))
    present = frazil.VirtualChunkContainer("s3://other/", frazil.s3_store(region="there"))

    missing = plan_containers(folders, {"s3://other/": present}, [given])

    assert [each.url_prefix for each in missing] == ["file:///data/", "s3://bucket/"]
    assert missing[1] == given


def test_a_store_that_nothing_is_known_of_needs_a_container() -> None:
    with pytest.raises(InvalidInputError, match="containers="):
        plan_containers(["az://box/folder/"], {}, [])


@pytest.mark.parametrize(
    ("counts", "growing", "expected"),
    [
        ([1, 10, 10], 0, {0: 1000}),
        ([9_999, 10, 10], 0, {0: 1000}),
        ([5, 1000, 1000], 0, {0: 1, 1: 100}),
        ([300, 400], None, {0: 250}),
        ([300, 300], None, {}),
        ([], None, {}),
    ],
)
def test_manifests_hold_so_many_references_whatever_the_array_grows_to(
    counts: list[int], growing: int | None, expected: dict[int, int]
) -> None:
    sizes = plan_sizes(counts, growing)

    assert {condition.axis: size for condition, size in sizes} == expected  # type: ignore[union-attr]


def test_rules_that_are_there_are_kept_and_asked_first() -> None:
    always = frazil.ManifestSplitCondition.AnyArray()
    other = frazil.ManifestSplitCondition.name_matches("t")
    config = add_to(frazil.RepositoryConfig(), [], ((always, ()),))

    added = add_to(config, [], ((always, ()), (other, ())))

    assert configured_rules(added) == ((always, ()), (other, ()))


@pytest.mark.parametrize("option", ["mode", "on_overlap", "on_bad_file"])
def test_options_that_are_none_are_refused(option: str) -> None:
    with pytest.raises(InvalidInputError, match="is none of"):
        refuse_invalid_choices(**{option: "perhaps"})


# Planning


def open_all(paths: list[Path]) -> list[Source]:
    return [virtual.open(path) for path in paths]


def headers_of(paths: list[Path]) -> list[virtual.SourceHeader]:
    return [each.header for each in open_all(paths)]


def existing_of(paths: list[Path], session: frazil.Session) -> virtual.SourceHeader:
    """Ingest some files in this process; gives the header of what is there then."""
    carry_out(plan_ingest(headers_of(paths), Target(), ("time",)), open_all(paths), session)
    fresh = loaded_everywhere(headers_of(paths))
    found = read_existing(session.store, "", fresh, ("time",))
    assert found is not None
    return found


def carry_out(found: IngestPlan, sources: list[Source], session: frazil.Session) -> None:
    """What the driver and the workers do together."""
    make_room(found, session, "")
    versions = {each.header.name: each.version for each in sources}
    placement = plan_placement(found, versions, session.state, "")
    assets = session.state.assets
    cutter = Cutter(placement, assets)
    parts: dict[int, list[ChunkTable]] = {}
    for source in sources:
        cutter.add(source.header.name, *unpack(pack(source)))
        # Two sources at a time, so that most cells have several parts.
        if cutter.rows > len(source.references):
            _take(parts, cutter)
    _take(parts, cutter)
    placed = [write(assets, placement.regions[region], tables) for region, tables in parts.items()]
    adopt(found, session.state, "", placed)


def _take(parts: dict[int, list[ChunkTable]], cutter: Cutter) -> None:
    for region, table in cutter.cut():
        parts.setdefault(region, []).append(table)


def test_new_files_follow_what_is_there(tmp_path: Path) -> None:
    existing = existing_of(save_archive(tmp_path, 2), new_session())
    more = headers_of(save_archive(tmp_path, 2, first=2))

    found = plan_ingest(more, Target(existing), ("time",))

    assert list(found.places.values()) == [{"time": (4, 6)}, {"time": (6, 8)}]
    assert found.plan.variables["t"].metadata["shape"] == [8, 24, 16]
    assert found.plan.variables["time"].values is not None
    assert found.plan.variables["time"].values.tolist() == list(range(8))


def test_what_comes_before_the_end_of_what_is_there_is_refused(tmp_path: Path) -> None:
    existing = existing_of(save_archive(tmp_path, 1, first=2), new_session())

    with pytest.raises(InvalidSourcesError, match="it brings 2000-01-01 to 2000-01-02") as caught:
        plan_ingest(
            headers_of(save_archive(tmp_path, 1)), Target(existing), ("time",), on_late="refuse"
        )

    assert caught.value.files == ((tmp_path / "0000.nc").as_uri(),)


def test_a_last_chunk_that_is_not_full_must_be_reencoded_before_more_comes(tmp_path: Path) -> None:
    existing = existing_of([save_days(tmp_path, 0, 3)], new_session())

    with pytest.raises(InvalidSourcesError, match="chunks of 2 along time don't end where"):
        plan_ingest(headers_of([save_days(tmp_path, 3)]), Target(existing), ("time",))


def test_files_whose_place_holds_data_are_refused_or_replace_it(tmp_path: Path) -> None:
    existing = existing_of(save_archive(tmp_path, 3), new_session())
    inside = virtual.open(save_days(tmp_path / "inside", 2)).header
    across = virtual.open(save_days(tmp_path / "across", 4, 4)).header
    target = Target(existing)

    with pytest.raises(InvalidSourcesError, match="holds data of the repository") as caught:
        plan_ingest([inside, across], target, ("time",))
    found = plan_ingest([inside, across], target, ("time",), on_overlap="replace")

    assert caught.value.files == (inside.name, across.name)
    assert found.replaced == {inside.name: {"time": (2, 4)}, across.name: {"time": (4, 8)}}


def test_data_moves_with_whole_chunks_where_a_file_belongs_in_front_of_it(tmp_path: Path) -> None:
    session = new_session()
    existing = existing_of(save_archive(tmp_path, 2, first=2), session)
    earlier = open_all(save_archive(tmp_path / "early", 1))

    found = plan_ingest([each.header for each in earlier], Target(existing), ("time",))
    carry_out(found, earlier, session)

    assert found.shifts["time"].tolist() == [2, 3, 4, 5]
    view = session.state.view
    table = view.table(view.get_node("/t"))
    assert table.coordinates[:, 0].tolist() == sorted(list(range(6)) * 4)
    is_first = table.coordinates[:, 0] < 2
    assert {table.locations[each] for each in table.location[is_first]} == {earlier[0].location}


def test_of_what_is_there_only_the_values_are_read_that_are_compared(tmp_path: Path) -> None:
    paths = save_archive(tmp_path, 2)

    existing = existing_of(paths, new_session())

    values = {name: array.values for name, array in existing.arrays.items()}
    assert values["t"] is None
    assert values["quality"] is not None
    assert not values["quality"].any()
    assert values["station"] == np.int32(7)
    assert values["time"] is not None
    assert values["time"].tolist() == [0, 1, 2, 3]


def test_workers_write_what_one_process_would(tmp_path: Path) -> None:
    sources = open_all(save_archive(tmp_path, 5))
    session, expected = new_session(), new_session()

    carry_out(plan_ingest([e.header for e in sources], Target(), ("time",)), sources, session)
    plan = virtual.combine(sources, "time")
    virtual.write(plan, expected.store, sources, validate_containers=False)

    for path in ("/t", "/p"):
        views = [each.state.view for each in (session, expected)]
        found, wanted = (view.table(view.get_node(path)) for view in views)
        assert found == wanted


def test_a_source_that_changed_after_it_was_planned_is_refused(tmp_path: Path) -> None:
    (source,) = open_all([save_days(tmp_path, 0)])
    session = new_session()
    found = plan_ingest([source.header], Target(), ("time",))
    make_room(found, session, "")
    versions = {source.header.name: VERSION}
    placement = plan_placement(found, versions, session.state, "")

    with pytest.raises(InvalidSourcesError, match="was changed while it was ingested"):
        Cutter(placement, session.state.assets).add(
            source.header.name, source.version, source.references
        )


def test_rules_name_arrays_to_the_letter(tmp_path: Path) -> None:
    found = plan_ingest(headers_of(save_archive(tmp_path, 2)), Target(), ("time",))

    rules = plan_rules(found, "a.b", None)

    (condition, sizes), _ = rules
    assert condition.matches("/a.b/t")
    assert not condition.matches("/a.b/t2")
    assert not condition.matches("/axb/t")
    assert sizes == ((frazil.ManifestSplitDimCondition.Axis(0), 25_000),)
    assert plan_rules(found, "a.b", rules) == ()


# Sharing out


def test_files_are_shared_out_by_task() -> None:
    names = [str(number) for number in range(40)]

    assert [len(each) for each in group_files(names, 1, 16)] == [14, 14, 12]
    assert [len(each) for each in group_files(names, 1, 10)] == [10, 10, 10, 10]
    assert [len(each) for each in group_files(names[:2], 8, 16)] == [1, 1]


def test_small_split_regions_share_a_task() -> None:
    assert assign_tasks([4, 4, 4, 20, 1, 1], 1, most=10) == (0, 0, 1, 2, 3, 3)
    assert assign_tasks([1, 1, 1, 1, 1, 1], 1) == (0, 0, 1, 1, 2, 2)
    assert assign_tasks([4, 1], 8) == (0, 1)
    assert assign_tasks([], 2) == ()


def test_regions_that_touch_are_written_together() -> None:
    assert list(unite([(4, 6), (0, 2), (2, 4), (8, 9)])) == [(0, 6), (8, 9)]
    assert list(unite([])) == []


def test_a_worker_keeps_few_of_the_manifests_that_it_writes(repo: frazil.Repository) -> None:
    assets = with_small_cache(repo.writable_session("main").state.assets)
    rows = np.arange(40_000, dtype=np.uint64)
    references = make_table(
        rows[:, np.newaxis].astype(np.uint32),
        TextColumn(np.zeros(len(rows), np.int32), ["s3://bucket/key"]),
        rows, rows, ChecksumColumn.of(None, len(rows)), 12,
    )  # fmt: skip

    for _ in range(30):
        manifest = prewrite_manifest(assets, new_node_id(), ((0, len(rows)),), (), references)
        assets.read_manifest(manifest.file.id)

    assert 0 < assets._manifests.weight <= 1_000_000


def test_a_file_that_is_no_data_is_reported_and_not_raised(tmp_path: Path) -> None:
    path = tmp_path / "no.nc"
    path.write_text("no data")

    ((outcome, source),) = parse(path.as_uri(), Reading())

    assert isinstance(outcome, BadFile)
    assert source is None


def test_what_files_have_in_common_travels_once(tmp_path: Path) -> None:
    parsed = [parse(path.as_uri(), Reading())[0][0] for path in save_archive(tmp_path, 2)]
    bad, pool = BadFile("bad", "no data"), HeaderPool()

    # As tasks return them, whose objects have no others in common.
    tasks = [pickle.loads(pickle.dumps(each)) for each in ([parsed[0]], [parsed[1], bad])]
    (first,), (second, last) = (share_equal(each, pool) for each in tasks)

    assert isinstance(first, ParsedSource)
    assert isinstance(second, ParsedSource)
    assert first.header.arrays["y"] is second.header.arrays["y"]
    assert first.header.attributes is second.header.attributes
    times = [each.header.arrays["time"] for each in (first, second)]
    assert times[0] is not times[1]
    assert times[0].metadata is times[1].metadata
    assert last == bad
    own, other = first.header.arrays, second.header.arrays
    assert isinstance(own, ArrayHeaders)
    assert isinstance(other, ArrayHeaders)
    assert own._numbered is other._numbered
    assert own == dict(own) != other
    assert list(own.keys() & {"y", "z"}) == ["y"]
    headers = [
        each.header for each in (*parsed[:2], first, second) if isinstance(each, ParsedSource)
    ]
    plans = [virtual.combine(each, "time") for each in (headers[:2], headers[2:])]
    assert str(plans[0]) == str(plans[1])
    for before, after in zip(parsed, (first, second), strict=True):
        assert isinstance(before, ParsedSource)
        assert repr(after) == repr(before)
        for name, array in before.header.arrays.items():
            np.testing.assert_array_equal(after.header.arrays[name].values, array.values)


def test_arrays_and_dimensions_get_other_names(tmp_path: Path) -> None:
    path = save_days(tmp_path, 0)

    ((_, source),) = parse(path.as_uri(), Reading(skip=("p",), rename={"t": "air", "time": "day"}))

    assert source is not None
    assert list(source.arrays) == ["air", "station", "quality", "day", "y", "x"]
    assert source.arrays["air"].dims == ("day", "y", "x")
    assert np.shape(source.references["air"].coordinates) == (8, 3)
