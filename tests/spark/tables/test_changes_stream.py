"""Commits of a branch as a stream: each once, across restarts, limits, resets and expiry."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import zarr
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import frazil
from frazil import Repository

pytestmark = pytest.mark.xdist_group("spark-tables")
SECONDS = 120
"""Long enough for a machine that does much else."""


@dataclass(frozen=True)
class Follower:
    """A repository, and queries that follow it with one checkpoint."""

    spark: SparkSession
    repo: Repository
    path: Path

    def commit(self, *names: str) -> None:
        """Make groups of these names, a commit each."""
        for name in names:
            session = self.repo.writable_session("main")
            zarr.create_group(session.store, path=name)
            session.commit(name)

    def run(self, **options: str) -> list[list[str]]:
        """Run until all is read that is there now; gives the paths that each batch has."""
        batches: list[list[str]] = []

        def see(frame: DataFrame, _: int) -> None:
            rows = frame.where("change = 'group_created' AND path != '/'").collect()
            batches.append(sorted(row.path for row in rows))

        stream = self.spark.readStream.format("icechunk").option("repo", str(self.path / "repo"))
        stream = stream.option("table", "changes")
        for name, value in options.items():
            stream = stream.option(name.rstrip("_"), value)
        query = (
            stream.load()
            .writeStream.foreachBatch(see)
            .option("checkpointLocation", str(self.path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(SECONDS)
        finally:
            query.stop()
        return batches


@pytest.fixture
def follower(spark: SparkSession, tmp_path: Path) -> Follower:
    """A repository with three commits besides the first."""
    repo = Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))
    made = Follower(spark, repo, tmp_path)
    made.commit("a", "b", "c")
    return made


def test_batches_have_as_many_commits_as_they_may_and_restarts_repeat_none(
    follower: Follower,
) -> None:
    if follower.spark.version < "4.2":
        with pytest.raises(StreamingQueryException, match=r"max_commits needs Spark 4\.2"):
            follower.run(max_commits="2")
        limit, firsts, seconds = {}, [["/a", "/b", "/c"]], [["/d", "/e", "/f"]]
    else:
        # The first commit of all has made nothing.
        limit, firsts, seconds = (
            {"max_commits": "2"},
            [["/a"], ["/b", "/c"]],
            [["/d", "/e"], ["/f"]],
        )

    first = follower.run(**limit)
    follower.commit("d", "e", "f")
    second = follower.run(**limit)

    assert [batch for batch in first if batch] == firsts
    assert [batch for batch in second if batch] == seconds


def test_a_stream_of_new_commits_sees_them_land(follower: Follower) -> None:
    name = f"seen_{uuid4().hex}"
    query = (
        follower.spark.readStream.format("icechunk")
        .option("repo", str(follower.path / "repo"))
        .option("table", "changes")
        .option("from", "latest")
        .load()
        .writeStream.format("memory")
        .queryName(name)
        .start()
    )
    try:
        query.processAllAvailable()
        follower.commit("d")
        query.processAllAvailable()
        follower.commit("e")
        query.processAllAvailable()
        rows = follower.spark.table(name).select("path", "change").collect()
    finally:
        query.stop()

    assert sorted(map(tuple, rows)) == [("/d", "group_created"), ("/e", "group_created")]


def test_a_reset_stops_a_stream_unless_an_option_says_how_to_go_on(follower: Follower) -> None:
    follower.run()
    line = [info.id for info in follower.repo.ancestry(branch="main")]
    follower.repo.reset_branch("main", line[1])
    follower.commit("other")

    with pytest.raises((StreamingQueryException, PySparkException), match="on_reset"):
        follower.run()
    found = follower.run(on_reset="ancestor")

    assert [batch for batch in found if batch] == [["/other"]]


def test_expiry_stops_a_stream_unless_an_option_says_how_to_go_on(follower: Follower) -> None:
    follower.run()
    follower.commit("d", "e")
    follower.repo.expire_snapshots(datetime.now(UTC) + timedelta(days=1))

    with pytest.raises((StreamingQueryException, PySparkException), match="on_expired"):
        follower.run()
    found = follower.run(on_expired="earliest")

    # All that is left is one commit, which has what the expired ones did.
    assert [batch for batch in found if batch] == [["/a", "/b", "/c", "/d", "/e"]]
