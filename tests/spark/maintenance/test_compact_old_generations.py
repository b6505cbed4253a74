"""Chunks are packed, and manifests written anew, in repositories of every generation."""

import numpy as np
import pytest
import zarr

import frazil
from frazil import Repository, RepositoryConfig, create_legacy
from frazil.format.header import Dialect
from frazil.storage.memory import MemoryStorage
from tests.repositories import dangling_files
from tests.spark.maintenance.contents import VALUES, objects_of, read_values

OLD = [dialect for dialect in Dialect if dialect not in (Dialect.V1, Dialect.V2)]


@pytest.mark.parametrize("dialect", OLD, ids=lambda dialect: dialect.value)
def test_old_repositories_can_be_packed(dialect: Dialect) -> None:
    storage = MemoryStorage()
    create_legacy(storage, dialect.value)
    repo = Repository.open(storage, RepositoryConfig(inline_chunk_threshold_bytes=0))
    session = repo.writable_session("main")
    for name in ("a", "b"):
        zarr.create_array(session.store, name=name, data=VALUES, chunks=(10, 10))
    session.commit("written")

    report = frazil.compact(repo, smaller_than=2000, target_size=8000)
    frazil.rewrite_manifests(repo)

    opened = Repository.open(storage)
    session = opened.readonly_session("main")
    for name in ("a", "b"):
        np.testing.assert_array_equal(read_values(session, name), VALUES)
    assert (report.objects_before, report.objects) == (18, len(objects_of(session)))
    assert dangling_files(opened) == set()
    assert frazil.compact(opened, smaller_than=2000, target_size=8000).snapshot_id is None
