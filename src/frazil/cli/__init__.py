"""The command line: `frazil`.

Every command reads its arguments, calls what the library offers, and prints the answer as a table or,
with `--json`, as JSON. Only this package prints, asks, and knows exit codes.
"""

from frazil.cli.app import main

__all__ = ["main"]
