"""Clusters, one of a kind for all tests, and the archive that they ingest."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.spark.clusters.archive import FILES, save_files
from tests.spark.clusters.drivers import QUICK_START, ROOT, Driver, driver
from tests.spark.clusters.processes import (
    Standalone,
    connect_server,
    make_spark_home,
    standalone,
)

# VirtualiZarr, which ingests need, needs a newer Python than Frazil does.
collect_ignore_glob = [] if find_spec("virtualizarr") else ["test_*.py"]


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many files."""
    return save_files(tmp_path_factory.mktemp("archive") / "files", FILES)


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files for tests to which their number does not matter."""
    return save_files(tmp_path_factory.mktemp("few") / "files", 12)


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that clusters may write to."""
    return make_spark_home(tmp_path_factory.mktemp("spark") / "home")


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver whose tasks run in its own Java."""
    with driver("local[2]", tmp_path_factory.mktemp("local")) as running:
        yield running


@pytest.fixture(scope="session")
def server(spark_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of Spark Connect."""
    environment = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    config = {
        **QUICK_START,
        "spark.master": "local[2,4]",
        "spark.python.unix.domain.socket.enabled": "true",
    }
    folder = tmp_path_factory.mktemp("server")
    with connect_server(spark_home, folder, environment, config) as address:
        yield address


@pytest.fixture(scope="session")
def client(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver without Java."""
    with driver(server, tmp_path_factory.mktemp("client")) as running:
        yield running


@pytest.fixture(scope="session")
def local_cluster(spark_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver whose two executors are processes of their own."""
    folder = tmp_path_factory.mktemp("local-cluster")
    environment = {"SPARK_HOME": str(spark_home), "SPARK_LOCAL_IP": "127.0.0.1"}
    with driver("local-cluster[2,1,1024]", folder, environment) as running:
        yield running


@pytest.fixture(scope="session")
def cluster(spark_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master and two workers."""
    folder = tmp_path_factory.mktemp("standalone")
    with standalone(spark_home, folder, ["127.0.0.2", "127.0.0.3"]) as running:
        yield running


@pytest.fixture(scope="session")
def on_cluster(cluster: Standalone) -> Iterator[Driver]:
    """A driver on it that runs slow tasks twice, and writes down all that happens."""
    events = cluster.folder / "events"
    events.mkdir()
    config = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "2s",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    with driver(cluster.url, cluster.folder, None, config) as running:
        yield running
