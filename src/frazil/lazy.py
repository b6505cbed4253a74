"""Lazy loading of the public names of a package, for a fast import."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType


def load_lazily(
    package: str, homes: Mapping[str, str], modules: Iterable[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package.

    `homes` maps each module to its public names, and `modules` lists the modules that are public
    names themselves.
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


def lazy_modules(*names: str) -> tuple["LazyModule", ...]:
    """Return stand-ins for modules that are imported when an attribute of them is first used."""
    return tuple(map(LazyModule, names))


class LazyModule:
    """A module that is imported when an attribute of it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> object:
        return getattr(import_module(self._name), attribute)


def alias_modules(homes: Mapping[str, str]) -> None:
    """Make modules importable under additional names, such as those of the official library."""
    sys.meta_path.append(_AliasFinder(homes))


class _AliasFinder(MetaPathFinder):
    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        home = self._homes.get(fullname)
        return spec_from_loader(fullname, AliasLoader(home)) if home else None


class AliasLoader(Loader):
    """Loads an existing module under another name: a second copy would have different classes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002
        module = import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import has set the spec of the alias.
        module.__spec__ = self._spec
