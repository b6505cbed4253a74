"""Tables of versions and operations beside the interface in Python, for every generation."""

from frazil import Repository
from frazil.errors import FormatError
from tests.unit.tables.rows import read_rows


def test_versions_are_those_that_refs_lead_to(generation: Repository) -> None:
    tips = {("branch", name): generation.lookup_branch(name) for name in generation.list_branches()}
    tips |= {("tag", name): generation.lookup_tag(name) for name in generation.list_tags()}
    lines = {ref: list(generation.ancestry(snapshot_id=tip)) for ref, tip in tips.items()}
    infos = {info.id: info for line in lines.values() for info in line}

    snapshots = {row["snapshot_id"]: row for row in read_rows(generation, "snapshots")}
    refs = read_rows(generation, "refs")
    history = read_rows(generation, "history")

    assert {id: (row["message"], row["written_at"]) for id, row in snapshots.items()} == {
        id: (info.message, info.written_at) for id, info in infos.items()
    }
    assert {(row["kind"], row["name"]): row["snapshot_id"] for row in refs} == tips
    assert sorted(
        (r["kind"], r["ref"], r["position"], r["snapshot_id"]) for r in history
    ) == sorted((*ref, at, info.id) for ref, line in lines.items() for at, info in enumerate(line))
    named = {("branch", n): id for id, row in snapshots.items() for n in row["branches"]}
    named |= {("tag", n): id for id, row in snapshots.items() for n in row["tags"]}
    assert named == tips


def test_operations_are_those_of_the_log(generation: Repository) -> None:
    try:
        expected = [(type(each.kind).__name__, each.updated_at) for each in generation.ops_log()]
    except FormatError:
        expected = []

    found = read_rows(generation, "ops_log")

    assert [(row["operation"], row["updated_at"]) for row in found] == expected
