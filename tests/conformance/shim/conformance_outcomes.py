"""A pytest plugin that writes the outcome of every test as a line of JSON, as soon as it is known."""

import json
import os
from pathlib import Path

import pytest

_RANKS = ("passed", "skipped", "failed")


class Outcomes:
    """Keep the worst outcome of the phases of each test."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._worst: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        known = self._worst.get(report.nodeid, "passed")
        worst = max(known, report.outcome, key=_RANKS.index)
        self._worst[report.nodeid] = worst
        if report.when == "teardown":
            self._write(report.nodeid, worst)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome == "failed":
            self._write(report.nodeid, "failed")

    def _write(self, test: str, outcome: str) -> None:
        with self._path.open("a") as lines:
            lines.write(json.dumps([test, outcome]) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Outcomes(Path(os.environ["CONFORMANCE_OUTCOMES"])))
