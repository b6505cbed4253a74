"""How the references of ingested arrays are split over manifests, where nobody has said it."""

from frazil.config.split_conditions import SplitSizes
from frazil.spark.arrays.splitting import plan_rule
from frazil.spark.ingesting.planning import IngestPlan
from frazil.virtual import Treatment


def plan_rules(found: IngestPlan, group: str, configured: SplitSizes | None) -> SplitSizes:
    """Rules for the arrays that no configured one is for."""
    rules: SplitSizes = ()
    for name, variable in found.plan.variables.items():
        if variable.treatment is Treatment.INLINE:
            continue
        shape = variable.metadata["shape"]
        steps = variable.metadata["chunk_grid"]["configuration"]["chunk_shape"]
        counts = [-(-extent // step) for extent, step in zip(shape, steps, strict=True)]
        dims = variable.metadata.get("dimension_names") or ()
        growing = dims.index(found.append_dim) if found.append_dim in dims else None
        path = f"/{group}/{name}" if group else f"/{name}"
        rules = (*rules, *plan_rule(path, counts, growing, configured))
    return rules
