"""Rebases of the official library."""

from typing import Any

import icechunk

from tests.interop import rebase_scenarios


def run_rebase(**scenario: Any) -> dict[str, Any]:
    """See `rebase_scenarios`."""
    return rebase_scenarios.run_rebase(icechunk, **scenario)


def list_conflicts(**scenario: Any) -> list[list[list[list[Any]]]]:
    """See `rebase_scenarios`."""
    return rebase_scenarios.list_conflicts(icechunk, **scenario)


def commit_with_rebase(**scenario: Any) -> dict[str, Any]:
    """See `rebase_scenarios`."""
    return rebase_scenarios.commit_with_rebase(icechunk, **scenario)
