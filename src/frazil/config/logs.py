"""Log lines of the library, through Python's `logging`, below the logger `frazil`.

Nothing is set up unless a program calls one of these functions, or `ICECHUNK_LOG` is in the environment
when Frazil is imported.
"""

import logging
import os
import sys
from difflib import get_close_matches
from typing import TextIO

from frazil.errors import InvalidInputError

_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}
_ENVIRONMENT = "ICECHUNK_LOG"
_TO_STDOUT = "ICECHUNK_LOG_TO_STDOUT"
_PACKAGES = ("icechunk", "frazil")


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to the standard error stream of the moment, which programs may replace."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        form = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
        self.formatter = logging.Formatter(form, "%Y-%m-%dT%H:%M:%S")

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stdout if _TO_STDOUT in os.environ else sys.stderr


_HANDLER = _Handler()
_chosen: set[str] = set()
"""Names of the loggers whose level a filter has set."""


def initialize_logs() -> None:
    """Show the log on the standard error stream: warnings and errors, until a filter is set.

    With `ICECHUNK_LOG_TO_STDOUT` in the environment it goes to the standard output stream.
    """
    logging.getLogger("frazil").addHandler(_HANDLER)


def set_logs_filter(log_filter_directive: str | None) -> None:
    """Choose which log lines are shown.

    Parameters
    ----------
    log_filter_directive
        Directives with commas between them: a level (`debug`) for everything, or a module and a level
        (`icechunk::storage=debug`). Modules of other libraries are ignored. None for what
        `ICECHUNK_LOG` in the environment says, or warnings and errors.

    Raises
    ------
    InvalidInputError
        For a level that does not exist; it is a ValueError.
    """
    initialize_logs()
    if log_filter_directive is None:
        log_filter_directive = os.environ.get(_ENVIRONMENT, "warn")
    levels = _parse_filter(log_filter_directive)
    for name in _chosen - levels.keys():
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    _chosen.update(levels)


def _parse_filter(directives: str) -> dict[str, int]:
    """Return the level of each logger that a filter names, and of `frazil` in any case."""
    words = [word for each in directives.split(",") if (word := each.strip())]
    levels = {"frazil": _LEVELS["off" if words else "error"]}
    # A level for everything comes first: it must not undo that of a module.
    for module, level in sorted(map(_parse_directive, words), key=lambda pair: bool(pair[0])):
        package, *path = module.replace("::", ".").split(".")
        if package in ("", *_PACKAGES):
            levels[".".join(["frazil", *path])] = level
        elif get_close_matches(package, _PACKAGES, cutoff=0.8):
            warning = f"unknown module {package!r} in the log filter, did you mean 'icechunk'?"
            print(f"WARNING: {warning}", file=sys.stderr)
    return levels


def _parse_directive(word: str) -> tuple[str, int]:
    """Return the module of a directive (empty for everything) and its level."""
    if word.lower() in _LEVELS:
        return "", _LEVELS[word.lower()]
    module, equals, level = word.rpartition("=")
    if not equals:  # a colon is common, too; without a level everything of the module is shown
        module, _, level = word.rpartition(":")
        module, level = (module, level) if level in _LEVELS else (word, "trace")
    if level.lower() not in _LEVELS or get_close_matches(module.lower(), _LEVELS, cutoff=0.7):
        wrong = level if level.lower() not in _LEVELS else module
        raise InvalidInputError(f"{wrong!r} is no level of logs: {', '.join(_LEVELS)}")
    return module, _LEVELS[level.lower()]


def shutdown_telemetry() -> None:
    """Write out log lines that are not yet written; there is nothing else to shut down."""
    _HANDLER.flush()


if _ENVIRONMENT in os.environ:
    set_logs_filter(None)
