import pytest

from frazil.errors import FormatError, ObjectNotFoundError
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId
from frazil.repository.context import RepositoryContext
from frazil.repository.inspect import (
    inspect_manifest,
    inspect_repo_info,
    inspect_snapshot,
    inspect_transaction_log,
    list_manifest_files,
)
from tests.session_states import WITH_LOGS, WITHOUT_LOGS, create_context, plant

WITHOUT_REPO_INFO = [dialect for dialect in Dialect if dialect is not Dialect.V2]


def create(dialect: Dialect) -> RepositoryContext:
    context = create_context(dialect)
    plant(context)
    return context


# What the official library says of its generations, the interop tests compare.


@pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)
def test_snapshots_and_manifests_of_every_generation_are_reported(dialect: Dialect) -> None:
    protocol = create(dialect).protocol
    tip = protocol.lookup_branch("main")

    snapshot = inspect_snapshot(protocol, tip)
    files = list_manifest_files(protocol, tip)
    manifests = [inspect_manifest(protocol, ManifestId.parse(file.id)) for file in files]

    assert (snapshot["id"], snapshot["commit_message"]) == (str(tip), "base")
    assert [node["path"] for node in snapshot["nodes"]] == [
        "/", "/g", "/g/a", "/g/b", "/g/sub", "/h"
    ]  # fmt: skip
    assert [file.id for file in files] == [manifest["id"] for manifest in manifests]
    assert sum(manifest["total_inline"] for manifest in manifests) == 16
    assert all(manifest["size_bytes"] > 16 for manifest in manifests)


@pytest.mark.parametrize("dialect", WITH_LOGS, ids=lambda dialect: dialect.value)
def test_logs_of_every_generation_are_reported(dialect: Dialect) -> None:
    protocol = create(dialect).protocol

    log = inspect_transaction_log(protocol, protocol.lookup_branch("main"))

    assert (len(log["new_groups"]), len(log["new_arrays"])) == (4, 2)
    assert [len(each["chunks"]) for each in log["updated_chunks"]] == [8, 8]
    assert "synthetic_composite" not in log


@pytest.mark.parametrize("dialect", WITHOUT_LOGS, ids=lambda dialect: dialect.value)
def test_generations_without_logs_have_none_to_report(dialect: Dialect) -> None:
    protocol = create(dialect).protocol

    with pytest.raises(ObjectNotFoundError, match=dialect.value):
        inspect_transaction_log(protocol, protocol.lookup_branch("main"))


@pytest.mark.parametrize("dialect", WITHOUT_REPO_INFO, ids=lambda dialect: dialect.value)
def test_only_v2_has_a_repo_info(dialect: Dialect) -> None:
    with pytest.raises(FormatError) as refused:
        inspect_repo_info(create(dialect).protocol)

    assert refused.value.kind == "unsupported-spec-version"
