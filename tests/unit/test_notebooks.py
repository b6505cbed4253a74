"""What people look at in a notebook shows itself there, whatever names it holds."""

from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
import zarr

import frazil
from frazil import Repository, RepositoryConfig
from frazil.virtual.combine_plan import Plan, Problem, ProblemKind, Report, Treatment, VariablePlan

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def repo() -> Repository:
    """A repository with two versions, and names that want to do harm."""
    config = RepositoryConfig(inline_chunk_threshold_bytes=77)
    repo = Repository.create(frazil.in_memory_storage(), config)
    with repo.transaction("main", message=HOSTILE) as store:
        zarr.create_array(store, name=HOSTILE, shape=(4,), chunks=(2,), dtype="i4")[:] = 7
    return repo


def parse(shown: object) -> ElementTree.Element:
    """The elements of what a notebook is given, which must be well-formed."""
    html = shown._repr_html_()  # type: ignore[attr-defined]
    assert HOSTILE not in html
    return ElementTree.fromstring(f"<all>{html}</all>")


def text_of(shown: object) -> str:
    root = parse(shown)
    for style in root.findall("style"):
        root.remove(style)
    return " ".join(text.strip() for text in root.itertext() if text.strip())


def test_a_repository_unfolds_its_configuration(repo: Repository) -> None:
    root = parse(repo)

    assert root.find(".//details/summary/i") is not None
    assert "inline_chunk_threshold_bytes 77" in text_of(repo)
    assert "<RepositoryConfig ...>" in str(repo)


def test_sessions_differences_and_snapshots_are_shown(repo: Repository) -> None:
    first, second = list(repo.ancestry(branch="main"))[::-1]
    session = repo.writable_session("main")

    assert f"snapshot_id {second.id}" in text_of(session)
    assert HOSTILE in text_of(repo.diff(from_snapshot_id=first.id, to_branch="main"))
    assert HOSTILE in text_of(second)


def test_a_history_is_drawn(repo: Repository) -> None:
    root = parse(repo.ancestry_graph())

    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert (names.count("svg"), names.count("circle")) == (1, 2)


def test_what_upkeep_did_is_shown(repo: Repository) -> None:
    assert "bytes_deleted" in text_of(repo.garbage_collect(datetime.now(UTC), dry_run=True))
    assert "native_bytes" in text_of(repo.chunk_storage_stats())
    assert "healthy" in text_of(repo.check())
    assert "released_snapshots" in text_of(repo.expire(dry_run=True))


def test_problems_of_sources_are_a_table() -> None:
    problem = Problem(ProblemKind.OVERLAP, "time", HOSTILE, ("a.nc",))
    report = Report((problem,))
    variable = VariablePlan("t", Treatment.VIRTUAL, {"shape": (3, 4)}, None)  # type: ignore[arg-type]
    plan = Plan({"a.nc": 0}, {}, {"t": variable}, report)

    assert [each.text for each in parse(report).iter("td")][1:] == [
        "time", "overlap", HOSTILE, "a.nc",
    ]  # fmt: skip
    assert [each.text for each in parse(plan).iter("th")][:3] == ["name", "shape", "how"]
    assert "3 × 4" in text_of(plan)
    assert "problems none" in text_of(Report())
