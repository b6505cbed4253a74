"""Jobs and commits as OpenTelemetry, OpenLineage, Prometheus and STAC see them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pystac
import pytest
import xarray as xr
from openlineage.client import OpenLineageClient
from openlineage.client.serde import Serde
from openlineage.client.transport import Config, Transport
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pystac.validation import validate_dict

import frazil
from frazil import Repository, stac
from frazil.errors import InvalidInputError
from frazil.spark import Derivation
from frazil.telemetry import hide_secrets, observe
from frazil.xarray import to_icechunk

SECRET = "hunter2"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    found = Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))
    time = np.datetime64("2024-01-01", "ns") + np.arange(6) * np.timedelta64(6, "h")
    coords = {"time": time, "lat": [50.0, 51.0], "lon": [350.0, 355.0, 359.0]}
    values = np.arange(36.0).reshape(6, 2, 3)
    attrs = {"units": "K", "long_name": "temperature"}
    dataset = xr.Dataset(
        {"t": (("time", "lat", "lon"), values, attrs)}, coords, {"title": "Weather"}
    )
    session = found.writable_session("main")
    to_icechunk(dataset, session)
    session.commit("created")
    return found


class Received(Transport):
    """Events as they would be sent."""

    kind = "received"
    config_class = Config

    def __init__(self, *, fails: bool = False) -> None:
        self.events: list[Any] = []
        self.fails = fails

    def emit(self, event: Any) -> None:
        if self.fails:
            raise OSError(f"https://user:{SECRET}@host refused")
        self.events.append(json.loads(Serde.to_json(event)))


DAILY = Derivation(output="daily", by={"time": "1D"})


def test_spans_metrics_events_and_the_file_tell_of_jobs_and_commits(
    repo: Repository, tmp_path: Path
) -> None:
    exporter, reader, sent = InMemorySpanExporter(), InMemoryMetricReader(), Received()
    tracer = TracerProvider()
    tracer.add_span_processor(SimpleSpanProcessor(exporter))
    file = tmp_path / "frazil.prom"

    with observe(
        traces=tracer,
        metrics=MeterProvider([reader]),
        lineage=OpenLineageClient(transport=sent),
        prometheus=file,
    ):
        report = frazil.derive(repo, DAILY)
        frazil.check(repo)
        with pytest.raises(InvalidInputError):
            frazil.rechunk(repo, "t", {"depth": 1})
    frazil.derive(repo, DAILY, rebuild=True)  # no longer observed

    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert spans.keys() == {"frazil commit", "frazil derive", "frazil check", "frazil rechunk"}
    job, commit = spans["frazil derive"], spans["frazil commit"]
    assert commit.parent is not None
    assert commit.parent.span_id == job.context.span_id
    assert dict(commit.attributes or {})["frazil.snapshot_id"] == report.snapshot_id
    assert dict(job.attributes or {})["frazil.chunks"] == report.chunks
    assert not spans["frazil rechunk"].status.is_ok

    data = reader.get_metrics_data()
    assert data is not None
    points = {
        (metric.name, point.attributes["frazil.job"]): point
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
        if point.attributes and "frazil.job" in point.attributes
    }
    assert points["frazil.bytes", "derive"].value == report.bytes_written  # type: ignore[union-attr]
    assert points["frazil.jobs", "rechunk"].attributes["outcome"] == "failure"  # type: ignore[index]

    kinds = [(each["job"]["name"].split()[0], each["eventType"]) for each in sent.events]
    assert kinds == [
        ("derive", "START"), ("derive", "COMPLETE"), ("check", "START"), ("check", "COMPLETE"),
        ("rechunk", "START"), ("rechunk", "FAIL"),
    ]  # fmt: skip
    done = sent.events[1]
    assert done["inputs"][0]["name"].endswith("repo@main")
    assert done["outputs"][0]["name"].endswith("repo@main")
    assert done["outputs"][0]["facets"]["version"]["datasetVersion"] == report.snapshot_id

    lines = file.read_text().splitlines()
    assert any(line.startswith('frazil_job_last_run_success{job="check"') for line in lines)
    failed = [
        each for each in lines if each.startswith('frazil_job_last_run_success{job="rechunk"')
    ]
    assert failed[0].endswith(" 0")
    assert not [each for each in lines if 'last_success_timestamp_seconds{job="rechunk"' in each]
    assert lines.count("# TYPE frazil_job_last_run_chunks gauge") == 1


def test_a_failing_exporter_fails_no_job_and_tells_no_secret(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    with observe(lineage=OpenLineageClient(transport=Received(fails=True))):
        assert frazil.derive(repo, DAILY).snapshot_id is not None

    assert "telemetry failed: OSError" in caplog.text
    assert SECRET not in caplog.text
    for text in (
        f"https://me:{SECRET}@host/a.nc", f"s3://bucket/a?token={SECRET}&x=1", f"password={SECRET}",
        f"Authorization: Bearer {SECRET}", f"aws_secret_access_key: '{SECRET}'",
    ):  # fmt: skip
        assert SECRET not in hide_secrets(text)
    assert hide_secrets("archive/file-?.nc") == "archive/file-?.nc"


def test_a_request_for_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="nothing to observe"):
        observe()
    with pytest.raises(InvalidInputError, match="folder does not exist"):
        observe(prometheus=tmp_path / "missing" / "frazil.prom")


def test_nothing_of_it_is_loaded_unless_it_is_asked_for(tmp_path: Path) -> None:
    code = """
import importlib.util, sys, numpy, zarr, frazil
repo = frazil.Repository.create(frazil.local_filesystem_storage(sys.argv[1]))
session = repo.writable_session("main")
zarr.create_array(session.store, name="a", data=numpy.arange(3), dimension_names=["x"])
session.commit("a")
frazil.rechunk(repo, "a", [1])
print({"frazil.telemetry", "frazil.stac", "opentelemetry", "openlineage", "pystac"} & set(sys.modules))
sys.modules["pystac"] = sys.modules["opentelemetry"] = sys.modules["openlineage"] = None
if importlib.util.find_spec("h5py"):  # which is in no fast lane
    import frazil.datasets.cycle
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "r")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"


def test_stac_describes_what_is_published(repo: Repository, tmp_path: Path) -> None:
    frazil.derive(repo, DAILY)

    collection = stac.describe(repo, "weather", license="CC-BY-4.0", href="s3://bucket/weather")
    collection.normalize_and_save(str(tmp_path / "stac"), pystac.CatalogType.SELF_CONTAINED)

    read = pystac.Collection.from_file(str(tmp_path / "stac" / "collection.json"))
    assert read.extent.spatial.bboxes == [[-10.0, 50.0, -1.0, 51.0]]
    items = {each.id: each for each in read.get_items()}
    assert items.keys() == {"weather", "weather-daily"}
    item = items["weather"]
    assert item.properties["cube:dimensions"]["time"]["extent"][0] == "2024-01-01T00:00:00Z"
    assert item.properties["cube:variables"]["t"]["unit"] == "K"
    assert item.properties["proj:code"] == "EPSG:4326"
    asset = item.assets["data"]
    assert asset.href == "s3://bucket/weather"
    assert asset.extra_fields["icechunk:snapshot_id"] == repo.lookup_branch("main")
    # The core of STAC is validated without a network; the schemas of extensions are not here.
    for each in (read, *items.values()):
        plain = each.to_dict(include_self_link=False)
        plain["stac_extensions"] = []
        validate_dict(plain)


def test_times_of_other_calendars_and_unknown_grids_are_described(tmp_path: Path) -> None:
    repo = Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))
    session = repo.writable_session("main")
    time = ("time", [0, 59], {"units": "days since 2000-01-01", "calendar": "360_day"})
    names = ("station", ["a", "b"])
    values = ("time", "station"), np.zeros((2, 2))
    to_icechunk(xr.Dataset({"t": values}, {"time": time, "station": names}), session)
    session.commit("created")

    (item,) = stac.describe(repo, "stations").get_items()

    assert (item.bbox, item.geometry) == (None, None)
    assert item.properties["end_datetime"].startswith("2000-02-28")
    assert item.properties["cube:dimensions"]["station"] == {
        "type": "nominal",
        "values": ["a", "b"],
    }
