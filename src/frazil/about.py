"""Version of the library, supported formats, and environment."""

import platform
from importlib import metadata

from frazil.ops import SpecVersion
from frazil.version import __version__

_PACKAGES = ("zarr", "numcodecs", "numpy", "obstore", "xarray", "virtualizarr", "pyspark")


def spec_version() -> SpecVersion:
    """Return the spec version of new repositories."""
    return SpecVersion.current()


def supported_spec_versions() -> list[SpecVersion]:
    """Return the spec versions that can be read and written, newest first."""
    return sorted(SpecVersion, reverse=True)


def user_agent() -> str:
    """Return the name and version of the library."""
    return f"frazil-{__version__}"


def print_debug_info() -> None:
    """Print the versions to include in a bug report."""
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
