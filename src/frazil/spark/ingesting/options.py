"""What an ingest is told by its caller."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from frazil.errors import InvalidInputError
from frazil.rendering.text import list_known
from frazil.spark.checks.subjects import AnyCheck
from frazil.spark.ingesting.encodings import Wishes
from frazil.spark.ingesting.region_options import RegionOption
from frazil.virtual import VirtualChunkContainer
from frazil.virtual.readers.stores import Credentials

Mode = Literal["auto", "virtual", "native"]
OnOverlap = Literal["refuse", "replace"]
OnBadFile = Literal["fail", "skip"]
OnFailedCheck = Literal["fail", "quarantine"]

_ALTERNATIVES = {
    "mode": get_args(Mode), "on_overlap": get_args(OnOverlap), "on_bad_file": get_args(OnBadFile),
    "on_failed_check": get_args(OnFailedCheck),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """How to ingest, and what to do where something is wrong."""

    branch: str
    group: str
    """Without slashes around it; empty for the root."""
    append_dim: str | None
    on_overlap: OnOverlap
    on_bad_file: OnBadFile
    mode: Mode
    message: str | None
    dry_run: bool
    files_per_task: int
    checks: tuple[AnyCheck, ...] = ()
    on_failed_check: OnFailedCheck = "fail"
    containers: Sequence[VirtualChunkContainer] = ()
    credentials: Credentials = field(default_factory=dict, repr=False)
    wishes: Wishes = field(default_factory=Wishes)
    region: RegionOption | None = None
    statistics: bool = False


def refuse_unknown(**given: str) -> None:
    """Raise InvalidInputError for an option that is none."""
    for name, value in given.items():
        if value not in _ALTERNATIVES[name]:
            known = ", ".join(map(repr, _ALTERNATIVES[name]))
            raise InvalidInputError(f"{name}={value!r} is none of {known}")


def refuse_mistyped(**given: object) -> None:
    """Raise InvalidInputError for an option that is not of its type, before anything is read."""
    for name, value in given.items():
        is_right, wanted = _SHAPES[name]
        if not is_right(value):
            raise InvalidInputError(f"invalid {name} {value!r}: it must be {wanted}")


def refuse_unnamed(
    option: str, names: Iterable[str], known: Collection[str], what: str, whose: str = "the files"
) -> None:
    """Raise InvalidInputError for a name that nothing has, with the names there are."""
    for name in names:
        if name not in known:
            raise InvalidInputError(
                f"invalid {option} {name!r}: {whose} have {list_known(name, known, what)}"
            )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _are_names(value: Any) -> bool:
    is_several = isinstance(value, Collection) and not isinstance(value, str | bytes)
    return is_several and all(map(_is_name, value))


def _maps_names(value: Any) -> bool:
    is_mapping = value is None or isinstance(value, Mapping)
    return is_mapping and all(map(_is_name, value or ()))


_NAMES = (_are_names, "a list of names of arrays")
_SHAPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "append_dim": (
        lambda value: value is None or _is_name(value),
        "the name of one dimension, or None for a single file",
    ),
    "group": (lambda value: isinstance(value, str), "the path of a group"),
    "source_group": (lambda value: isinstance(value, str), "the path of a group"),
    "skip": _NAMES,
    "load": _NAMES,
    "rename": (
        lambda value: _maps_names(value) and all(map(_is_name, (value or {}).values())),
        "a dict of new names by old ones",
    ),
    "chunks": (_maps_names, "a dict by dimension, or by variable and dimension"),
    "encoding": (_maps_names, "a dict of settings by variable"),
}
