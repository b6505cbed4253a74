"""The public surface of a package as JSON: names, sorts, members, signatures.

Run as a program it describes the package it is told, and needs nothing but the standard library and
that. What is compiled tells little about itself; where the package has a stub file, that is asked.
"""

import enum
import inspect
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.interop.stubs import NO_STUBS, Stubs

MODULES = (
    "", "config", "conflicts", "credentials", "dask", "distributed", "ops", "repository", "session",
    "snapshots", "storage", "store", "types", "virtual", "xarray",
)  # fmt: skip
ALSO = {"": ("supported_spec_versions", "upgrade_icechunk_repository")}
"""Public names that no `__all__` lists."""
SPECIAL = ("__and__", "__or__", "__add__")
"""Methods that users call through operators."""


def describe_package(package: str, stubs: Stubs) -> dict[str, Any]:
    """Each module with each of its public names; None for a module that is not there."""
    found: dict[str, Any] = {}
    for name in MODULES:
        try:
            module = import_module(f"{package}.{name}".rstrip("."))
        except ImportError:
            found[name] = None
            continue
        names = (*_public_names(module), *ALSO.get(name, ()))
        found[name] = {each: describe(_find(module, each), each, stubs) for each in names}
    return found


def describe(value: Any, path: str, stubs: Stubs) -> dict[str, Any]:
    """What can be seen of a value; `path` is its name in the stub file."""
    if inspect.isclass(value):
        return _describe_class(value, path, stubs)
    if inspect.isroutine(value):
        return {"sort": "function", "parameters": stubs.parameters("", path) or _parameters(value)}
    return {"sort": "absent" if value is _ABSENT else "value"}


def _describe_class(cls: type, path: str, stubs: Stubs) -> dict[str, Any]:
    sort = "exception" if issubclass(cls, BaseException) else "class"
    # `dir` of an enumeration leaves its methods out; what no stub declares is nobody's to use.
    found = {*dir(cls), *vars(cls)} & (stubs.names(path) or {*dir(cls), *vars(cls)})
    names = {name for name in found if not name.startswith("_") or name in SPECIAL}
    members = {name: each for name in names if type(each := getattr(cls, name)) is cls}
    if issubclass(cls, enum.Enum):
        members = dict(cls.__members__)
    return {
        "sort": sort,
        "parameters": None if members else _constructor(cls, path, stubs),
        "members": {name: _number(each) for name, each in sorted(members.items())},
        "inside": {
            name: _describe_inside(cls, name, f"{path}.{name}", stubs)
            for name in sorted(names - members.keys())
            # An alternative inherits the others from the class that it is in.
            if not ("." in path and inspect.isclass(getattr(cls, name)))
        },
    }


def _describe_inside(cls: type, name: str, path: str, stubs: Stubs) -> dict[str, Any]:
    value = getattr(cls, name)
    declared = None if is_property(cls, name) else stubs.parameters(path.rpartition(".")[0], name)
    if inspect.isclass(value) and declared is None:
        return _describe_class(value, path, stubs)
    if name in SPECIAL or not callable(value):
        return {"sort": "method" if callable(value) else "property"}
    return {"sort": "method", "parameters": _parameters(value) if declared is None else declared}


def is_property(cls: type, name: str) -> bool:
    """Whether an attribute is asked for without a call."""
    return inspect.isdatadescriptor(inspect.getattr_static(cls, name))


def _constructor(cls: type, path: str, stubs: Stubs) -> list[Any] | None:
    """The parameters of a class; None where it can't be made, or does not tell."""
    declared = stubs.parameters(path, "__new__")
    if declared is not None or stubs.has_class(path):
        return declared
    return _parameters(cls)


def _parameters(value: Any) -> list[Any] | None:
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    shown = [each for each in found if each.name not in ("self", "cls")]
    return [[each.name, each.kind.description, _default(each.default)] for each in shown]


def _default(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return ""
    return repr(default) if default is None or isinstance(default, int | str) else "…"


def _number(member: Any) -> int | str | None:
    value = getattr(member, "value", None)
    if isinstance(value, int | str):
        return value
    try:
        return int(member)
    except (TypeError, ValueError):
        return None


def _public_names(module: Any) -> tuple[str, ...]:
    if hasattr(module, "__all__"):
        return tuple(module.__all__)
    own = (name for name, each in vars(module).items() if _is_own(module, name, each))
    return tuple(own)


def _is_own(module: Any, name: str, value: Any) -> bool:
    is_made_here = getattr(value, "__module__", None) == module.__name__
    is_called = inspect.isroutine(value) or inspect.isclass(value)
    return is_made_here and is_called and not name.startswith("_")


_ABSENT = object()


def _find(module: Any, name: str) -> Any:
    try:
        return getattr(module, name)
    except (AttributeError, ImportError):
        return _ABSENT


def find_stubs(package: str) -> Stubs:
    """The stubs of a package's compiled part, if it has one."""
    root = Path(str(import_module(package).__file__)).parent
    files = sorted(root.glob("_*.pyi"))
    return Stubs(files[0].read_text()) if files else NO_STUBS


if __name__ == "__main__":
    print(json.dumps(describe_package(sys.argv[1], find_stubs(sys.argv[1]))))
