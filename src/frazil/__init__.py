"""The Icechunk storage format in Python, with its data pipeline on Apache Spark."""

from frazil.version import __version__

__all__ = ["__version__"]
