"""Version of the library, and of the packages that it works with."""

from importlib import import_module

__version__ = "0.1.0"

_PACKAGES = ("zarr", "numcodecs", "numpy", "obstore", "xarray", "virtualizarr", "pyspark")


def user_agent() -> str:
    """Return the name and version of the library."""
    return f"frazil-{__version__}"


def print_debug_info() -> None:
    """Print the versions to include in a bug report."""
    # Imported here, because every import of the package loads this module.
    platform, metadata = import_module("platform"), import_module("importlib.metadata")
    print(f"platform:  {platform.platform()}")
    print(f"python:  {platform.python_version()}")
    print(f"frazil:  {__version__}")
    for name in _PACKAGES:
        try:
            print(f"{name}:  {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
