"""What a command shows of its way on a terminal."""

import io
from pathlib import Path

import pytest

from frazil.cli import command
from frazil.cli import terminal as bars
from frazil.cli.terminal import Bars
from frazil.progress import OnTerminal
from tests.command_line import Frazil


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        """It is."""
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which tests set."""
    now = [0.0]
    monkeypatch.setattr(bars, "monotonic", lambda: now[0])
    return now


def test_what_is_done_within_a_second_is_not_shown(clock: list[float]) -> None:
    stream = Terminal()
    shown = Bars(OnTerminal(stream))

    for clock[0] in (0.0, 0.9):
        shown.show("reading", 1, 2, "files")
    assert stream.getvalue() == ""

    clock[0] = 2.0
    shown.show("reading", 2, 2, "files")
    shown.close()
    assert stream.getvalue().endswith("2/2 files 1/s  0:02\n")


def test_a_line_moves_ten_times_a_second_at_most(clock: list[float]) -> None:
    stream = Terminal()
    shown = Bars(OnTerminal(stream))

    for number in range(400):
        clock[0] = number / 100
        shown.show("listing", number, None, "files")

    assert 25 <= stream.getvalue().count("listing") <= 31


def test_a_command_ends_its_bar_before_it_answers(
    run: Frazil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal()
    monkeypatch.setattr(bars, "_QUIET_SECONDS", 0.0)
    opened: list[bool] = []

    def open_bars(*, is_wanted: bool) -> Bars:
        opened.append(is_wanted)
        return Bars(OnTerminal(stream))

    monkeypatch.setattr(command, "open_bars", open_bars)
    run("create", tmp_path / "repo")

    answer = run("check", tmp_path / "repo")

    run("check", tmp_path / "repo", "--no-progress")
    run("check", tmp_path / "repo", "--json")

    assert answer.code == 0
    assert opened == [True, True, False, False]
    assert "reading snapshots ━" in stream.getvalue()
    assert stream.getvalue().endswith("\n")


def test_nothing_is_shown_where_nobody_looks(run: Frazil, tmp_path: Path) -> None:
    run("create", tmp_path / "repo")

    assert "reading" not in run("check", tmp_path / "repo").err
