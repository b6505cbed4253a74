"""Packages, built once for all tests."""

import os
from pathlib import Path

import pytest

from tests.packaging.building import (
    BackendMissing,
    Builder,
    Environment,
    make_builder,
    make_environment,
)
from tests.pages import ROOT


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """What builds; where it can't be had, nothing here can be tested."""
    try:
        return make_builder(tmp_path_factory.mktemp("backend"))
    except BackendMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(f"the build backend can't be fetched: {missing}")


@pytest.fixture(scope="session")
def wheel(builder: Builder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    return builder.build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def source(builder: Builder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of this tree."""
    return builder.build_source(ROOT, tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What `pip install` of the wheel makes of an empty environment."""
    return make_environment(tmp_path_factory.mktemp("environment") / "venv", wheel)
