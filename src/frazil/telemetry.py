"""Observe jobs and commits: OpenTelemetry, OpenLineage, and a text file for Prometheus.

Nothing is observed, and none of these libraries is loaded, before `observe` is called.
"""

import logging
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from frazil import __version__
from frazil.errors import InvalidInputError, SetupError
from frazil.repository import commit
from frazil.repository.commit import Committed
from frazil.spark import transaction
from frazil.spark.job import METRICS
from frazil.spark.transaction import Run

__all__ = ["Observation", "observe"]

_LOG = logging.getLogger("frazil.telemetry")
_PRODUCER = f"urn:frazil:{__version__}"
_MOST_INPUTS = 100
"""Maximum inputs that an event of OpenLineage names."""


@dataclass(slots=True)
class Record:
    """One job, as far as it is."""

    name: str
    place: str
    run: Run
    started_ns: int = field(default_factory=time.time_ns)
    commits: list[Committed] = field(default_factory=list)
    error: BaseException | None = None
    ended_ns: int = 0

    @property
    def seconds(self) -> float:
        """Return the duration of the job."""
        return (self.ended_ns - self.started_ns) / 1e9

    def figures(self) -> dict[str, float]:
        """Return the amounts that the commits and tasks of the job report."""
        found = [each.metadata.get(METRICS) for each in self.commits]
        known = [each for each in found if isinstance(each, Mapping)]
        return {
            "chunks": sum(int(each.get("chunks") or 0) for each in known),
            "bytes": sum(int(each.get("bytes") or 0) for each in known),
            "tasks": self.run.job.tally.tasks,
            "retries": self.run.job.tally.retries,
            "commits": len(self.commits),
        }


class _Observer(Protocol):
    """Receives jobs and commits."""

    def job(self, record: Record) -> Any:
        """Return a context manager that surrounds a job."""

    def commit(self, done: Committed) -> None:
        """Receive a commit."""


class Observation:
    """Running observation; `stop`, or the end of a `with` block, ends it."""

    def __init__(self, observers: Iterable[Any]) -> None:
        self._observers = tuple(observers)
        self._current: ContextVar[Record | None] = ContextVar("job", default=None)
        transaction.observers.append(self._surround)
        commit.observers.append(self._receive)

    def stop(self) -> None:
        """End the observation."""
        if self._surround in transaction.observers:
            transaction.observers.remove(self._surround)
            commit.observers.remove(self._receive)

    def __enter__(self) -> "Observation":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @contextmanager
    def _surround(self, run: Run) -> Iterator[None]:
        record = Record(run.name, hide_secrets(run.storage.place), run)
        token = self._current.set(record)
        with ExitStack() as stack:
            for each in self._observers:
                with _harmless():
                    stack.enter_context(_guarded(each.job(record)))
            try:
                yield
            except BaseException as error:
                record.error = error
                raise
            finally:
                record.ended_ns = time.time_ns()
                self._current.reset(token)

    def _receive(self, done: Committed) -> None:
        record = self._current.get()
        if record is not None:
            record.commits.append(done)
        for each in self._observers:
            with _harmless():
                each.commit(done)


@contextmanager
def _harmless() -> Iterator[None]:
    """Log errors: whatever fails here must not fail a job."""
    try:
        yield
    except Exception as error:
        _LOG.warning("telemetry failed: %s: %s", type(error).__name__, hide_secrets(str(error)))


@contextmanager
def _guarded(manager: Any) -> Iterator[None]:
    with _harmless():
        manager.__enter__()
    try:
        yield
    finally:
        # Without the error of the job, which the record has: it must not be swallowed or told whole.
        with _harmless():
            manager.__exit__(None, None, None)


def observe(
    *,
    traces: Any = None,
    metrics: Any = None,
    lineage: Any = None,
    namespace: str = "frazil",
    prometheus: str | os.PathLike[str] | None = None,
) -> Observation:
    """Observe all jobs and commits of this process, until the observation is stopped.

    Secrets in locations are hidden. An exporter that fails is logged, and fails no job.

    Parameters
    ----------
    traces
        `TracerProvider` of OpenTelemetry that gets a span for each job and commit; True for the global
        one.
    metrics
        `MeterProvider` of OpenTelemetry that gets counts and durations; True for the global one.
    lineage
        `OpenLineageClient` that gets an event when a job starts and ends; True for one that the
        environment configures, such as by `OPENLINEAGE_URL`.
    namespace
        Namespace of the jobs in events of OpenLineage.
    prometheus
        File to write after each job, for the textfile collector of the node exporter. It has the last
        run of each job and repository.

    Returns
    -------
    Observation

    Raises
    ------
    InvalidInputError
        If nothing is requested, or the folder of the file does not exist.
    SetupError
        If a library is not installed.

    Examples
    --------
    >>> with observe(prometheus="/var/lib/node_exporter/frazil.prom"):
    ...     frazil.ingest(repo, "archive/*.nc", append_dim="time")
    """
    wanted: list[Callable[[], _Observer]] = []
    if traces or metrics:
        wanted.append(lambda: _OpenTelemetry(traces, metrics))
    if lineage:
        wanted.append(lambda: _OpenLineage(lineage, namespace))
    if prometheus is not None:
        path = Path(prometheus)
        if not path.parent.is_dir():
            raise InvalidInputError(f"invalid prometheus {str(path)!r}: its folder does not exist")
        wanted.append(lambda: _PrometheusFile(path))
    if not wanted:
        raise InvalidInputError("nothing to observe: give traces, metrics, lineage or prometheus")
    try:
        return Observation([make() for make in wanted])
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        raise SetupError(
            f"frazil.telemetry needs {missing}, which is not installed: pip install 'frazil[observe]'"
        ) from error


_SECRETS = (
    (re.compile(r"(?<=://)[^/@\s]+@"), ""),
    (re.compile(r"([a-z][a-z0-9+.-]*://[^\s?'\"]*)\?[^\s'\"]*"), r"\1"),
    # Also `Bearer` and `Basic` values of headers.
    (re.compile(r"(?i)\b((?:bearer|basic)\s+)\S+"), r"\1***"),
    (re.compile(r"(?i)((?:key|secret|token|password|signature|credential)[\w-]*['\"]?\s*[=:]\s*)\S+"),
     r"\1***"),
)  # fmt: skip


def hide_secrets(text: str) -> str:
    """Return a location or message without user names, queries and values of secrets."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


class _OpenTelemetry:
    """Spans and metrics of OpenTelemetry."""

    def __init__(self, traces: Any, metrics: Any) -> None:
        # An optional extra.
        from opentelemetry import metrics as api  # noqa: PLC0415
        from opentelemetry import trace  # noqa: PLC0415

        self._trace = trace
        self._tracer = None
        if traces:
            provider = trace.get_tracer_provider() if traces is True else traces
            self._tracer = provider.get_tracer("frazil", __version__)
        self._meters: dict[str, Any] = {}
        if metrics:
            meter = (api.get_meter_provider() if metrics is True else metrics).get_meter("frazil")
            self._meters = {
                "jobs": meter.create_counter("frazil.jobs", "{job}", "Jobs that ended"),
                "seconds": meter.create_histogram("frazil.job.duration", "s", "Duration of jobs"),
                "chunks": meter.create_counter("frazil.chunks", "{chunk}", "Chunks written"),
                "bytes": meter.create_counter("frazil.bytes", "By", "Bytes written"),
                "retries": meter.create_counter("frazil.retries", "{task}", "Repeated tasks"),
                "commits": meter.create_counter("frazil.commits", "{commit}", "Commits"),
            }

    @contextmanager
    def job(self, record: Record) -> Iterator[None]:
        own = {"frazil.job": record.name, "frazil.repository": record.place}
        if self._tracer is None:
            yield
        else:
            ids = {**own, "frazil.job_id": record.run.job.id}
            with self._tracer.start_as_current_span(
                f"frazil {record.name}", attributes=ids
            ) as span:
                yield
                span.set_attributes({f"frazil.{k}": v for k, v in record.figures().items()})
                if record.error is not None:
                    text = f"{type(record.error).__name__}: {hide_secrets(str(record.error))}"
                    span.set_status(self._trace.StatusCode.ERROR, text)
        if self._meters:
            outcome = "success" if record.error is None else "failure"
            self._meters["jobs"].add(1, {**own, "outcome": outcome})
            self._meters["seconds"].record(record.seconds, own)
            for name in ("chunks", "bytes", "retries"):
                self._meters[name].add(record.figures()[name], own)

    def commit(self, done: Committed) -> None:
        own = {"frazil.repository": hide_secrets(done.place), "frazil.branch": done.branch}
        if self._tracer is not None:
            span = self._tracer.start_span(
                "frazil commit", start_time=done.started_ns,
                attributes={**own, "frazil.snapshot_id": done.snapshot_id},
            )  # fmt: skip
            span.end(done.ended_ns)
        if self._meters:
            self._meters["commits"].add(1, own)


class _OpenLineage:
    """Events of OpenLineage: one when a job starts, one when it ends."""

    def __init__(self, client: Any, namespace: str) -> None:
        # An optional extra.
        from openlineage.client import OpenLineageClient, event_v2, facet_v2  # noqa: PLC0415

        self._client = OpenLineageClient() if client is True else client
        self._events, self._facets, self._namespace = event_v2, facet_v2, namespace

    @contextmanager
    def job(self, record: Record) -> Iterator[None]:
        run = str(uuid.uuid4())
        self._emit("START", run, record)
        yield
        self._emit("COMPLETE" if record.error is None else "FAIL", run, record)

    def commit(self, done: Committed) -> None:
        pass

    def _emit(self, kind: str, id: str, record: Record) -> None:
        events, facets = self._events, {}
        if record.error is not None:
            text = f"{type(record.error).__name__}: {hide_secrets(str(record.error))}"
            facets["errorMessage"] = self._facets.error_message_run.ErrorMessageRunFacet(
                message=text, programmingLanguage="python"
            )
        inputs = dict.fromkeys(hide_secrets(each) for each in record.run.job.inputs)
        self._client.emit(
            events.RunEvent(
                eventType=events.RunState[kind],
                eventTime=datetime.now(UTC).isoformat(),
                run=events.Run(runId=id, facets=facets),
                job=events.Job(namespace=self._namespace, name=f"{record.name} {record.place}"),
                producer=_PRODUCER,
                inputs=[events.InputDataset(*_name(each)) for each in [*inputs][:_MOST_INPUTS]],
                outputs=[self._output(each) for each in record.commits],
            )
        )

    def _output(self, done: Committed) -> Any:
        figures = done.metadata.get(METRICS)
        size = figures.get("bytes") if isinstance(figures, Mapping) else None
        versions, sizes = (
            self._facets.dataset_version_dataset,
            self._facets.output_statistics_output_dataset,
        )
        namespace, name = _name(hide_secrets(done.place))
        return self._events.OutputDataset(
            namespace=namespace,
            name=f"{name}@{done.branch}",
            facets={"version": versions.DatasetVersionDatasetFacet(datasetVersion=done.snapshot_id)},
            outputFacets={
                "outputStatistics": sizes.OutputStatisticsOutputDatasetFacet(size=size)
            },
        )  # fmt: skip


def _name(location: str) -> tuple[str, str]:
    """Return namespace and name of a location as OpenLineage spells them: `s3://bucket`, `prefix`."""
    found = re.match(r"([a-z][a-z0-9+.-]*://[^/]*)/?(.*)", location)
    if found is None:
        return "file", location
    return found[1], found[2] or "/"


class _PrometheusFile:
    """Text file with the last run of each job."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def job(self, record: Record) -> Iterator[None]:
        yield
        labels = _labels(job=record.name, repository=record.place)
        ended, is_good = record.ended_ns / 1e9, record.error is None
        figures = record.figures()
        values: dict[str, float] = {
            "last_run_timestamp_seconds": ended,
            "last_run_duration_seconds": record.seconds,
            "last_run_success": int(is_good),
            **{
                f"last_run_{name}": figures[name]
                for name in ("chunks", "bytes", "retries", "commits")
            },
        }
        if is_good:
            values["last_success_timestamp_seconds"] = ended
        self.write({(f"frazil_job_{name}", labels): value for name, value in values.items()})

    def commit(self, done: Committed) -> None:
        pass

    def write(self, values: Mapping[tuple[str, str], float]) -> None:
        """Replace the file; values of other jobs and repositories stay."""
        known: dict[tuple[str, str], str] = {}
        if self._path.exists():
            lines = self._path.read_text("utf-8").splitlines()
            for found in filter(None, map(re.compile(r"(\w+)(\{.*\}) (\S+)$").match, lines)):
                known[found[1], found[2]] = found[3]
        known |= {key: repr(value) for key, value in values.items()}
        lines = []
        for name in sorted({name for name, _ in known}):
            lines.append(_describe(name))
            lines += [f"{name}{key[1]} {known[key]}\n" for key in sorted(known) if key[0] == name]
        text = "".join(lines)
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        temporary.write_text(text, "utf-8")
        temporary.replace(self._path)


def _describe(name: str) -> str:
    text = name.removeprefix("frazil_job_").replace("_", " ").capitalize()
    return f"# HELP {name} {text} of a job of Frazil.\n# TYPE {name} gauge\n"


def _labels(**labels: str) -> str:
    def escape(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{escape(value)}"' for name, value in labels.items()) + "}"
