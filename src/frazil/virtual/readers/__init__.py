"""From a source file to a `Source`: which format it has, which parser reads it, what it holds."""

from frazil.virtual.readers.opening import open

__all__ = ["open"]
