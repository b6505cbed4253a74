"""The ancestry of snapshots as a drawing."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

from frazil.snapshots import AncestryGraph, SnapshotInfo

START = datetime(2020, 1, 1, tzinfo=UTC)


def snapshot(id: str, parent: str | None, hours: float, message: str = "") -> SnapshotInfo:
    """A snapshot whose id repeats a letter."""
    written_at = START + timedelta(hours=hours)
    return SnapshotInfo(id * 20, parent and parent * 20, written_at, message or f"is {id}")


FORKED = [
    snapshot("A", None, 0),
    snapshot("B", "A", 1),
    snapshot("C", "B", 2, "one\ntwo"),
    snapshot("D", "B", 3),
    snapshot("E", "C", 4),
    snapshot("F", "B", 5),
    snapshot("G", "A", 2.5),
]


def test_a_line_of_snapshots_is_drawn_newest_first() -> None:
    graph = AncestryGraph(
        FORKED[2::-1],
        branches={"main": "C" * 20, "dev": "C" * 20},
        tags={"v1": "B" * 20},
        plain=True,
    )

    assert str(graph) == repr(graph) == (
        "● CCCCCCCC (dev, main) one\n"
        "● BBBBBBBB (tag: v1) is B\n"
        "● AAAAAAAA is A\n"
    )  # fmt: skip


def test_lanes_meet_where_snapshots_have_the_same_parent() -> None:
    graph = AncestryGraph(FORKED, branches={"main": "E" * 20}, plain=True)

    assert str(graph) == (
        "●       FFFFFFFF is F\n"
        "│ ●     EEEEEEEE (main) is E\n"
        "│ │ ●   DDDDDDDD is D\n"
        "│ │ │ ● GGGGGGGG is G\n"
        "│ ● │ │ CCCCCCCC one\n"
        "├─┴─╯ │\n"
        "●     │ BBBBBBBB is B\n"
        "├─────╯\n"
        "●       AAAAAAAA is A\n"
    )


def test_a_parent_is_below_its_children_whatever_the_clocks_said() -> None:
    graph = AncestryGraph([snapshot("A", None, 9), snapshot("B", "A", 1)], plain=True)

    assert str(graph) == "● BBBBBBBB is B\n● AAAAAAAA is A\n"


def test_a_parent_that_is_not_there_ends_its_lane() -> None:
    graph = AncestryGraph([snapshot("B", "A", 1), snapshot("C", None, 0)], plain=True)

    assert str(graph) == "● BBBBBBBB is B\n● CCCCCCCC is C\n"


def test_no_snapshots_are_no_drawing() -> None:
    assert str(AncestryGraph([])) == ""
    assert "<circle" not in AncestryGraph([])._repr_svg_()


def test_only_a_graph_that_is_not_plain_has_colours() -> None:
    assert "\x1b[" in str(AncestryGraph(FORKED))
    assert "\x1b[" not in str(AncestryGraph(FORKED, plain=True))
    assert "#" in AncestryGraph(FORKED)._repr_svg_()
    assert "#" not in AncestryGraph(FORKED, plain=True)._repr_svg_()


def test_a_drawing_has_a_circle_for_each_snapshot_and_a_line_to_each_parent() -> None:
    snapshots = [*FORKED, snapshot("H", "A", 6, "<b>&")]

    root = ElementTree.fromstring(AncestryGraph(snapshots)._repr_svg_())

    names = [element.tag.rpartition("}")[2] for element in root]
    assert (names.count("circle"), names.count("path"), names.count("text")) == (8, 7, 8)
    assert any((element.text or "").endswith("<b>&") for element in root)


def test_a_message_cannot_draw_by_itself() -> None:
    graph = AncestryGraph([snapshot("A", None, 0, "\x1b[2Jgone\x00")], plain=True)

    assert str(graph) == "● AAAAAAAA  [2Jgone\n"
    ElementTree.fromstring(graph._repr_svg_())
