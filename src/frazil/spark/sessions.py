"""Sessions of Spark that work with nothing configured, and what is missing in those that users made."""

import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import frazil
from frazil.errors import SetupError
from frazil.spark.java import find_java_home

OLDEST_SPARK = (4, 2)
_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
_DEFAULTS = {
    _UNIX_SOCKETS: "true",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
DEFAULT_MASTER = "local[*,4]"
"""All cores; a task may fail three times before the job does."""


def session(
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    app_name: str = "frazil",
    config: Mapping[str, Any] | None = None,
) -> SparkSession:
    """A session of Spark: a new one, the one that runs, or the given one.

    Nothing has to be configured: Java is found or brought by a package, workers run on this
    interpreter, failed tasks are tried again. A session that runs already is left as it is; what is
    missing in it raises SetupError, and what is slow in it is warned of (see `check`).
    """
    running = spark or SparkSession.getActiveSession()
    if running is not None:
        for problem in check(running):
            if problem.is_fatal:
                raise SetupError(problem.text)
            warnings.warn(problem.text, stacklevel=2)
        return running
    _refuse_missing_packages()
    prepare_environment()
    builder = SparkSession.builder.appName(app_name)
    if master is not None or "SPARK_REMOTE" not in os.environ:
        builder = builder.master(master or DEFAULT_MASTER)
    for name, value in {**_DEFAULTS, **_paths(), **(config or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def prepare_environment() -> None:
    """Let this process, and the Java that it starts, find Java and Python."""
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


def check(spark: SparkSession) -> list[Problem]:
    """What a session lacks: an old Spark fails, sockets over TCP are only slow."""
    problems = []
    version = tuple(int(part) for part in re.findall(r"\d+", spark.version)[:2])
    if version < OLDEST_SPARK:
        oldest = ".".join(map(str, OLDEST_SPARK))
        text = f"this session runs Spark {spark.version}; Frazil needs {oldest} or newer"
        problems.append(Problem(text, is_fatal=True))
    if spark.conf.get(_UNIX_SOCKETS, "false") != "true":
        text = f"tasks start five times sooner if the session is made with {_UNIX_SOCKETS}=true"
        problems.append(Problem(text, is_fatal=False))
    return problems


def _refuse_missing_packages() -> None:
    missing = [name for name in ("pandas", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        raise SetupError(f"Spark needs {' and '.join(missing)}: install frazil[spark]")


def _paths() -> dict[str, str]:
    """Where workers find this package, installed or not."""
    folder = str(Path(frazil.__file__).resolve().parents[1])
    return {"spark.executorEnv.PYTHONPATH": os.pathsep.join([folder, *_python_path(folder)])}


def _python_path(known: str) -> list[str]:
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [each for each in given if each and each != known]
