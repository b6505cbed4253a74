"""Packing many small chunks into few larger objects, as one commit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from frazil.byte_sizes import parse_bytes
from frazil.maintenance.batches import pack
from frazil.spark.arrays.materializing import arrays_below
from frazil.spark.arrays.one_commit import AnyRepository, running, write_regions
from frazil.spark.arrays.regions import choose_task_bytes
from frazil.spark.arrays.runner import RunOn, count_slots
from frazil.spark.arrays.zarr_arrays import path_of
from frazil.spark.job import Job
from frazil.spark.packing.copying import join_work, pack_chunks
from frazil.spark.packing.pieces import Sizes
from frazil.spark.packing.planning import Plan, Planner
from frazil.spark.packing.report import CompactReport
from frazil.spark.packing.stretches import plan_stretches
from frazil.spark.packing.tasks import TASK_REFERENCES, count_references, weigh

_PACKING = "packing chunks"


def compact(
    spark: SparkSession | None,
    repo: AnyRepository,
    arrays: Sequence[str] | None = None,
    *,
    smaller_than: int | str = "1MB",
    target: int | str = "64MB",
    branch: str = "main",
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    task_bytes: int | None = None,
    job: Job | None = None,
    run_on: RunOn = "auto",
) -> CompactReport:
    """Pack small native chunks into larger objects, neighbours together, without decoding them.

    `arrays` are paths of arrays, or of groups for all arrays below them; without, it is all. A chunk is
    small if its object, of which other chunks may be a part, has fewer than `smaller_than` bytes that
    are referred to. New objects have chunks of one array, unless several refer to the same ones, and
    about `target` bytes, which must be at least four times as many. Chunks in manifests and virtual
    ones stay as they are; so do old objects, which earlier versions refer to, until these expire and
    garbage is collected.

    Raises RebaseFailedError if somebody else has committed changes of the same chunks meanwhile.
    """
    sizes = Sizes(parse_bytes(smaller_than), parse_bytes(target))
    slots = count_slots(spark)
    with running("compact", repo, branch, job) as run:
        session = run.open_session()
        view = session.state.view
        nodes = view.nodes() if arrays is None else arrays_below(view, list(map(path_of, arrays)))
        stretches = plan_stretches([node for node in nodes if node.array], view.assets.dialect)
        counts = count_references(view.snapshot.manifest_files)
        shares = [weigh(each.box, each.manifests, counts) for each in stretches]
        is_small = sum(share.references for share in shares) <= TASK_REFERENCES
        runner = run.choose_runner(spark, run_on, is_small=is_small)
        planner = Planner(runner, view.assets, sizes, session.state.changes.id_size, slots)
        plan = planner.plan(stretches, shares)
        limit = task_bytes or choose_task_bytes(plan.bytes, slots)
        runner = run.choose_runner(spark, run_on, is_small=plan.bytes <= limit)
        if plan.works:
            run.job.expect(_PACKING, bytes=plan.bytes)
            sized = pack(plan.works, [work.bytes for work in plan.works], limit)
            groups = [join_work(works) for works in sized]
            write_regions(runner, session, partial(pack_chunks, plan.choice), groups, _PACKING)
        run.notes += _tell(plan)
        figures = {"objects_before": plan.objects_before, "objects": plan.objects}
        run.figures.update({"bytes": plan.bytes, **figures})
        report = replace(
            run.commit(session, runner, spark, message, metadata), bytes_written=plan.bytes
        )
        saved = plan.objects_before - plan.objects
        return CompactReport.of(report, **figures, requests_saved=saved)


def _tell(plan: Plan) -> list[str]:
    if not plan.left:
        return []
    return [
        f"{plan.left} parts of arrays share more chunks with each other than can be compared, and"
        " stay as they are"
    ]
