"""What the library tells while it works, through Python's `logging`, below the logger `frazil`.

Nothing is told, and nothing set up, unless a program calls one of these functions.
"""

import logging

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
_HANDLER = logging.StreamHandler()


def initialize_logs() -> None:
    """Show the log on the standard error stream; warnings and worse, until a filter says otherwise."""
    logging.getLogger("frazil").addHandler(_HANDLER)


def set_logs_filter(log_filter_directive: str | None) -> None:
    """Choose what is shown: a level, or `module=level` pairs with commas between; None for the default.

    Raises InvalidInputError, a ValueError, for a level that is none.
    """
    initialize_logs()
    for directive in (log_filter_directive or "warn").split(","):
        module, _, level = directive.strip().rpartition("=")
        if level.lower() not in _LEVELS:
            raise InvalidInputError(f"{level!r} is no level of logs: {', '.join(_LEVELS)}")
        logging.getLogger(_logger_name(module)).setLevel(_LEVELS[level.lower()])


def _logger_name(module: str) -> str:
    """The logger for a module of the official library, or of ours."""
    path = module.replace("::", ".").split(".")
    return ".".join(["frazil", *path[1:]])


def shutdown_telemetry() -> None:
    """Write out what was told and not yet written; there is nothing else to shut down."""
    _HANDLER.flush()
