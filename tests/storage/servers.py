"""Servers as child processes on the loopback interface: waited for, and always stopped."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.storage.object_stores import ACCESS_KEY, SECRET_KEY

ROOT = Path(__file__).resolve().parents[2]
_CACHE = ROOT / ".servers"
_AZURITE_VERSION = "3.35.0"
_START_TIMEOUT_SECONDS = 60.0

NOTHING_SET: Mapping[str, str] = {}


class ServerMissing(Exception):  # noqa: N818 - it says what is the matter
    """A server can't be had here."""


@contextlib.contextmanager
def run_server(
    command: Sequence[str], url: str, folder: Path, environment: Mapping[str, str] = NOTHING_SET
) -> Iterator[str]:
    """A server that answers at an address for as long as it is needed."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env={**_quiet_environment(), **environment},
        )  # fmt: skip
    try:
        _wait_until_ready(process, url, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _quiet_environment() -> Mapping[str, str]:
    # A proxy or credentials of this machine have no business with a server of the tests.
    names = ("PATH", "HOME", "TMPDIR", "LANG")
    return {name: os.environ[name] for name in names if name in os.environ}


def _wait_until_ready(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerMissing(f"the server ended: {log.read_text(errors='replace')[-2000:]}")
        try:
            opener.open(url, timeout=5).close()
            return
        except urllib.error.HTTPError as error:
            # It answers; that it wants credentials is another matter.
            error.close()
            if error.code < 500:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise ServerMissing(f"no answer at {url}: {log.read_text(errors='replace')[-2000:]}")


def find_free_ports(count: int) -> list[int]:
    """Ports that nobody listened on a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def run_seaweedfs(folder: Path, bucket: str) -> Iterator[str]:
    """SeaweedFS, whose package is a development dependency."""
    weed = Path(sys.executable).with_name("weed")
    if not weed.exists():
        raise ServerMissing("SeaweedFS is not installed: the dependency group 'servers' has it")
    names = ("master", "volume", "filer", "s3", "admin")
    ports = find_free_ports(2 * len(names))
    command = [str(weed), "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    command += ["-master.telemetry=false", "-webdav=false", "-admin.ui=false", f"-bucket={bucket}"]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
    for name, port, grpc_port in zip(names, ports, ports[len(names) :], strict=False):
        command += [f"-{name}.port={port}", f"-{name}.port.grpc={grpc_port}"]
    url = f"http://127.0.0.1:{ports[names.index('s3')]}"
    environment = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    with run_server(command, url, folder, environment):
        yield url


@contextlib.contextmanager
def run_azurite(folder: Path) -> Iterator[str]:
    """Azurite's blob service, fetched once into a folder of the project."""
    package = install_package("azurite", _AZURITE_VERSION)
    script = package / "dist" / "src" / "blob" / "main.js"
    (port,) = find_free_ports(1)
    command = [
        _find_program("node"), str(script), "--blobHost", "127.0.0.1", "--blobPort", str(port),
        "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent",
    ]  # fmt: skip
    with run_server(command, f"http://127.0.0.1:{port}", folder) as url:
        yield url


def install_package(name: str, version: str) -> Path:
    """The folder of a package of npm, fetched once into a folder of the project."""
    folder = _CACHE / f"{name}-{version}"
    package = folder / "node_modules" / name
    if package.exists():
        return package
    # Beside its place and then moved, because workers of one run may want it at once.
    building = _CACHE / f"building-{name}-{os.getpid()}"
    building.mkdir(parents=True)
    command = [
        _find_program("npm"),
        "install",
        "--prefix",
        str(building),
        "--no-audit",
        "--no-fund",
    ]
    outcome = subprocess.run(
        [*command, f"{name}@{version}"], capture_output=True, text=True, timeout=600
    )
    if outcome.returncode != 0:
        shutil.rmtree(building)
        raise ServerMissing(f"npm can't install {name}: {outcome.stderr[-2000:]}")
    with contextlib.suppress(OSError):
        building.rename(folder)
    shutil.rmtree(building, ignore_errors=True)
    return package


def _find_program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ServerMissing(f"{name} is not installed, which packages of npm need")
    return found


def skip_or_fail(missing: ServerMissing) -> None:
    """On a machine of the continuous integration nothing may be missing."""
    if os.environ.get("CI") == "true":
        pytest.fail(str(missing))
    pytest.skip(str(missing))
