"""Test tools for Frazil and for programs that use it."""

from frazil.storage.wrappers import LatencyStorage

__all__ = ["LatencyStorage"]
