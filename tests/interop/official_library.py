"""The official library as the tests use it: questions to a child process that has it.

The child runs on the tests' own interpreter if that is new enough for the official library, and
otherwise on one that `scripts/environment` provides. Where neither can be had, the tests fail.
"""

import contextlib
import select
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.interop.official.protocol import decode_line, encode_line

ROOT = Path(__file__).resolve().parents[2]

_OLDEST_PYTHON = (3, 12)
_ENVIRONMENT = ".venv-official"
_ANSWER_TIMEOUT_SECONDS = 120.0


class OfficialError(Exception):
    """The official library refused; `type` and `kind` are those of its exception."""

    def __init__(self, type: str, kind: str, message: str) -> None:
        super().__init__(type, kind, message)
        self.type = type
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return f"{self.type} ({self.kind}): {self.message}"


class OfficialLibraryMissing(Exception):  # noqa: N818 - it says what is the matter
    """There is no interpreter with the official library; the lane can't run without one."""


@dataclass(frozen=True, slots=True)
class Container:
    """A directory that virtual chunks may be read from."""

    url_prefix: str
    path: str
    name: str | None = None

    @classmethod
    def of(cls, directory: Path, name: str | None = None) -> Self:
        """The container of everything in a directory."""
        return cls(f"file://{directory}/", str(directory), name)


def find_python() -> Path:
    """An interpreter that has the official library; makes an environment if it must."""
    if sys.version_info >= _OLDEST_PYTHON:
        return Path(sys.executable)
    version = ".".join(map(str, _OLDEST_PYTHON))
    command = ["scripts/environment", _ENVIRONMENT, "--at-least", version]
    outcome = subprocess.run(
        [sys.executable, *command, "--without-project", "--groups", "interop"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if outcome.returncode != 0:
        raise OfficialLibraryMissing(
            f"{' '.join(command)} failed: the interop tests need the official library, and it needs "
            f"Python {version} or newer\n{outcome.stderr}"
        )
    return ROOT / _ENVIRONMENT / "bin" / "python"


class OfficialLibrary:
    """A running child process; a context manager that always ends it."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self._log = log

    @classmethod
    def start(cls, python: Path, log: Path) -> Self:
        """Start the child; what it prints goes into the file `log`."""
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [python, "-m", "tests.interop.official"],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        library = cls(process, log)
        try:
            library.call("read_versions")
        except BaseException:
            library.stop()
            raise
        return library

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether the child is still there."""
        return self._process.poll() is None

    def call(self, name: str, **args: Any) -> Any:
        """What the child's function of this name answers; see `official/calls.py`."""
        line = self._exchange(encode_line({"call": name, "args": args}))
        answer = decode_line(line)
        if "error" in answer:
            raise OfficialError(**answer["error"])
        return answer["result"]

    def _exchange(self, request: bytes) -> bytes:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        try:
            requests.write(request)
            requests.flush()
        except BrokenPipeError:
            pass
        else:
            is_answered, _, _ = select.select([answers], [], [], _ANSWER_TIMEOUT_SECONDS)
            if not is_answered:
                self._process.kill()
        line = answers.readline()
        if not line:
            raise OfficialLibraryMissing(
                f"the child process with the official library ended:\n{self._log.read_text()}"
            )
        return line

    def open(self, path: Path, containers: Sequence[Container] = ()) -> "OfficialRepository":
        """A repository on the local disk; without containers nothing outside it may be read."""
        return OfficialRepository(self, path, tuple(containers))

    def stop(self) -> None:
        """End the child: politely, and after that for certain."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


@dataclass(frozen=True, slots=True)
class OfficialRepository:
    """A repository that the official library opens anew for each question."""

    library: OfficialLibrary
    path: Path
    containers: tuple[Container, ...] = field(default=())

    def call(self, name: str, **args: Any) -> Any:
        """Ask one of the child's functions that take a repository."""
        repository = {"path": str(self.path), "containers": [asdict(c) for c in self.containers]}
        return self.library.call(name, repository=repository, **args)
