"""The repositories on which sessions are tried."""

import pytest

from frazil import Repository
from tests.repositories import create


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def repository(request: pytest.FixtureRequest) -> Repository:
    """An empty repository of each generation that is created today."""
    return create(spec_version=request.param)
