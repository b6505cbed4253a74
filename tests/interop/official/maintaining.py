"""Upkeep by the official library."""

from datetime import datetime
from typing import Any

import icechunk

from tests.interop import upkeep_scenarios


def write_history(**scenario: Any) -> list[datetime]:
    """See `upkeep_scenarios`."""
    return upkeep_scenarios.write_history(icechunk, **scenario)


def maintain(**scenario: Any) -> Any:
    """See `upkeep_scenarios`."""
    return upkeep_scenarios.maintain(icechunk, **scenario)


def describe_history(**scenario: Any) -> dict[str, Any]:
    """See `upkeep_scenarios`."""
    return upkeep_scenarios.describe_history(icechunk, **scenario)


def commit_again(**scenario: Any) -> str:
    """See `upkeep_scenarios`."""
    return upkeep_scenarios.commit_again(icechunk, **scenario)
