"""Types that signatures name."""

from typing import Literal

CommitMethod = Literal["new_commit", "amend"]

__all__ = ["CommitMethod"]
