"""The repositories on which upkeep is tried."""

import pytest

from frazil import Repository
from tests.repositories import create
from tests.unit.maintenance.repositories import ALL_NATIVE


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def repository(request: pytest.FixtureRequest) -> Repository:
    """An empty repository of each generation that is created today, without inline chunks."""
    return create(config=ALL_NATIVE, spec_version=request.param)


@pytest.fixture
def v2_repository() -> Repository:
    """An empty V2 repository, without inline chunks."""
    return create(config=ALL_NATIVE)
