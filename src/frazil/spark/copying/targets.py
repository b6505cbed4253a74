"""Where a copy can go to."""

from frazil.assets import Assets
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.format.dialect import Dialect
from frazil.protocols.detection import detect_dialect
from frazil.spark.copying.guarding import explain_generations
from frazil.spark.copying.objects import find_size
from frazil.storage import Storage

_LOOKED_AT = 1000
"""So many keys tell what a place is used for."""
_FOLDERS = frozenset(
    {
        "snapshots", "manifests", "transactions", "chunks", "refs", "overwritten", "_frazil",
        "s", "m", "c", "r",
    }
)  # fmt: skip
"""What copies of all generations leave behind."""


def refuse_target(target: Storage, dialect: Dialect, *, incremental: bool) -> None:
    """Raise where a copy can't go to."""
    if target.is_bucket_root:
        raise InvalidInputError(
            "a repository needs a prefix of its own, the root of a bucket is none",
            kind="empty-prefix-creation",
        )
    found = detect_dialect(target)
    if found is None:
        _refuse_unless_clean(target)
    elif not incremental:
        raise AlreadyExistsError("the target has a repository: copy to a place where nothing is")
    elif found is not dialect:
        raise InvalidInputError(explain_generations(dialect, found))


def _refuse_unless_clean(target: Storage) -> None:
    """Raise InvalidInputError where there is anything that no copy leaves behind."""
    for number, info in enumerate(target.list()):
        folder, slash, _ = info.key.partition("/")
        if info.key != "config.yaml" and (not slash or folder not in _FOLDERS):
            raise InvalidInputError(
                f"a copy needs a place where nothing else is, and here is {info.key!r}",
                kind="parent-directory-not-clean",
            )
        if number == _LOOKED_AT:
            break


def has_nothing(assets: Assets) -> bool:
    """Whether not even a copy that was broken off has left anything."""
    layout = assets.layout
    folders = (layout.chunks, layout.manifests, layout.snapshots)
    return not any(next(iter(assets.storage.list(f"{each}/")), None) for each in folders)


def refuse_same_place(source: Storage, target: Storage, id: str) -> None:
    """Raise InvalidInputError if what is written to the target is in the source, too."""
    key = f"_frazil/copies/{id}"
    target.put(key, b"")
    try:
        if find_size(source, key) is not None:
            raise InvalidInputError("the source and the target are the same place")
    finally:
        target.delete_many([key])
