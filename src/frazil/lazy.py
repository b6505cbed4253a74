"""Import machinery: lazy public names, aliases of modules, and Frazil under the name `icechunk`."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    # The module of the base classes takes longer to load than all others together.
    Loader = MetaPathFinder = object


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


_OURS, _THEIRS = "frazil", "icechunk"
OFFICIAL_VERSION = "2.3.0"
"""Version of the official library whose Python interface Frazil has."""

# Compiled module of the official library, from which some programs import names.
_COMPILED = "_icechunk_python"
_MODULES_OF_COMPILED = ("frazil", "frazil.config", "frazil.ops", "frazil.testing")


def install_as_icechunk() -> None:
    """Make `import icechunk` return Frazil in this process, even if the official library is installed.

    For libraries that look up the official classes by name, such as VirtualiZarr, and for programs
    written for the official library. `icechunk.__version__` is the official version that Frazil
    implements, because programs choose what to call by it.

    Raises
    ------
    RuntimeError
        If the official library is imported already: its classes may be in use.
    """
    ours = import_module(_OURS)
    found = sys.modules.get(_THEIRS)
    if found is ours:
        return
    if found is not None:
        raise RuntimeError("icechunk is imported already: call install_as_icechunk before that")
    sys.meta_path.insert(0, _Finder())
    sys.modules[_THEIRS] = ours
    vars(ours)["__version__"] = OFFICIAL_VERSION


def package_name() -> str:
    """Return the name by which this process imports Frazil: `icechunk` after `install_as_icechunk`.

    The output of `repr` can then be executed by programs that know only that name.
    """
    installed = sys.modules.get("icechunk")
    return "icechunk" if hasattr(installed, "install_as_icechunk") else "frazil"


class _Finder(MetaPathFinder):
    """Finds modules of Frazil for imports of `icechunk`."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package != _THEIRS:
            return None
        if name == _COMPILED:
            return spec_from_loader(fullname, _CompiledLoader())
        if find_spec(f"{_OURS}.{name}") is None:
            return None
        return spec_from_loader(fullname, AliasLoader(f"{_OURS}.{name}"))


class _CompiledLoader(Loader):
    """Creates a module with the names of the official compiled module."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Compiled(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: names are looked up when they are used."""


class _Compiled(ModuleType):
    def __getattr__(self, name: str) -> object:
        if name == "_all_error_kinds":
            return lambda: [kind.value for kind in import_module("frazil.errors").ErrorKind]
        for module in map(import_module, _MODULES_OF_COMPILED):
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
