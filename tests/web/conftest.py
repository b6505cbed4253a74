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
from frazil.web.pages import render_report
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


@pytest.fixture
def report(repository: frazil.Repository, tmp_path: Path) -> Path:
    """The same pages as a file."""
    path = tmp_path / "report.html"
    path.write_text(render_report(repository, f"a repository {HOSTILE}"), "utf-8")
    return path
