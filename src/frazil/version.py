"""Version of the library, for the package metadata and the headers of written files."""

__version__ = "0.1.0"
