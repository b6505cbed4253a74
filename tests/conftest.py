"""What every lane of the tests shares: hypothesis profiles and the repositories to read."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.generations import unpack_repositories

# No deadline: a shared machine pauses, and a slow example is not a wrong one.
# The same examples in every run: a change lands by its own merits. `fresh` and `deep` look for others.
# `make test-random` and `make test-deep` print the seed that makes them again, which no database of
# earlier failures may change.
settings.register_profile("fast", deadline=None, print_blob=True, max_examples=20, derandomize=True)
settings.register_profile("ci", deadline=None, print_blob=True, max_examples=40, derandomize=True)
settings.register_profile("fresh", deadline=None, print_blob=True, max_examples=40, database=None)
settings.register_profile("deep", deadline=None, print_blob=True, max_examples=5_000)
settings.load_profile(os.environ.get("FRAZIL_HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def generations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds one folder per repository, as `tests.generations` lists them."""
    directory = tmp_path_factory.mktemp("generations")
    unpack_repositories(directory)
    return directory
