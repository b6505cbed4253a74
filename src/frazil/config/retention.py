"""How long a branch or a tag keeps the snapshots that lead to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from frazil.errors import FormatError
from frazil.format.json_values import JsonValue
from frazil.rendering import Rendered

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, repr=False)
class RetentionPolicy(Rendered):
    """Keeps the newest snapshots, those of the last time, or both; everything, if it says neither.

    The tip counts as the first of `keep_last`. A tip is always kept, whatever its age.
    """

    keep_last: int | None = None
    keep_for: timedelta | None = None

    def __post_init__(self) -> None:
        if self.keep_last is not None and self.keep_last < 1:
            raise ValueError(f"keep_last is {self.keep_last}, and must be at least 1")
        if self.keep_for is not None and self.keep_for < timedelta(0):
            raise ValueError(f"keep_for is {self.keep_for}, and can't be negative")

    def keeps(self, number: int, age: timedelta) -> bool:
        """Whether it keeps a snapshot that is so many commits before the tip, and so old."""
        if self.keep_last is None and self.keep_for is None:
            return True
        is_new = self.keep_last is not None and number < self.keep_last
        return is_new or (self.keep_for is not None and age <= self.keep_for)

    def encode(self) -> dict[str, JsonValue]:
        """As a tree of plain values, without what it does not say."""
        keep_for = None if self.keep_for is None else self.keep_for // _MICROSECOND
        tree = {"keep_last": self.keep_last, "keep_for_microseconds": keep_for}
        return {name: value for name, value in tree.items() if value is not None}

    @classmethod
    def decode(cls, tree: JsonValue) -> Self:
        """The reverse of `encode`; raises FormatError."""
        if not isinstance(tree, Mapping):
            raise FormatError(f"{tree!r} is no retention policy", kind="config-deserialization")
        keep_last, microseconds = tree.get("keep_last"), tree.get("keep_for_microseconds")
        try:
            keep_for = None if microseconds is None else microseconds * _MICROSECOND
            return cls(keep_last, keep_for)
        except (TypeError, ValueError, OverflowError) as error:
            raise FormatError(
                f"{tree!r} is no retention policy: {error}", kind="config-deserialization"
            ) from error
