"""How long it takes until something can be done: importing, and the help of the command line.

    python -m benchmarks.importing [--rounds 7]

- Seconds of a fresh process from its start to its end, with compiled files and page cache warm.
- The project wants `import frazil` to take less than half a second.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.support.measuring import find_official_python, medians, print_table

COLUMNS = ("process", "seconds", "over an empty one")


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    official = find_official_python()
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import frazil": [sys.executable, "-c", "import frazil"],
        "import icechunk": [official, "-c", "import icechunk"],
        "a repository, Frazil": [sys.executable, "-c", "import frazil; frazil.Repository"],
        "a repository, official": [official, "-c", "import icechunk; icechunk.Repository"],
        "frazil --help": [str(Path(sys.executable).with_name("frazil")), "--help"],
    }
    for command in commands.values():
        run(command)
    rounds = [
        {name: run(command) for name, command in commands.items()} for _ in range(options.rounds)
    ]
    found = medians(rounds)
    empty = found["python -c pass"]
    rows = [[name, f"{seconds:.3f}", f"{seconds - empty:.3f}"] for name, seconds in found.items()]
    print_table("Importing", COLUMNS, rows)


def run(command: list[str]) -> float:
    """Run a process to its end; gives its seconds."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
