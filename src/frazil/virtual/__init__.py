"""Virtual chunks: chunks whose bytes stay in external source files.

`open` parses the references of a source file, `combine` plans one group from many sources, `write`
carries out the plan in a session. They need the extra `virtual`, and are imported on first use.
"""

from typing import TYPE_CHECKING

from frazil.lazy import load_lazily

if TYPE_CHECKING:
    from frazil.virtual.combine_plan import Plan as Plan
    from frazil.virtual.combine_plan import Problem as Problem
    from frazil.virtual.combine_plan import ProblemKind as ProblemKind
    from frazil.virtual.combine_plan import Report as Report
    from frazil.virtual.combine_plan import Severity as Severity
    from frazil.virtual.combine_plan import Treatment as Treatment
    from frazil.virtual.combine_plan import VariablePlan as VariablePlan
    from frazil.virtual.combine_plan import create as create
    from frazil.virtual.combine_plan import set_references as set_references
    from frazil.virtual.combine_plan import write as write
    from frazil.virtual.combine_sources import combine as combine
    from frazil.virtual.containers import VirtualChunkContainer as VirtualChunkContainer
    from frazil.virtual.containers import VirtualChunkSpec as VirtualChunkSpec
    from frazil.virtual.conversions import deaccumulate as deaccumulate
    from frazil.virtual.conversions import per_file as per_file
    from frazil.virtual.conversions import round_bits as round_bits
    from frazil.virtual.conversions import to_units as to_units
    from frazil.virtual.new_dimensions import from_attribute as from_attribute
    from frazil.virtual.new_dimensions import from_path as from_path
    from frazil.virtual.source import ArrayHeader as ArrayHeader
    from frazil.virtual.source import FileVersion as FileVersion
    from frazil.virtual.source import ReferenceColumns as ReferenceColumns
    from frazil.virtual.source import Source as Source
    from frazil.virtual.source import SourceHeader as SourceHeader
    from frazil.virtual.source_files import open as open
    from frazil.virtual.virtualizarr import manifest_store as manifest_store
    from frazil.virtual.virtualizarr import read_dataset as read_dataset
    from frazil.virtual.virtualizarr import write_dataset as write_dataset

# Module of each name; must match the imports above, which are for type checkers.
_HOMES = {
    "combine_plan": (
        "create Plan Problem ProblemKind Report set_references Severity Treatment VariablePlan write"
    ),
    "combine_sources": "combine",
    "containers": "VirtualChunkContainer VirtualChunkSpec",
    "conversions": "deaccumulate per_file round_bits to_units",
    "new_dimensions": "from_attribute from_path",
    "source": "ArrayHeader FileVersion ReferenceColumns Source SourceHeader",
    "source_files": "open",
    "virtualizarr": "manifest_store read_dataset write_dataset",
}

__all__ = ["VirtualChunkContainer", "VirtualChunkSpec"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_lazily("frazil.virtual", _HOMES)
