"""`to_icechunk` comes to the same in both libraries, whatever its arguments."""

import json
import subprocess
from pathlib import Path

from tests.interop.official_library import ROOT, find_python
from tests.interop.xarray_programs import programs, run_programs


def test_every_program_comes_to_the_same(tmp_path: Path) -> None:
    child = subprocess.run(
        [find_python(), "-m", "tests.interop.xarray_programs", "icechunk", str(tmp_path / "theirs")],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    theirs = json.loads(child.stdout)

    ours = json.loads(json.dumps(run_programs("frazil", tmp_path / "ours")))

    assert len(theirs) == len(list(programs())) > 110
    assert {name for name in theirs if theirs[name] != ours[name]} == set()
    outcomes = {each["outcome"] for each in ours.values()}
    assert {"done", "ValueError", "FileExistsError", "GroupNotFoundError"} <= outcomes
