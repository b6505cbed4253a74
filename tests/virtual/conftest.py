"""What the tests of virtual data share."""

from importlib.util import find_spec

# VirtualiZarr needs a newer Python than Frazil does.
collect_ignore_glob = [] if find_spec("virtualizarr") else ["test_*.py"]
