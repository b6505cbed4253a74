"""Quality checks that validate a new version before a job publishes it (write-audit-publish).

Checks are named after the property they validate. Dataset checks read
coordinates and metadata once. Region checks read the data of each source file, on workers. A user
function is a region check: it receives the dataset of a file's region and the `FileRegion`, and
returns None, a text, a `Finding`, or several of them.
"""

from typing import TYPE_CHECKING

from frazil.lazy import load_lazily

if TYPE_CHECKING:
    from frazil.spark.checks.audit import FileRegion as FileRegion
    from frazil.spark.checks.audit import Finding as Finding
    from frazil.spark.checks.quality_checks import CF_ATTRIBUTES as CF_ATTRIBUTES
    from frazil.spark.checks.quality_checks import OwnFunction as OwnFunction
    from frazil.spark.checks.quality_checks import complete as complete
    from frazil.spark.checks.quality_checks import fill_share as fill_share
    from frazil.spark.checks.quality_checks import monotonic as monotonic
    from frazil.spark.checks.quality_checks import same_metadata as same_metadata
    from frazil.spark.checks.quality_checks import samples_equal_source as samples_equal_source
    from frazil.spark.checks.quality_checks import unique as unique
    from frazil.spark.checks.quality_checks import values_between as values_between

# Module of each public name. The imports above repeat this for type checkers.
_HOMES = {
    "audit": "FileRegion Finding",
    "quality_checks": (
        "CF_ATTRIBUTES complete fill_share monotonic OwnFunction same_metadata samples_equal_source "
        "unique values_between"
    ),
}

__all__ = sorted(" ".join(_HOMES.values()).split())

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_lazily("frazil.spark.checks", _HOMES)
