"""Jobs of `frazil.spark` in one process, without Spark, as `frazil.ingest` and others."""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from frazil import spark
from frazil.errors import InvalidInputError

if TYPE_CHECKING:
    from frazil.spark import analyze as analyze
    from frazil.spark import check as check
    from frazil.spark import collect_garbage as collect_garbage
    from frazil.spark import compact as compact
    from frazil.spark import copy as copy
    from frazil.spark import derive as derive
    from frazil.spark import export_zarr as export_zarr
    from frazil.spark import foreach_region as foreach_region
    from frazil.spark import import_zarr as import_zarr
    from frazil.spark import ingest as ingest
    from frazil.spark import maintain as maintain
    from frazil.spark import materialize as materialize
    from frazil.spark import rechunk as rechunk
    from frazil.spark import resample as resample
    from frazil.spark import rewrite_manifests as rewrite_manifests
    from frazil.spark import stats as stats
    from frazil.spark import transform as transform
    from frazil.spark import write as write
else:

    def __getattr__(name: str) -> object:
        return without_spark(getattr(spark, name))


def without_spark(job: Callable[..., Any]) -> Callable[..., Any]:
    """Return a job of `frazil.spark` that runs all its tasks in this process."""
    name, signature = job.__name__, inspect.signature(job)
    own = [each for each in signature.parameters.values() if each.name != "spark"]

    @functools.wraps(job)
    def run(*args: Any, **options: Any) -> Any:
        if "spark" in options:
            raise InvalidInputError(f"frazil.{name} has no option 'spark': use frazil.spark.{name}")
        handle = options.get("job")
        run_on = options.get("run_on", "auto") if handle is None else handle.run_on
        if run_on == "spark":
            raise InvalidInputError(f"invalid run_on 'spark': use frazil.spark.{name}")
        if handle is not None:
            handle.run_on = "driver"
        elif run_on == "auto":
            options["run_on"] = "driver"
        return job(*args, **options)

    run.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
    return run
