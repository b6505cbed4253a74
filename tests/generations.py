"""The repositories of every generation of the format that the tests read.

They travel in one archive, one folder each: `repo/` is the repository, `expected.json` says what it
must read as, `virtual/` holds the files that its `file://` references point into.
"""

import tarfile
from pathlib import Path, PurePosixPath

ARCHIVE = Path(__file__).parent / "data" / "generations.tar.xz"


def _read_repository_names() -> list[str]:
    with tarfile.open(ARCHIVE) as archive:
        members = [PurePosixPath(name) for name in archive.getnames()]
    return sorted(str(member.parent) for member in members if member.match("*/expected.json"))


#: Every folder of the archive, for tests that run once per repository.
REPOSITORY_NAMES = _read_repository_names()


def unpack_repositories(directory: Path) -> None:
    """Put every repository of the archive into `directory`, under its own name."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
