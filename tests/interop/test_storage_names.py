"""Names, parameters and defaults of storages and credentials are the official ones."""

import json
import subprocess
from typing import Any

import pytest

import frazil.credentials
import frazil.storage
from tests.interop.describing import describe_module
from tests.interop.official_library import ROOT, find_python

OURS = {"storage": frazil.storage, "credentials": frazil.credentials}

SAME_CLASSES = (
    "S3Options",
    "StorageConcurrencySettings",
    "StorageRetriesSettings",
    "StorageSettings",
    "StorageTimeoutSettings",
    "GcsBearerCredential",
    "S3StaticCredentials",
)
SAME_KINDS = (
    "AzureCredentials",
    "AzureRefreshableCredential",
    "AzureStaticCredentials",
    "ChecksumAlgorithm",
    "ChunkType",
    "Credentials",
    "GcsCredentials",
    "GcsStaticCredentials",
    "ObjectStoreConfig",
    "S3Credentials",
)


@pytest.fixture(scope="module")
def official() -> dict[str, Any]:
    """What the official modules offer."""
    modules = [f"icechunk.{name}" for name in OURS]
    answer = subprocess.run(
        [find_python(), "-m", "tests.interop.describing", *modules],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(answer.stdout)
    return {name.removeprefix("icechunk."): module for name, module in found.items()}


@pytest.mark.parametrize("module", OURS)
def test_every_official_name_is_here(official: dict[str, Any], module: str) -> None:
    assert official[module].keys() <= set(OURS[module].__all__)


@pytest.mark.parametrize("module", OURS)
def test_functions_take_the_same_parameters_with_the_same_defaults(
    official: dict[str, Any], module: str
) -> None:
    ours = json.loads(json.dumps(describe_module(OURS[module])))

    functions = {name for name, found in official[module].items() if found.keys() == {"parameters"}}
    assert len(functions) > 10
    for name in functions:
        assert ours[name] == official[module][name], name


@pytest.mark.parametrize("module", OURS)
def test_settings_and_credentials_take_the_same_arguments(
    official: dict[str, Any], module: str
) -> None:
    ours = json.loads(json.dumps(describe_module(OURS[module])))

    for name in ours.keys() & set(SAME_CLASSES):
        assert ours[name]["parameters"] == official[module][name]["parameters"], name


@pytest.mark.parametrize("module", OURS)
def test_alternatives_are_the_same(official: dict[str, Any], module: str) -> None:
    ours = describe_module(OURS[module])

    for name in ours.keys() & set(SAME_KINDS):
        assert set(official[module][name]["names"]) <= set(ours[name]["names"]), name
