"""The command line: `frazil`.

Every command reads its arguments, calls what the library offers, and prints the answer as a table or,
with `--json`, as JSON. Only this package prints, asks, and knows exit codes.
"""

import sys
from importlib import import_module

from frazil import __version__

__all__ = ["main"]


def main() -> None:
    """Run the command line; the version needs no other module."""
    if sys.argv[1:] == ["--version"]:
        print(__version__)
    else:
        import_module("frazil.cli.app").make_app()(prog_name="frazil")
