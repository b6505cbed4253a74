"""How values show themselves, whatever they hold."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from frazil.display import (
    Block,
    Called,
    CalledInOrder,
    Item,
    Listed,
    Rendered,
    Table,
    effective,
    render_call,
)


class Colour(Enum):
    """Something with names."""

    RED = 1


@dataclass(slots=True, repr=False)
class Inner(Rendered):
    """A part."""

    number: int | None = field(default=None, metadata=effective(3))


@dataclass(slots=True, repr=False)
class Outer(Rendered):
    """A whole."""

    text: str | None = None
    inner: Inner | None = field(default=None, metadata=effective(Inner()))
    parts: dict[str, Inner] | None = None
    colour: Colour | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Record(Listed):
    """A record."""

    names: frozenset[str]
    text: str


@dataclass(frozen=True, slots=True, repr=False)
class Pair(Called):
    """An alternative."""

    left: object
    right: object


@dataclass(frozen=True, slots=True, repr=False)
class Ordered(CalledInOrder):
    """Another."""

    left: object


PREFIX = ".".join(Outer.__module__.split(".")[:2])


def test_settings_show_as_a_call_with_a_line_for_each_field() -> None:
    assert repr(Outer('a "b"', parts={"x": Inner(1)}, colour=Colour.RED)) == (
        f"{PREFIX}.Outer(\n"
        '    text="a \\"b\\"",\n'
        "    inner=None,\n"
        "    parts={\n"
        f'        "x": {PREFIX}.Inner(\n'
        "            number=1,\n"
        "        ),\n"
        "    },\n"
        f"    colour={PREFIX}.Colour.RED,\n"
        ")"
    )


def test_settings_report_in_lines_what_holds() -> None:
    assert str(Outer("a", parts={"x": Inner(1)}, colour=Colour.RED)) == (
        f"<{PREFIX}.Outer>\n"
        'text: "a"\n'
        "inner:\n"
        f"    <{PREFIX}.Inner>\n"
        "    number: 3 (default)\n"
        "parts:\n"
        "    x:\n"
        f"        <{PREFIX}.Inner>\n"
        "        number: 1\n"
        "colour: RED\n"
    )


def test_a_record_shows_text_as_it_is() -> None:
    record = Record(frozenset(("b", "a")), "one\ntwo")

    assert str(record) == repr(record) == (
        f'<{PREFIX}.Record>\nnames: {{"a", "b"}}\ntext:\n    one\n    two\n'
    )  # fmt: skip


def test_an_alternative_shows_as_a_call_in_one_line() -> None:
    assert repr(Pair((1,), ["a", None])) == f'{PREFIX}.Pair(left=(1,), right=["a", None])'
    assert repr(Ordered((1, 2))) == f"{PREFIX}.Ordered((1, 2))"


def test_a_mapping_of_plain_values_is_one_line() -> None:
    assert render_call({"a": {"b": 1}}) == '{"a": {"b": 1}}'


def test_a_notebook_gets_rows_as_a_table_of_cells_without_markup() -> None:
    class Listing(Block):
        def shown_items(self) -> Iterator[Item]:
            yield Item("files", Table(("file", "why"), (("<b>", "gone"), ("x", ""))))

    shown = Listing()._repr_html_()

    assert "<th>file</th><th>why</th>" in shown
    assert "<tr><td>&lt;b&gt;</td><td>gone</td></tr>" in shown
    assert "file  why\n    ----  ----\n    <b>   gone\n    x\n" in str(Listing())


def test_a_notebook_gets_parts_that_can_be_folded_and_no_markup_of_others() -> None:
    shown = Outer("<i>", inner=Inner(), parts={"&": Inner()})._repr_html_()

    assert shown.count("<details") == 3
    assert "&lt;i&gt;" in shown
    assert "&amp;" in shown
    assert "<pre>3 (default)</pre>" in shown
