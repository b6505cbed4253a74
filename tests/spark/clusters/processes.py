"""Java processes of Spark: masters, workers, servers of Connect; each a process group of its own."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from frazil.spark.spark_session import find_java_home, link_spark

PATIENCE_SECONDS = 600
"""A shared machine pauses; what has not come by then won't come."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def make_spark_home(folder: Path) -> Path:
    """Spark as it is installed, by links, in a folder that clusters may write `work` into."""
    return link_spark(Path(pyspark.__file__).parent, folder)


@dataclass(frozen=True, slots=True)
class Service:
    """A process that was started, and what it writes."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait_for(self, pattern: str) -> str:
        """What the pattern's group is in the log, once it is there."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            found = re.search(pattern, self.log.read_text())
            if found is not None:
                return found[1]
            time.sleep(0.1)
        raise AssertionError(f"{pattern} did not come: {self.log.read_text()[-4000:]}")

    def kill(self) -> None:
        """End it, and all that it has started, at once."""
        kill_group(self.process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group at once, if they are still there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE_SECONDS)


def start_service(
    name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Service:
    """Start a program of Spark's, with a log that is named after it."""
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **_java_home(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Service(process, log)


def _java_home() -> dict[str, str]:
    found = find_java_home(os.environ)
    return {} if found is None else {"JAVA_HOME": str(found)}


class Standalone:
    """A master, and workers that come and go, each on an address of its own."""

    def __init__(self, home: Path, folder: Path) -> None:
        self._home = home
        self.folder = folder
        self._environment = {
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        self._master = self._start("master", "master.Master", *arguments)
        self.workers: dict[str, Service] = {}

    def _start(self, name: str, main: str, *arguments: str) -> Service:
        command = [str(self._home / "bin/spark-class"), f"org.apache.spark.deploy.{main}"]
        return start_service(name, [*command, *arguments], self.folder, self._environment)

    @property
    def url(self) -> str:
        """What sessions name as their master."""
        return self._master.wait_for(r"Starting Spark master at (spark://\S+)")

    def add_worker(self, host: str) -> None:
        """Start a worker with one slot. Tasks are run twice only on hosts of different names."""
        name = f"worker-{host}-{len(self.workers)}"
        work = ["--work-dir", str(self.folder / "work" / name)]
        size = ["--cores", "1", "--memory", "1g", "--webui-port", "0"]
        self.workers[host] = self._start(
            name, "worker.Worker", "--host", host, *size, *work, self.url
        )

    def wait_for_workers(self) -> None:
        """Return when the master knows all workers."""
        for worker in self.workers.values():
            worker.wait_for(r"(Successfully registered with master)")

    def kill_worker(self, host: str) -> None:
        """End a worker with its executors."""
        self.workers.pop(host).kill()

    def stop(self) -> None:
        """End everything."""
        for service in (*self.workers.values(), self._master):
            service.kill()


@contextlib.contextmanager
def standalone(home: Path, folder: Path, hosts: Sequence[str]) -> Iterator[Standalone]:
    """A cluster that is gone at the end of the block."""
    cluster = Standalone(home, folder)
    try:
        for host in hosts:
            cluster.add_worker(host)
        cluster.wait_for_workers()
        yield cluster
    finally:
        cluster.stop()


@contextlib.contextmanager
def connect_server(
    home: Path, folder: Path, environment: Mapping[str, str], config: Mapping[str, str]
) -> Iterator[str]:
    """The address of a server of Spark Connect that is gone at the end of the block."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        **config,
    }
    options = [part for each in settings.items() for part in ("--conf", "=".join(each))]
    main = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    server = start_service(
        "connect",
        [str(home / "bin/spark-submit"), *main, *options, "spark-internal"],
        folder,
        {"SPARK_HOME": str(home), "SPARK_CONNECT_MODE": "0", **environment},
    )
    try:
        port = server.wait_for(r"Spark Connect server started at: \S*:(\d+)")
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()
