"""What an ingest did, as people see it."""

from xml.etree import ElementTree

from frazil.spark.checks import Finding
from frazil.spark.ingestion.ingest_report import (
    IngestedFile,
    IngestedVariable,
    IngestReport,
    QuarantinedFile,
)
from frazil.spark.ingestion.source_data import BadFile
from frazil.virtual import Problem, ProblemKind, Report

REPORT = IngestReport(
    job="ingest",
    job_id="job",
    snapshot_id="SNAPSHOT",
    files=(IngestedFile("a.nc", None, False), IngestedFile("b.nc", None, True)),
    known=("c.nc",),
    bad=(BadFile("<d>.nc", "half a file"),),
    variables=(
        IngestedVariable("t", (6, 24), "virtual", 24),
        IngestedVariable("p", (), "native", 1, "other codecs"),
    ),
    notes=Report((Problem(ProblemKind.GAP, "time", "a day is missing", ("a.nc",)),)),
    quarantined=(QuarantinedFile("e.nc", (Finding("too warm", "is_plausible"),)),),
)


def test_a_report_prints_as_tables() -> None:
    shown = str(REPORT)

    assert shown.startswith(
        "snapshot  SNAPSHOT\n"
        "files     1 new, 1 changed, 1 known, 1 skipped, 1 quarantined\n"
        "ran on    driver\n\n"
        "variable  shape   how      references\n"
        "--------  ------  -------  ----------\n"
        "t         6 × 24  virtual  24\n"
        "p         scalar  native   1\n\n"
    )
    for text in ("other codecs", "<d>.nc   half a file", "too warm", "a day is missing"):
        assert text in shown


def test_a_notebook_shows_the_same_tables() -> None:
    root = ElementTree.fromstring(f"<all>{REPORT._repr_html_()}</all>")

    rows = [[cell.text or "" for cell in row] for row in root.iter("tr")]
    assert ["t", "6 × 24", "virtual", "24"] in rows
    assert ["p", "other codecs"] in rows
    assert ["<d>.nc", "half a file"] in rows
    assert ["e.nc", "too warm"] in rows
    assert any("a day is missing" in row for row in rows)


def test_an_ingest_with_nothing_to_do_says_so() -> None:
    nothing = IngestReport(job="ingest", job_id="job")

    assert str(nothing) == "snapshot  none\nfiles     none"
    assert "<table>" not in nothing._repr_html_()
