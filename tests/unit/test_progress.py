"""What is shown of work that goes on."""

import io
import sys
from types import ModuleType
from typing import Any

import pytest

from frazil.progress import (
    InNotebook,
    OnTerminal,
    Silent,
    Step,
    count_stragglers,
    open_display,
    render_step,
    render_time,
)


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        """It is."""
        return True


def test_a_step_is_a_line_with_rate_and_time_left() -> None:
    amounts = {"files": 200, "bytes": 1 << 30}

    line = render_step(Step("opening", 1, 4, 10.0, amounts, retries=2, stragglers=1))

    assert line == (
        "opening ━━━━━───────────────  1/4 tasks  50/200 files 5/s  256.0 MiB/1.0 GiB 25.6 MiB/s  "
        "0:10  0:30 left  2 tried again  1 slow"
    )
    assert render_step(Step("opening", 4, 4, 61.0)) == f"opening {'━' * 20}  4/4 tasks  1:01"


def test_files_are_counted_a_second_and_nobody_may_know_how_many_there_are() -> None:
    assert render_step(Step("reading", 1000, 4000, 10.0, unit="files")) == (
        "reading ━━━━━───────────────  1,000/4,000 files 100/s  0:10  0:30 left"
    )
    assert render_step(Step("listing", 1000, None, 10.0, unit="files")) == (
        "listing  1,000 files 100/s  0:10"
    )


def test_times_are_for_people() -> None:
    assert [render_time(each) for each in (0.4, 59.6, 3661)] == ["0:00", "1:00", "1:01:01"]


def test_stragglers_are_what_the_end_waits_for() -> None:
    almost = {"done": 9, "total": 10, "running": 1, "slots": 2}

    # Nine tasks in twenty seconds, two at once: four or five seconds each.
    assert count_stragglers(**almost, seconds=22, quiet_seconds=2) == 0
    assert count_stragglers(**almost, seconds=40, quiet_seconds=20) == 1
    assert count_stragglers(4, 10, 2, 40, 20, 2) == 0
    assert count_stragglers(0, 10, 2, 40, 40, 2) == 0


def test_a_terminal_has_a_line_for_each_step_and_moves_the_last() -> None:
    stream = Terminal()
    display = OnTerminal(stream)

    display.show(Step("one", 0, 2, 0.0))
    display.show(Step("one", 2, 2, 1.0))
    display.show(Step("two", 1, 2, 1.0))
    display.close()

    written = stream.getvalue()
    first, second, end = written.split("\n")
    assert first.startswith("\r\x1b[2Kone ")
    assert first.count("\r\x1b[2Kone ") == 2
    assert second.startswith("\r\x1b[2Ktwo ")
    assert end == ""


def test_a_file_gets_lines_at_the_end_of_steps_only() -> None:
    stream = io.StringIO()
    display = OnTerminal(stream)

    for done in range(3):
        display.show(Step("one", done, 2, 1.0))
    display.show(Step("two", 0, 2, 1.0))
    display.close()

    assert [line[:3] for line in stream.getvalue().splitlines()] == ["one", "two"]
    assert "2/2 tasks" in stream.getvalue()


def test_a_notebook_shows_all_steps_below_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, content: str) -> None:
            shown.append(content)

    def display(content: str, *, display_id: bool) -> Handle:
        assert (content, display_id) == ("", True)
        return Handle()

    ipython: Any = ModuleType("IPython.display")
    ipython.display, ipython.HTML = display, str
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    package: Any = ModuleType("IPython")
    package.get_ipython = lambda: None
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    assert not isinstance(open_display(None), InNotebook)  # imported, but no kernel runs
    package.get_ipython = object

    opened = open_display(None)
    opened.show(Step("<one>", 1, 1, 0.0))
    opened.show(Step("two", 0, 1, 0.0))

    assert isinstance(opened, InNotebook)
    first, second = shown[-1].removeprefix("<pre>").splitlines()
    assert (first[:11], second[:3]) == ("&lt;one&gt;", "two")


def test_nobody_who_looks_elsewhere_is_shown_anything() -> None:
    assert isinstance(open_display(False), Silent)
    assert isinstance(open_display(None), Silent)
    assert isinstance(open_display(True), OnTerminal)


def test_nothing_is_said_of_rates_before_a_second_is_over() -> None:
    amounts = {"files": 200, "bytes": 1 << 40}
    fast = [Step("opening", 4, 4, seconds, amounts) for seconds in (0.0, 1e-9, 0.9)]
    listed = Step("listing", 1000, None, 0.001, unit="files")

    assert not [line for line in map(render_step, [*fast, listed]) if "/s" in line]
    assert "200/200 files  1.0 TiB/1.0 TiB  0:00" in render_step(fast[1])
    assert "1.0 TiB/s" in render_step(Step("opening", 4, 4, 1.0, amounts))
