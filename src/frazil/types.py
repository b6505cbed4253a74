"""Type aliases of public signatures."""

from typing import Literal

CommitMethod = Literal["new_commit", "amend"]

__all__ = ["CommitMethod"]
