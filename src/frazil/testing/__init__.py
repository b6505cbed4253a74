"""Tools for tests of Frazil and of programs that use it."""

from frazil.storage.wrappers import LatencyStorage

__all__ = ["LatencyStorage"]
