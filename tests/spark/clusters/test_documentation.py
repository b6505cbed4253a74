"""What the page about the pipeline says about faults is tested where it says so."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_test_that_the_page_names_is_there() -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text().partition("### What happens when\n")[2]
    named = set(re.findall(r"`(test_\w+)`", page))
    lanes = (ROOT / "tests" / "spark").rglob("test_*.py")
    there = {name for lane in lanes for name in re.findall(r"def (test_\w+)\(", lane.read_text())}

    assert len(named) > 15
    assert named <= there
