"""`python -m frazil.cli`."""

from frazil.cli import main

main()
