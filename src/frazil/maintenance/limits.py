"""How much memory and how many requests an operation on a whole repository may take."""

from dataclasses import dataclass, fields

from frazil.errors import InvalidInputError

MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class WalkLimits:
    """Of a walk through all snapshots and manifests."""

    max_snapshots_in_memory: int = 50
    max_compressed_manifest_mem_bytes: int = 512 * MEBIBYTE
    max_decoded_manifest_mem_bytes: int = 4096 * MEBIBYTE
    max_concurrent_manifest_fetches: int = 500

    def __post_init__(self) -> None:
        _refuse_less_than_one(self)


@dataclass(frozen=True, slots=True)
class SweepLimits:
    """Of listing and deleting."""

    max_concurrent_deletes: int = 10
    max_consecutive_delete_failures: int = 50
    max_concurrent_listings: int | None = None
    """Whatever it is: a kind of files is one listing, and the kinds come one after the other."""
    max_deletes_per_second: float | None = None
    """Of objects; None for as many as the storage takes."""

    def __post_init__(self) -> None:
        _refuse_less_than_one(self)


def _refuse_less_than_one(limits: "WalkLimits | SweepLimits") -> None:
    for each in fields(limits):
        value = getattr(limits, each.name)
        if value is not None and value < 1:
            raise InvalidInputError(f"{each.name} is {value}, and must be at least 1")
