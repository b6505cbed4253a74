"""Packages whose names are loaded when they are first used: nobody waits for what is not needed."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def load_lazily(
    package: str, homes: Mapping[str, str], modules: Iterable[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package.

    `homes` has the names that each of its modules holds, and `modules` those that are names themselves.
    """
    found_in = {name: module for module, names in homes.items() for name in names.split()}
    own = frozenset(modules)

    def get(name: str) -> object:
        if name in own:
            return import_module(f"{package}.{name}")
        if name not in found_in:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{found_in[name]}"), name)
        vars(sys.modules[package])[name] = found
        return found

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *found_in, *own})

    return get, list_names
