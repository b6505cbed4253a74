"""A repository with a hard life, its pages on a real server, and a real browser to look at them."""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import uvicorn
import zarr
from starlette.applications import Starlette

import frazil
from frazil.web.report import render_report
from frazil.web.web_app import make_app

HOSTILE = "<script>document.title='taken'</script>"
TURNED = "abc\u202edef"
TOKEN = "correct-horse-battery"
LONG = "long-" + "x" * 300


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> frazil.Repository:
    """Groups, arrays of several shapes, names that want to do harm."""
    folder = tmp_path_factory.mktemp("pages") / "repository"
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(folder)))
    session = repo.writable_session("main")
    group = zarr.group(session.store)
    field = group.create_array(
        "climate/t", shape=(4, 30, 60), chunks=(1, 15, 60), dtype="f8",
        dimension_names=("time", "lat", "lon"), fill_value=-9.0,
    )  # fmt: skip
    field[:3] = np.sin(np.arange(5400.0)).reshape(3, 30, 60)
    for name, values, attributes in (
        ("time", np.arange(4) * 6, {"units": "hours since 2024-01-01"}),
        ("lat", np.linspace(-87, 87, 30), {"units": "degrees_north"}),
        ("lon", np.arange(60.0) * 6, {"units": "degrees_east"}),
    ):
        group.create_array(
            f"climate/{name}", data=values, dimension_names=(name,), attributes={**attributes}
        )
    make_odd_arrays(group.create_group("odd"))
    group.create_array("_frazil/secret", data=np.arange(3))
    group.create_array("climate/line", data=np.arange(40.0))
    group.create_array("climate/words", data=np.array(["a", "b"], dtype="U4"))
    group.create_array(HOSTILE, data=np.arange(3), attributes={HOSTILE: f'"{HOSTILE}'})
    group.create_array(TURNED, data=np.arange(3))
    group.create_array(LONG, data=np.arange(3))
    repo.create_tag("v1", session.commit(f"first {HOSTILE}"))
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="climate/t")[3] = 1.5
    session.commit(f"second {TURNED}")
    repo.create_branch("side", repo.lookup_tag("v1"))
    aside = repo.writable_session("side")
    zarr.open_group(aside.store).create_group("aside")
    aside.commit("aside")
    return repo


def make_odd_arrays(group: zarr.Group) -> None:
    """Arrays of every kind that no map or line shows, or only a part of."""
    rng = np.random.default_rng(0)
    for name, values in {
        "scalar": np.array(3.5),
        "words": np.array(["a", HOSTILE], dtype="U40"),
        "flags": np.arange(24).reshape(4, 6) % 3 == 0,
        "complex": (np.arange(12) + 1j).reshape(3, 4),
        "five": rng.random((3, 2, 2, 6, 7)),
        "nan": np.full((8, 9), np.nan),
        "dates": np.array(["2020-01-01", "NaT"], "M8[ns]"),
        "structured": np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i4"), ("b", "f8")]),
    }.items():
        group.create_array(name, data=values)
    group.create_array("sharded", data=rng.random((64, 64)), chunks=(8, 8), shards=(32, 32))
    group.create_array("empty", shape=(0, 4), chunks=(1, 4), dtype="f4")
    huge = group.create_array("huge", shape=(200_000, 300_000), chunks=(100, 100), dtype="f4")
    huge[500:510, 700:710] = 1.0


@pytest.fixture(scope="session")
def site(repository: frazil.Repository) -> Iterator[str]:
    """The address of the pages."""
    with run_site(make_app(repository, f"a repository {HOSTILE}", ["127.0.0.1"])) as address:
        yield address


@pytest.fixture(scope="session")
def guarded_site(repository: frazil.Repository) -> Iterator[str]:
    """The address of the same pages for two host names and those who have a token."""
    with run_site(make_app(repository, "guarded", ["127.0.0.1", "data.example"], TOKEN)) as address:
        yield address


@contextmanager
def run_site(app: Starlette) -> Iterator[str]:
    """Serve pages on a free port meanwhile."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    for _ in range(600):
        if server.started:
            break
        time.sleep(0.05)
    assert server.started
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(20)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where the browser is; outside of CI tests do without one."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None or shutil.which("chromedriver") is None:
        reason = "chromium and chromium-driver are not installed: scripts/browser installs them"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def report(repository: frazil.Repository, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same pages as a file."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_report(repository, f"a repository {HOSTILE}"), "utf-8")
    return path
