"""Node paths (`/`, `/group/array`) and their two orders.

Snapshots list nodes in the byte order of their paths (`/a`, `/a-b`, `/a/b`). Readers rely on it for
binary search, so a file in another order hides nodes. Moves in a transaction log are ordered segment
by segment (`/a`, `/a/b`, `/a-b`). The specification's text gives the second order for both; files
that the official library accepts follow this rule.
"""

from frazil.errors import InvalidInputError

ROOT = "/"


def find_path_problem(path: str) -> str | None:
    """Return why a node path is invalid, or None."""
    if not path.startswith("/"):
        return "it does not start with '/'"
    if path == ROOT:
        return None
    for segment in path[1:].split("/"):
        if segment in ("", ".", ".."):
            return f"it has the segment {segment!r}"
    if not path.isascii():
        try:
            path.encode()
        except UnicodeEncodeError:
            return "it has a lone surrogate, which is no text"
    return None


def validate_path(path: str) -> str:
    """Return the path; raise InvalidInputError if it is invalid."""
    if problem := find_path_problem(path):
        raise InvalidInputError(f"{path!r} is no node path: {problem}", kind="invalid-path")
    return path


def byte_order(path: str) -> bytes:
    """Return the sort key of nodes in a snapshot."""
    return path.encode()


def segment_order(path: str) -> tuple[bytes, ...]:
    """Return the sort key of moves in a transaction log."""
    return () if path == ROOT else tuple(path[1:].encode().split(b"/"))


def parent_path(path: str) -> str:
    """Return the path of the parent group; the root is its own parent."""
    return path.rpartition("/")[0] or ROOT


def path_name(path: str) -> str:
    """Return the last segment; empty for the root."""
    return path.rpartition("/")[2]
