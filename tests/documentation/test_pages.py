"""The code of pages that need no Spark runs."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import frazil
from frazil.xarray import to_icechunk
from tests.documentation.running import HERE, cloud
from tests.pages import ROOT, run_page

PREPARED = (
    "docs/checking.md", "docs/history.md", "docs/urls.md", "docs/how-to/migrate.md",
    "docs/how-to/object-stores.md",
)  # fmt: skip
"""Pages that find something there, with tests of their own."""
NEED_VIRTUALIZARR = (
    "README.md", "docs/README.md", "docs/how-to/share.md", "docs/how-to/virtual-data.md",
    "docs/tutorials/operator.md", "docs/tutorials/scientist.md",
)  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_repository(path: str) -> frazil.Repository:
    """A repository with an array of two commits."""
    repo = frazil.Repository.create(frazil.local_filesystem_storage(path))
    with repo.transaction("main", message="one") as store:
        zarr.create_array(store, name="a", shape=(4,), chunks=(2,), dtype="i4")
    commit(repo, "main", 0)
    return repo


def commit(repo: frazil.Repository, branch: str, place: int) -> str:
    """One more commit, of one value."""
    session = repo.writable_session(branch)
    zarr.open_array(session.store, path="a")[place] = place + 1
    return session.commit(f"{place} of {branch}")


@pytest.mark.parametrize("page", [each for each in HERE if each not in PREPARED])
def test_the_code_of_the_page_runs(page: str) -> None:
    if page in NEED_VIRTUALIZARR and find_spec("virtualizarr") is None:
        pytest.skip("VirtualiZarr needs a newer Python than Frazil does")

    run_page(ROOT / page)


def test_the_code_about_checking_runs() -> None:
    damaged = frazil.local_filesystem_storage("damaged")
    make_repository("damaged")
    damaged.put("repo", b"rust")

    names = run_page(
        ROOT / "docs/checking.md", {"repo": make_repository("whole"), "storage": damaged}
    )

    assert names["report"].is_healthy
    assert frazil.open_repository("damaged").list_branches() == {"main"}


def test_the_code_about_the_history_runs() -> None:
    repo = make_repository("repository")
    since = repo.lookup_branch("main")
    for branch in ("work", "fix", "stable"):
        repo.create_branch(branch, since)
    commit(repo, "work", 1)
    commit(repo, "work", 2)
    names = {"repo": repo, "since": since, "snapshot_id": commit(repo, "fix", 3)}

    run_page(ROOT / "docs/history.md", names)

    assert [each.message for each in repo.ancestry(branch="work")][:2] == [
        "one commit",
        "0 of main",
    ]
    assert next(repo.ancestry(branch="main")).message == "3 of fix"
    assert repo.lookup_branch("stable") == repo.lookup_branch("main")
    assert sorted(repo.retention()) == ["main", "nightly-*"]


def test_the_code_about_urls_runs(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    with cloud(monkeypatch, "bucket") as server:
        in_url, in_call = server["region=eu-central-1"], server['region="eu-central-1"']
        for url in (f"s3://bucket/prefix?{in_url}", "data/repository"):
            repo = frazil.Repository.create(frazil.storage_from_url(url))
            session = repo.writable_session("main")
            for group in (None, "surface"):
                to_icechunk(
                    xr.Dataset({"t": ("x", np.arange(3.0))}), session, group=group, mode="a"
                )
            repo.create_tag("v1", session.commit("three"))
            repo.create_branch("dev", repo.lookup_tag("v1"))
        replaced = {
            **server,
            '{"region": "eu-central-1"}': f"dict({in_call})",
            "?anonymous": f"?anonymous&{in_url}",
            "file:///data": f"file://{folder}/data",
            # The page asks for a version of a day before this repository was made.
            "2026-01-31T12:00:00Z": "2199-01-31T12:00:00Z",
        }

        names = run_page(ROOT / "docs/urls.md", replaced=replaced)

        assert zarr.open_array(names["session"].store, path="t")[2] == 2


def test_the_code_about_object_stores_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with cloud(monkeypatch, "my-bucket") as server:
        names = run_page(ROOT / "docs/how-to/object-stores.md", replaced=server)

        saved = frazil.Repository.fetch_config(names["repo"].storage)

    assert saved is not None
    assert list(saved.virtual_chunk_containers or {}) == ["s3://my-bucket/archive/"]


def test_the_code_about_migrating_runs() -> None:
    code = f"from tests.pages import ROOT, run_page; run_page(ROOT / {'docs/how-to/migrate.md'!r})"

    # In a process of its own: it lets Frazil stand in for the official library.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
