"""Datasets that are declared once and kept up to date: declare, plan, run, follow, validate."""

from typing import TYPE_CHECKING

from frazil.lazy import load_lazily

if TYPE_CHECKING:
    from frazil.datasets.backfill_branch import BackfillReport as BackfillReport
    from frazil.datasets.backfill_branch import backfill as backfill
    from frazil.datasets.cycle import RunReport as RunReport
    from frazil.datasets.cycle import follow as follow
    from frazil.datasets.cycle import run as run
    from frazil.datasets.dataset_file import load as load
    from frazil.datasets.declaration import Declaration as Declaration
    from frazil.datasets.declaration import DeclarationError as DeclarationError
    from frazil.datasets.template import make_template as make_template
    from frazil.datasets.validation import PlanReport as PlanReport
    from frazil.datasets.validation import StatusReport as StatusReport
    from frazil.datasets.validation import ValidationReport as ValidationReport
    from frazil.datasets.validation import plan as plan
    from frazil.datasets.validation import status as status
    from frazil.datasets.validation import validate as validate

# Module of each public name. The imports above repeat this for type checkers.
_HOMES = {
    "backfill_branch": "backfill BackfillReport",
    "cycle": "follow run RunReport",
    "dataset_file": "load",
    "declaration": "Declaration DeclarationError",
    "template": "make_template",
    "validation": "plan PlanReport status StatusReport validate ValidationReport",
}

__all__ = sorted(" ".join(_HOMES.values()).split())

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_lazily("frazil.datasets", _HOMES)
