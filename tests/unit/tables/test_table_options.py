"""Options of the data source: all that are known, and no others."""

from datetime import UTC, datetime

import pytest

import frazil
from frazil import Repository
from frazil.errors import InvalidInputError, RefNotFoundError
from frazil.tables.table_options import (
    STREAM_WRITE_OPTIONS,
    WRITE_OPTIONS,
    Options,
    make_write_options,
    parse_options,
)
from frazil.tables.table_source import find_branch, open_source, open_table
from frazil.urls import BranchRef, NamedRef, Ref, make_ref


def test_options_are_read_from_texts() -> None:
    found = parse_options(
        {"REPO": "r", "variables": "a, b", "branch": "dev", "target_size": "1MB", "table": "changes",
         "From": "x"}
    )  # fmt: skip

    assert (found.repo, found.variables, found.ref) == ("r", ("a", "b"), BranchRef("dev"))
    assert (found.target_bytes, found.more) == (1_000_000, {"from": "x"})


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ({"tagg": "v1"}, "the table cells has no option 'tagg': did you mean 'tag'?"),
        ({"brnch": "dev"}, "did you mean 'branch'?"),
        ({"version_as_of": "v1"}, "did you mean 'versionAsOf'?"),
        ({"VARIABLE": "t"}, "did you mean 'variables'?"),
        ({"whre": "t > 1"}, "did you mean 'where'?"),
        ({"zzz": "1"}, "there are repo, path, "),
        ({"from": "v1"}, "the table cells has no option 'from': it is one of changes"),
        ({"table": "snapshots", "variables": "t"}, "it is one of cells, changes"),
        ({"table": "chunks", "reference": "1"}, "did you mean 'references'?"),
        ({"append_dim": "time"}, "has no option 'append_dim'"),
    ],
)
def test_an_unknown_option_of_a_reader_is_refused_with_the_nearest(
    given: dict[str, str], nearest: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_options({"repo": "r", **given})
    assert nearest in caught.value.message


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("append_dims", "a writer has no option 'append_dims': did you mean 'append_dim'?"),
        ("comit_token", "did you mean 'commit_token'?"),
        ("where", "has no option 'where'"),
        ("versionAsOf", "has no option 'versionasof'"),
        ("variables", "has no option 'variables'"),
    ],
)
def test_an_unknown_option_of_a_writer_is_refused_with_the_nearest(name: str, nearest: str) -> None:
    for known in (WRITE_OPTIONS, STREAM_WRITE_OPTIONS):
        with pytest.raises(InvalidInputError) as caught:
            parse_options({"repo": "r", name: "x"}, known)
        assert nearest in caught.value.message


def test_a_keyword_that_no_writer_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'append_dim'"):
        make_write_options(apend_dim="time")


def test_options_of_sparks_own_streaming_queries_are_let_pass() -> None:
    found = parse_options(
        {"repo": "r", "checkpointlocation": "c", "queryname": "q", "dims": "x"},
        STREAM_WRITE_OPTIONS,
    )

    assert found.more["dims"] == "x"
    with pytest.raises(InvalidInputError, match="checkpointlocation"):
        parse_options({"repo": "r", "checkpointlocation": "c"}, WRITE_OPTIONS)


@pytest.mark.parametrize(
    ("given", "ref"),
    [
        ({"versionAsOf": "v1"}, NamedRef("v1")),
        ({"TIMESTAMPASOF": "2026-01-31"}, BranchRef("main", datetime(2026, 1, 31, tzinfo=UTC))),
        (
            {"timestampAsOf": "2026-01-31 13:00:00", "branch": "dev", "time_zone": "Europe/Berlin"},
            BranchRef("dev", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ),
        (
            {"timestampAsOf": "2026-01-31T12:00:00.5+01:00"},
            BranchRef("main", datetime(2026, 1, 31, 11, 0, 0, 500_000, tzinfo=UTC)),
        ),
    ],
)
def test_versions_have_the_names_that_other_formats_give_them(
    given: dict[str, str], ref: Ref
) -> None:
    assert parse_options({"repo": "r", **given}).ref == ref


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"versionAsOf": "v1", "branch": "main"}, "name one"),
        ({"versionAsOf": "v1", "timestampAsOf": "2026-01-31"}, "name one"),
        ({"timestampAsOf": "2026-01-31", "tag": "v1"}, "needs a branch"),
        ({"timestampAsOf": "yesterday"}, "invalid timestampAsOf 'yesterday'"),
        ({"timestampAsOf": "2026-01-31", "time_zone": "Atlantis"}, "known time zone"),
        ({"repo": "r", "path": "q"}, "differ"),
        ({"layout": "rows"}, "invalid layout 'rows'"),
        ({"table": "chunks", "references": "many"}, "invalid references 'many'"),
    ],
)
def test_options_that_contradict_or_mean_nothing_are_refused(
    given: dict[str, str], words: str
) -> None:
    repo = Repository.create(frazil.in_memory_storage())

    with pytest.raises(InvalidInputError, match=words):
        open_table(open_source(parse_options(given), repo))


def test_a_version_that_is_not_there_is_no_other_version() -> None:
    repo = Repository.create(frazil.in_memory_storage())
    repo.create_tag("v1", repo.lookup_branch("main"))

    assert open_source(parse_options({"versionAsOf": "v1"}), repo).session.snapshot_id
    for name in ("no-such", "0"):
        with pytest.raises(RefNotFoundError, match=name):
            open_source(parse_options({"versionAsOf": name}), repo)


@pytest.mark.parametrize("given", [{}, {"table": "snapshots"}])
def test_without_a_repository_the_way_of_sql_is_named(given: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="CREATE TEMPORARY VIEW"):
        open_source(parse_options(given))


def test_a_table_in_sparks_catalog_is_refused_when_it_is_created() -> None:
    handed = {"owner": "me", "option.repo": "r", "provider": "icechunk", "repo": "r"}

    with pytest.raises(InvalidInputError, match="CREATE TEMPORARY VIEW"):
        parse_options(handed)


def test_the_branch_is_that_of_the_url_or_of_the_options(tmp_path: object) -> None:
    repo = Repository.create(frazil.local_filesystem_storage(str(tmp_path)))
    repo.create_branch("dev", repo.lookup_branch("main"))
    repo.create_tag("v1", repo.lookup_branch("main"))

    assert find_branch(open_source(Options(), f"{tmp_path}@dev"), "this") == "dev"
    assert find_branch(open_source(Options(), str(tmp_path)), "this") == "main"
    assert find_branch(open_source(Options(ref=make_ref(branch="dev")), repo), "this") == "dev"
    with pytest.raises(InvalidInputError, match="this needs a branch"):
        find_branch(open_source(Options(), f"{tmp_path}@v1"), "this")
