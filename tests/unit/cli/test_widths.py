"""Commands fit narrow and wide terminals, on a real one."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

import frazil

_RUN = """
import sys
from frazil.cli.app import make_app
from frazil.cli.terminal import Output, fit_table
place = sys.argv[1]
for command in (
    ["log", place, "--oneline"], ["log", place, "--graph", "--all"], ["tree", place],
    ["show", place], ["show", place, "surface/t2m"], ["branch", "list", place],
    ["diff", place, "v1", "main"], ["top", place, "--once"], ["--help"], ["ingest", "--help"],
):
    print("$", *command[:1])
    make_app().main(command, standalone_mode=False)
print("$ sql")
names = [f"column_{i}" for i in range(30)]
table, hidden = fit_table(names, [[i / 3 if i % 2 else "a text " * 9 for i in range(30)]] * 2)
Output().answer(None, table)
print("hidden", hidden)
"""


def start_on_terminal(columns: int, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """A process of Python on a terminal of this width, and our end of the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, env={**environment, "TERM": "xterm-256color"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    os.close(theirs)
    return process, ours


def test_top_shows_new_commits_on_a_live_screen_until_ctrl_c(place: Path) -> None:
    process, ours = start_on_terminal(80, "-m", "frazil.cli", "top", str(place), "--every", "0.5")
    shown = b""
    while b"ten more" not in shown:
        shown += os.read(ours, 65536)
    repo = frazil.open_repository(str(place))
    repo.writable_session("main").commit("a new commit", allow_empty=True)
    while b"a new commit" not in shown:
        shown += os.read(ours, 65536)
    process.send_signal(signal.SIGINT)
    with suppress(OSError):  # the other end is closed
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)

    assert process.wait(60) == 0
    assert b"\x1b[?1049h" in shown  # the alternate screen, which is left again
    assert b"\x1b[?1049l" in shown


def show_on_terminal(place: Path, columns: int) -> list[str]:
    """The lines that a terminal of this width gets."""
    process, ours = start_on_terminal(columns, "-c", _RUN, str(place))
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait(60) == 0, shown.decode()
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.decode()).splitlines()


@pytest.mark.parametrize("columns", [40, 200])
def test_every_line_fits_the_terminal(
    place: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.parent)
    repo = frazil.open_repository("weather")
    repo.writable_session("main").commit(
        "a long message " * 20, {"author": "Ada"}, allow_empty=True
    )

    lines = show_on_terminal(Path("weather"), columns)

    # Lists of help are not narrower than their longest words, and examples are never broken.
    pages = lines[: lines.index("$ --help")]
    assert [line for line in pages if len(line) > columns] == []
    assert any(line.endswith("…") for line in lines)
    hidden = int(lines[-1].split()[1])
    assert (hidden > 25) == (columns == 40)
    assert sum("Ada" in line for line in lines) >= 4
