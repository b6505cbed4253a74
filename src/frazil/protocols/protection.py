"""Protected branches of a V2 repository, which move by fast-forward only: pure.

Frazil keeps them in the repository's metadata, and itself to them; the official library knows nothing
of them.
"""

from collections.abc import Mapping

from frazil.errors import ReadOnlyError, RefNotFoundError
from frazil.format.json_values import JsonValue
from frazil.protocols.reserved_metadata import read_section, with_section

_SECTION = "protected_branches"


def read_protected(metadata: Mapping[str, JsonValue]) -> dict[str, str | None]:
    """The names of protected branches, and who protects each, if that was said."""
    return {name: _read_by(entry) for name, entry in read_section(metadata, _SECTION).items()}


def refuse_protected(metadata: Mapping[str, JsonValue], branch: str) -> None:
    """Raise ReadOnlyError if a branch is protected."""
    entries = read_section(metadata, _SECTION)
    if branch in entries:
        by = _read_by(entries[branch])
        protected = "protected" if by is None else f"protected by {by}"
        raise ReadOnlyError(
            f"branch {branch!r} is {protected}: commit to another branch, and bring it here with"
            f" fast_forward({branch!r}, to=...), or ask for unprotect_branch({branch!r})",
            kind="read-only-repository",
        )


def with_protection(
    metadata: Mapping[str, JsonValue], branch: str, by: str | None
) -> dict[str, JsonValue]:
    """The metadata that protects a branch, too."""
    entry = {} if by is None else {"by": by}
    return with_section(metadata, _SECTION, {**read_section(metadata, _SECTION), branch: entry})


def without_protection(metadata: Mapping[str, JsonValue], branch: str) -> dict[str, JsonValue]:
    """The metadata that protects a branch no more; raises RefNotFoundError where it did not."""
    entries = dict(read_section(metadata, _SECTION))
    if branch not in entries:
        raise RefNotFoundError(f"there is no protected branch {branch!r}")
    del entries[branch]
    return with_section(metadata, _SECTION, entries)


def _read_by(entry: JsonValue) -> str | None:
    by = entry.get("by") if isinstance(entry, dict) else None
    return by if isinstance(by, str) else None
