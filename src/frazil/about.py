"""What this library is: its version, the formats it knows, and where it runs."""

import platform
from importlib import metadata

from frazil.ops import SpecVersion
from frazil.version import __version__

_PACKAGES = ("zarr", "numcodecs", "numpy", "obstore", "xarray", "virtualizarr", "pyspark")


def spec_version() -> SpecVersion:
    """The generation of the format that new repositories are in."""
    return SpecVersion.current()


def supported_spec_versions() -> list[SpecVersion]:
    """The generations that can be read and written, newest first."""
    return sorted(SpecVersion, reverse=True)


def user_agent() -> str:
    """What the library calls itself."""
    return f"frazil-{__version__}"


def print_debug_info() -> None:
    """Print what a report of a bug should say."""
    versions = {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "frazil": __version__,
        **{name: found for name in _PACKAGES if (found := _find_version(name)) is not None},
    }
    for name, version in versions.items():
        print(f"{name}:  {version}")


def _find_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
