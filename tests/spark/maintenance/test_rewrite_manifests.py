"""Manifests written anew by tasks are those that one machine writes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil import ConflictError, FormatError, Repository, Session
from frazil.format.manifest import InlineRef, NativeRef
from frazil.repository.store_io import set_ref
from frazil.spark.regions import configured_rules
from tests.repositories import create, manifest_ids, split_every
from tests.spark.clusters.faults import Meanwhile
from tests.spark.maintenance.contents import (
    VALUES,
    change,
    messages,
    read_values,
    references,
    set_values,
)


def describe(session: Session) -> dict[str, Any]:
    """Nodes, with the boxes and references of their manifests one by one."""
    view = session.state.view
    return {
        node.path: (node.id, node.user_data, [] if node.array is None else [
            (ref.extents, view.assets.read_manifest(ref.id).table(node.id, len(ref.extents)).refs())
            for ref in node.array.manifests
        ])
        for node in view.nodes()
    }  # fmt: skip


def check_like_one_machine(repo: Repository, **options: Any) -> None:
    """Rewrite two branches at the same commit, one by one machine."""
    repo.create_branch("there", repo.lookup_branch("main"))
    repo.rewrite_manifests("rewritten", branch="there", metadata={"by": "me"})

    report = frazil.rewrite_manifests(repo, message="rewritten", metadata={"by": "me"}, **options)

    ours, theirs = repo.readonly_session("main"), repo.readonly_session("there")
    assert describe(ours) == describe(theirs)
    reported, expected = (repo.lookup_snapshot(each.snapshot_id) for each in (ours, theirs))
    assert reported.message == expected.message
    assert {**reported.metadata, "frazil_job": 0} == {**expected.metadata, "frazil_job": 0}
    assert reported.metadata["frazil_job"]["job_id"] == report.job_id
    files = ours.state.view.snapshot.manifest_files
    assert (report.manifests, report.references) == (len(files), len(references(ours)))
    assert not {each.id for each in files} & {
        each.id for each in theirs.state.view.snapshot.manifest_files
    }


places = st.tuples(st.integers(0, 5), st.integers(0, 6))
arrays = st.dictionaries(places, st.sampled_from(["native", "inline"]), max_size=30)


@given(
    st.lists(arrays, max_size=3), st.integers(1, 7), st.integers(1, 7),
    st.tuples(st.integers(0, 8), st.integers(0, 8)), st.sampled_from([1, 2]),
)  # fmt: skip
def test_the_result_is_that_of_one_machine(
    found: list[Any], before: int, after: int, resized: tuple[int, int], spec_version: int
) -> None:
    repo = create(config=split_every(before), spec_version=spec_version)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="scalar", shape=(), dtype="u1")[...] = 1
    for number, chunks in enumerate(found):
        path = f"group/a{number}"
        zarr.create_array(session.store, name=path, shape=(6, 7), chunks=(1, 1), dtype="u1")
        for place, kind in chunks.items():
            data = bytes([number, *place])
            id = session.state.assets.write_chunk(data)
            ref = InlineRef(data) if kind == "inline" else NativeRef(id, 0, 3)
            set_ref(session.state, f"/{path}", place, ref)
    session.commit("written")
    session = repo.writable_session("main")
    for number in range(len(found)):
        zarr.open_array(session.store, path=f"group/a{number}").resize(resized)
    session.commit("resized", allow_empty=True)

    check_like_one_machine(repo.reopen(split_every(after)))


def test_an_amend_takes_the_place_of_the_last_commit(repo: Repository) -> None:
    former = messages(repo)

    frazil.rewrite_manifests(repo, message="amended", commit_method="amend")

    assert messages(repo) == ["amended", *former[1:]]
    np.testing.assert_array_equal(read_values(repo.readonly_session("main")), VALUES)


def test_an_amend_needs_v2() -> None:
    repo = create(spec_version=1)

    with pytest.raises(FormatError, match="amend"):
        frazil.rewrite_manifests(repo, commit_method="amend")
    with pytest.raises(ValueError, match="neither"):
        frazil.rewrite_manifests(repo, commit_method="other")  # type: ignore[arg-type]
    frazil.rewrite_manifests(repo)
    assert messages(repo)[0] == "rewrite manifests"


def meanwhile(path: Path) -> Meanwhile:
    changed = set_values("data/a", 0, VALUES[1])
    return Meanwhile("writing manifests", lambda: change(path, "theirs", changed), at_end=True)


def test_commits_meanwhile_are_kept_and_only_what_they_changed_is_written_again(
    path: Path, repo: Repository
) -> None:
    before = len(list(repo.storage.list("manifests/")))
    wide = repo.reopen(split_every(5))

    report = frazil.rewrite_manifests(wide, message="ours", job=meanwhile(path))

    assert messages(repo)[:2] == ["ours", "theirs"]
    session = repo.readonly_session("main")
    assert len(manifest_ids(session, "/data/a")) == len(manifest_ids(session, "/data/b")) == 4
    expected = VALUES.copy()
    expected[0] = VALUES[1]
    np.testing.assert_array_equal(read_values(session), expected)
    assert report.manifests == 4 + 4 + 4
    # Their commit wrote those of a row of cells, and ours those that a row of its cells touches.
    assert len(list(repo.storage.list("manifests/"))) - before == 12 + 4 + 2


def test_an_amend_of_a_commit_that_is_the_last_no_more_is_a_conflict(
    path: Path, repo: Repository
) -> None:
    with pytest.raises(ConflictError):
        frazil.rewrite_manifests(repo, commit_method="amend", job=meanwhile(path))

    assert messages(repo)[0] == "theirs"


def test_a_large_array_without_a_rule_is_split(tmp_path: Path) -> None:
    storage = frazil.local_filesystem_storage(str(tmp_path / "repo"))
    repo = Repository.create(storage)
    session = repo.writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(400, 500), chunks=(1, 1), dtype="u1")
    array[[3, 250], [7, 7]] = 1
    session.commit("written")

    report = frazil.rewrite_manifests(repo)

    assert (report.manifests_before, report.manifests, report.references) == (1, 2, 2)
    opened = Repository.open(storage)
    ((condition, sizes),) = configured_rules(opened.config) or ()
    assert condition.matches("/a")
    assert [size for _, size in sizes] == [200]
    check_like_one_machine(opened)


def test_the_official_library_reads_the_new_manifests(path: Path, repo: Repository) -> None:
    icechunk = pytest.importorskip("icechunk")

    frazil.rewrite_manifests(repo.reopen(split_every(7)))

    opened = icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))
    for name in ("data/a", "data/b"):
        np.testing.assert_array_equal(read_values(opened.readonly_session("main"), name), VALUES)
