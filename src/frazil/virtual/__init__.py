"""Virtual chunks: bytes that stay in files which somebody else wrote."""

from frazil.virtual.containers import VirtualChunkContainer
from frazil.virtual.specs import VirtualChunkSpec

__all__ = ["VirtualChunkContainer", "VirtualChunkSpec"]
