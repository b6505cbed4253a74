"""Install Frazil under the name of the official library, for programs that import `icechunk`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from types import ModuleType

from frazil.lazy import AliasLoader

__all__ = ["install_as_icechunk"]

_OURS, _THEIRS = "frazil", "icechunk"

# Compiled module of the official library, from which some programs import names.
_COMPILED = "_icechunk_python"
_MODULES_OF_COMPILED = ("frazil", "frazil.config", "frazil.ops", "frazil.testing")


def install_as_icechunk() -> None:
    """Make `import icechunk` return Frazil in this process, even if the official library is installed.

    For libraries that look up the official classes by name, such as VirtualiZarr, and for programs
    written for the official library.

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
