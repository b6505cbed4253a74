"""Spark as its Python package brings it, started without compiling its Python again in each process.

The Python processes that Spark starts, one for each step of planning and one for each slot, import
`pyspark` from an archive of sources, which takes more than a second. In a folder of links the archive
is a folder, with the package as it is installed and compiled.
"""

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from frazil.spark.overlays import find_overlay, link, link_all

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
