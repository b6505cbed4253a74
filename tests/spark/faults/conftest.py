"""Where ingests can't be tested, faults of theirs can't be, either."""

from importlib.util import find_spec

# VirtualiZarr needs a newer Python than Frazil does.
collect_ignore_glob = [] if find_spec("virtualizarr") else ["test_*.py"]
