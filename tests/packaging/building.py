"""The wheel and the source distribution, and environments that have a wheel and what it asks for."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from tests.pages import ROOT

_BACKEND = "import sys, hatchling.build as backend; getattr(backend, sys.argv[1])(sys.argv[2])"


class BackendMissing(Exception):  # noqa: N818 - it says what is the matter
    """What packages are built with can't be had here."""


@dataclass(frozen=True)
class Builder:
    """Runs the build backend that the project names."""

    libraries: Path
    """A folder that has it, if it is not installed."""

    def build_wheel(self, project: Path, target: Path) -> Path:
        """The wheel of a project."""
        self._call("build_wheel", project, target)
        (wheel,) = target.glob("*.whl")
        return wheel

    def build_source(self, project: Path, target: Path) -> Path:
        """The source distribution of a project."""
        self._call("build_sdist", project, target)
        (archive,) = target.glob("*.tar.gz")
        return archive

    def _call(self, hook: str, project: Path, target: Path) -> None:
        command = [sys.executable, "-c", _BACKEND, hook, str(target)]
        run(command, project, PYTHONPATH=str(self.libraries))


def make_builder(folder: Path) -> Builder:
    """A builder; the backend is fetched into a folder if it is not installed."""
    if find_spec("hatchling") is None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
        wanted = project["build-system"]["requires"]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        fetched = subprocess.run([*command, *wanted], capture_output=True, text=True, timeout=300)
        if fetched.returncode != 0:
            raise BackendMissing(fetched.stderr[-2000:])
    return Builder(folder)


@dataclass(frozen=True)
class Environment:
    """An environment of its own, which sees nothing of this one."""

    folder: Path

    def run(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run one of its programs."""
        command = [str(self.folder / "bin" / program), *arguments]
        return run(command, self.folder, check=False, PYTHONPATH="", COLUMNS="200", NO_COLOR="1")


def make_environment(folder: Path, wheel: Path) -> Environment:
    """An environment with a wheel, and links to just those packages that it says it needs."""
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], ROOT)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    run([*pip, "--no-deps", "--no-index", str(wheel)], ROOT)
    packages = Path(run([str(python), "-c", _FIND_PACKAGES], folder).stdout.strip())
    (installed,) = metadata.distributions(name="frazil", path=[str(packages)])
    for each in find_needed(installed.requires or ()):
        link(each, packages)
    return Environment(folder)


_FIND_PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"


def find_needed(requirements: Sequence[str]) -> list[metadata.Distribution]:
    """What requirements without extras come to, with what that needs in turn."""
    todo = [Requirement(each) for each in requirements]
    found: dict[str, metadata.Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        wanted = todo.pop()
        key = (normalize(wanted.name), frozenset(wanted.extras))
        if key in seen or not (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            continue
        seen.add(key)
        found[key[0]] = metadata.distribution(wanted.name)
        for text in found[key[0]].requires or ():
            inner = Requirement(text)
            if inner.marker is None or any(
                inner.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)
            ):
                todo.append(Requirement(str(inner).partition(";")[0]))
    return list(found.values())


def normalize(name: str) -> str:
    """The name of a distribution, however it is spelled."""
    return re.sub(r"[-_.]+", "-", name).lower()


def link(distribution: metadata.Distribution, packages: Path) -> None:
    """Let a package of this environment be in another one, too."""
    home = Path(str(distribution.locate_file("")))
    for name in {each.parts[0] for each in distribution.files or () if each.parts[0] != ".."}:
        target = packages / name
        if name != "__pycache__" and not target.exists():
            target.symlink_to(home / name)


def run(
    command: Sequence[str], folder: Path, *, check: bool = True, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command, and tell what it said if it fails."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
    return done
