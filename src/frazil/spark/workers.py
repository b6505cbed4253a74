"""The Python of workers: where it finds what the driver has, and whether it does."""

import atexit
import re
import shutil
import site
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

import frazil
from frazil import errors
from frazil.errors import IcechunkError

_PROBES = 2
_PROBE_SCHEMA = "executable string, version string, problem string"
_WHAT_TO_DO = (
    f"install frazil {frazil.__version__} there and let PYSPARK_PYTHON say which Python that is, or "
    "send it with frazil.spark.send_package(spark)"
)
_NOT_FOUND = "No module named 'frazil"
WATCHED = "frazil-"
"""What names of groups of jobs begin with that are watched while they run."""
_RETRY_SECONDS = 2.0
_KIND = "kind of the error: "
_OWN_ERROR = re.compile(rf"^frazil(?:\.errors)?\.(\w+): (.+)(?:\n{_KIND}(\S+))?", re.MULTILINE)
_PYTHON_ERROR = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")


def python_path(searched: Sequence[str]) -> list[str]:
    """The folders of this process' path that no interpreter has by itself, and this package's."""
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


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker's Python told."""

    executable: str
    version: str | None
    """Of Frazil; None where it can't be imported."""
    problem: str | None


def ask_workers(spark: SparkSession) -> list[Worker]:
    """What a few tasks find; raises what Spark raises if there can be none."""
    numbers: Any = spark.range(0, _PROBES, 1, _PROBES)
    rows = numbers.mapInArrow(_make_probe(), _PROBE_SCHEMA).collect()
    return list(dict.fromkeys(Worker(*row) for row in rows))


def _make_probe() -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function that travels whole: workers that lack this package could not import it."""

    def probe(batches: Any) -> Any:
        import importlib  # noqa: PLC0415 (it runs elsewhere)
        import sys  # noqa: PLC0415

        import pyarrow  # noqa: PLC0415

        version = problem = None
        try:
            importlib.import_module("frazil.spark.fan_out")
            version = importlib.import_module("frazil").__version__
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        for _ in batches:
            columns = [
                pyarrow.array([each], "string") for each in (sys.executable, version, problem)
            ]
            yield pyarrow.RecordBatch.from_arrays(columns, ["executable", "version", "problem"])

    return probe


def find_problems(workers: Iterable[Worker]) -> list[str]:
    """What is not right with workers, and what to do."""
    return [text for each in workers if (text := _find_problem(each)) is not None]


def _find_problem(worker: Worker) -> str | None:
    if worker.problem is not None:
        return (
            f"the Python of the workers, {worker.executable}, can't import Frazil ({worker.problem}): "
            f"{_WHAT_TO_DO}"
        )
    if worker.version != frazil.__version__:
        return (
            f"the workers have frazil {worker.version}, and this process {frazil.__version__}: "
            f"{_WHAT_TO_DO}"
        )
    return None


@contextmanager
def telling_kind() -> Iterator[None]:
    """Let errors of this package say their kind to `find_error`, which sees only their text.

    A task of a job that is watched waits before it is tried again: where its error would only come
    again, the job is stopped meanwhile.
    """
    context = TaskContext.get()
    if context is not None and context.attemptNumber():
        group = context.getLocalProperty("spark.jobGroup.id") or ""
        time.sleep(_RETRY_SECONDS if group.startswith(WATCHED) else 0)
    try:
        yield
    except IcechunkError as error:
        error.add_note(f"{_KIND}{error.kind}")
        raise


def find_error(text: str) -> IcechunkError | None:
    """The error of this package that Spark tells of, as it was raised in a task; None if none was."""
    found = list(_OWN_ERROR.finditer(text))
    if not found:
        return None
    name, message, kind = found[-1].groups()
    cls = getattr(errors, name, None)
    if not (isinstance(cls, type) and issubclass(cls, IcechunkError)):
        return None
    error = cls.__new__(cls, message)
    IcechunkError.__init__(error, message, kind)
    return error


def find_last_line(text: str) -> str | None:
    """The last line of the last Python traceback in what Spark tells, which names the error."""
    found = _PYTHON_ERROR.findall(text)
    return str(found[-1]) if found else None


def explain_failure(text: str) -> str | None:
    """What to do about a failure of Spark that says that workers lack this package."""
    return f"the workers can't import Frazil: {_WHAT_TO_DO}" if _NOT_FOUND in text else None


def send_package(spark: SparkSession) -> None:
    """Let the workers of a session import the Frazil of this process, which is sent to them.

    What Frazil needs, such as numpy, zarr and obstore, has to be there already.
    """
    # Executors fetch it when they need it, which may be late.
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
