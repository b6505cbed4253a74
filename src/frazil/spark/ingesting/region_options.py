"""Regions as callers give them."""

from collections.abc import Mapping
from typing import Literal

RegionOption = Mapping[str, slice | tuple[int, int] | Literal["auto"]] | Literal["auto"]
"""By dimension, or `auto` for the places that the values of coordinates tell."""
