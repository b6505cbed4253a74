"""Sessions of Spark that work with nothing configured, and what is missing in those that users made."""

import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from frazil.errors import SetupError
from frazil.spark.facts import is_connect
from frazil.spark.java import find_java_home
from frazil.spark.spark_home import find_spark_home
from frazil.spark.workers import ask_workers, find_problems, python_path

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
