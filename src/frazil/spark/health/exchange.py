"""Columns that tasks find anywhere, brought together by shares of their ids: one shuffle, nothing kept.

Tasks of the first step give something small, which the driver gets, and columns of bytes by share.
Tasks of the second step have all columns of a share. Both run in one go, so that nothing is left over.
"""

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from frazil.spark.arrays.runner import Runner
from frazil.spark.fan_out import (
    RESULT_FIELDS,
    RESULT_SCHEMA,
    collect_results,
    dump,
    find_max_failures,
    run_task,
)

Group = TypeVar("Group")
Small = TypeVar("Small")
Result = TypeVar("Result")

Columns = list[tuple[int, bytes]]
"""With the number of their share; in the second step with that of the group that they are from."""

Find = Callable[[Group], tuple[Small, Columns]]
Join = Callable[[int, Columns], Result]
"""Of a share's number, and all columns of that share in the order of their groups."""

_OWN_FIELDS = pa.schema([("share", pa.int32()), ("group", pa.int64()), ("columns", pa.binary())])
_FIELDS = pa.schema([*RESULT_FIELDS, *_OWN_FIELDS])
_SCHEMA = RESULT_SCHEMA + ", share int, `group` long, columns binary"


def exchange(
    runner: Runner,
    what: str,
    find: Find[Group, Small],
    groups: Sequence[Group],
    join: Join[Result],
    num_shares: int,
) -> tuple[list[Small], list[Result]]:
    """What is found for each group, and what comes of each share; also of those without a column."""
    work = _Work(find, groups, join, num_shares)
    if runner.spark is not None and groups:
        return _exchange_on_spark(runner, runner.spark, what, work)
    found = runner.run(what, find, groups)
    shares: list[Columns] = [[] for _ in range(num_shares)]
    for number, (_, columns) in enumerate(found):
        for share, data in columns:
            shares[share].append((number, data))
    return [small for small, _ in found], [join(*each) for each in enumerate(shares)]


def _exchange_on_spark(
    runner: Runner, spark: SparkSession, what: str, work: "_Work[Group, Small, Result]"
) -> tuple[list[Small], list[Result]]:
    blob = dump((work, find_max_failures(spark)))

    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        loaded, max_failures = _load(blob)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from loaded.run_group(number, max_failures)

    def join(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        loaded, max_failures = _load(blob)
        yield from loaded.run_share(batches, max_failures)

    groups, shares = len(work.groups), work.num_shares
    found = spark.range(0, groups, 1, groups).mapInArrow(find, _SCHEMA)
    joined = found.repartitionById(shares, "share").mapInArrow(join, RESULT_SCHEMA)
    results = collect_results(spark, runner.job, what, joined, groups + shares)
    return results[:groups], results[groups:]


@lru_cache(maxsize=2)
def _load(blob: bytes) -> Any:
    """What all tasks have in common, once for all of them that a worker runs."""
    return pickle.loads(blob)


@dataclass(frozen=True, slots=True)
class _Work(Generic[Group, Small, Result]):
    find: Find[Group, Small]
    groups: Sequence[Group]
    join: Join[Result]
    num_shares: int

    def run_group(self, number: int, max_failures: int) -> Iterator[pa.RecordBatch]:
        """A row that says what became of a group, and a row for each of its columns."""
        # The first group sees to it that every share has a task.
        columns: Columns = [(share, b"") for share in range(self.num_shares) if number == 0]

        def find() -> Small:
            small, found = self.find(self.groups[number])
            columns.extend(found)
            return small

        row = run_task(number, find, max_failures)
        yield _to_batch([*row.columns, *_own(number % self.num_shares, number, None)])
        nothing = [pa.nulls(1, field.type) for field in RESULT_FIELDS]
        for share, data in columns:
            yield _to_batch([*nothing, *_own(share, number, data)])

    def run_share(
        self, batches: Iterable[pa.RecordBatch], max_failures: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of groups as they are, and one that says what became of each share that is here."""
        shares: defaultdict[int, Columns] = defaultdict(list)
        for batch in batches:
            yield batch.filter(pc.is_null(batch.column("columns"))).select(RESULT_FIELDS.names)
            own = batch.select(_OWN_FIELDS.names).to_pydict()
            for share, group, data in zip(*own.values(), strict=True):
                shares[share] += [(group, data)] if data else []
        for share, columns in shares.items():
            join = partial(self.join, share, sorted(columns, key=lambda each: each[0]))
            yield run_task(len(self.groups) + share, join, max_failures)


def _own(share: int, group: int, data: bytes | None) -> list[pa.Array]:
    values = zip((share, group, data), _OWN_FIELDS, strict=True)
    return [pa.array([value], field.type) for value, field in values]


def _to_batch(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, schema=_FIELDS)
