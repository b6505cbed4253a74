"""Damages of transaction logs and of headers."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from frazil.format.header import Compression, Dialect, FileType, Header, decode_file
from frazil.format.v2 import snapshot_codec as log_encoding
from frazil.maintenance.check_metadata import check_header
from frazil.maintenance.findings import Repair, Severity
from tests.damages import (
    ALL_DIALECTS,
    SMALL,
    ancestor,
    create_sample,
    cut,
    delete,
    find_only,
    log_key,
    manifest_key,
    reopen,
    rewrite_log,
    tip,
    what_matters,
)

WITH_LOGS = [each for each in ALL_DIALECTS if each not in (Dialect.DRAFT, Dialect.ALPHA_A)]
FLATBUFFERS = [Dialect.V1, Dialect.V2]


def test_a_file_that_is_not_compressed_is_a_warning() -> None:
    repository = create_sample()
    key = log_key(repository, tip(repository))
    header, payload = decode_file(bytes(repository.storage.get(key)), FileType.TRANSACTION_LOG)
    plain = replace(header, compression=Compression.NONE)
    repository.storage.put(key, plain.encode() + payload)

    problem = find_only(repository)

    assert (problem.severity, problem.object) == (Severity.WARNING, key)
    assert "the official library reads no such file" in problem.what


def test_a_file_of_a_later_version_than_its_repository_is_found() -> None:
    repository = create_sample(Dialect.V1)
    key = log_key(repository, tip(repository))
    data = bytearray(repository.storage.get(key))
    data[36] = 2
    repository.storage.put(key, bytes(data))

    found = find_only(repository).what

    assert found == "its spec version is 2, that of the repository is 1"


@pytest.mark.parametrize(("dialect", "expected"), [(Dialect.V1, 1), (Dialect.V2, 2)])
def test_the_version_of_the_repository_is_named(dialect: Dialect, expected: int) -> None:
    (problem,) = check_header(Header("a program", 3, FileType.MANIFEST), "key", dialect)

    assert problem.what == f"its spec version is 3, that of the repository is {expected}"


@pytest.mark.parametrize("dialect", FLATBUFFERS)
def test_a_file_of_another_type_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    key = manifest_key(repository, SMALL)
    repository.storage.put(key, repository.storage.get(log_key(repository, tip(repository))))

    assert "the header says that it is a transaction-log" in find_only(repository).what


@pytest.mark.parametrize("dialect", WITH_LOGS)
def test_a_missing_log_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    gone = log_key(repository, ancestor(repository, 1))
    delete(repository, gone)

    problem = find_only(repository)

    assert (problem.object, problem.repair) == (gone, Repair.REBUILD_LOG)


@pytest.mark.parametrize("dialect", WITH_LOGS)
def test_a_damaged_log_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    damaged = log_key(repository, tip(repository))
    cut(repository, damaged, 20)

    problem = find_only(repository)

    assert (problem.object, problem.repair) == (damaged, Repair.REBUILD_LOG)


@pytest.mark.parametrize("dialect", FLATBUFFERS)
def test_a_log_of_another_snapshot_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    rewrite_log(repository, tip(repository), lambda log: replace(log, id=ancestor(repository, 1)))

    assert "the log in it is that of" in find_only(repository).what


def test_a_log_that_is_not_in_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = create_sample()
    first = ancestor(repository, 2)

    def sort_backwards(values: Iterable[Any], **options: Any) -> list[Any]:
        found = sorted(values, **options)
        return found[::-1] if isinstance(values, frozenset) else found

    monkeypatch.setattr(log_encoding, "sorted", sort_backwards, raising=False)
    rewrite_log(repository, first, lambda log: log)

    found = what_matters(reopen(repository).check())

    assert {(each.object, each.what) for each in found} == {
        (log_key(repository, first), f"{name} is not in order")
        for name in ("new_groups", "new_arrays")
    }
