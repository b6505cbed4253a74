"""`python -m frazil.cli`."""

from frazil.cli.app import main

main()
