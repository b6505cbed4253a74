"""The official library for every test of this lane."""

from collections.abc import Iterator

import pytest

from tests.interop.official_library import OfficialLibrary, find_python


@pytest.fixture(scope="session")
def official(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OfficialLibrary]:
    """A child process with the official library, one for each worker."""
    log = tmp_path_factory.mktemp("official") / "log"
    with OfficialLibrary.start(find_python(), log) as library:
        yield library
