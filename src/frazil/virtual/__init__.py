"""Virtual chunks: bytes that stay in files which somebody else wrote.

`open` finds the chunks of a source file, `combine` plans how many sources become one group, `write`
carries the plan out in a session. These come with the extra `virtual`, and are loaded when first used.
"""

from typing import TYPE_CHECKING

from frazil.lazy import load_lazily
from frazil.virtual.containers import VirtualChunkContainer
from frazil.virtual.specs import VirtualChunkSpec

if TYPE_CHECKING:
    from frazil.virtual.combining import Plan as Plan
    from frazil.virtual.combining import Problem as Problem
    from frazil.virtual.combining import ProblemKind as ProblemKind
    from frazil.virtual.combining import Report as Report
    from frazil.virtual.combining import Severity as Severity
    from frazil.virtual.combining import Treatment as Treatment
    from frazil.virtual.combining import VariablePlan as VariablePlan
    from frazil.virtual.combining import combine as combine
    from frazil.virtual.datasets import manifest_store as manifest_store
    from frazil.virtual.datasets import read_dataset as read_dataset
    from frazil.virtual.datasets import write_dataset as write_dataset
    from frazil.virtual.readers import open as open
    from frazil.virtual.sources import ArrayHeader as ArrayHeader
    from frazil.virtual.sources import FileVersion as FileVersion
    from frazil.virtual.sources import ReferenceColumns as ReferenceColumns
    from frazil.virtual.sources import Source as Source
    from frazil.virtual.sources import SourceHeader as SourceHeader
    from frazil.virtual.writing import create as create
    from frazil.virtual.writing import set_references as set_references
    from frazil.virtual.writing import write as write

# Where each name lives. The imports above say the same to type checkers.
_HOMES = {
    "combining": "Plan Problem ProblemKind Report Severity Treatment VariablePlan combine",
    "datasets": "manifest_store read_dataset write_dataset",
    "readers": "open",
    "sources": "ArrayHeader FileVersion ReferenceColumns Source SourceHeader",
    "writing": "create set_references write",
}

__all__ = ["VirtualChunkContainer", "VirtualChunkSpec"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_lazily("frazil.virtual", _HOMES)
