"""Frazil under the name of the official library, for other libraries that import that one."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from types import ModuleType

__all__ = ["stand_in_for_icechunk"]

_OURS, _THEIRS = "frazil", "icechunk"


def stand_in_for_icechunk() -> None:
    """Let `import icechunk` give Frazil in this process, whether the official library is there or not.

    For libraries that look for the official classes by name, such as VirtualiZarr. Raises RuntimeError
    if the official library is imported already: its classes may be in use.
    """
    ours = import_module(_OURS)
    found = sys.modules.get(_THEIRS)
    if found is ours:
        return
    if found is not None:
        raise RuntimeError("icechunk is imported already: call stand_in_for_icechunk before that")
    sys.meta_path.insert(0, _Finder())
    sys.modules[_THEIRS] = ours


class _Finder(MetaPathFinder):
    """Finds modules of ours where modules of theirs are asked for."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package != _THEIRS or find_spec(f"{_OURS}.{name}") is None:
            return None
        return spec_from_loader(fullname, _Loader(f"{_OURS}.{name}"))


class _Loader(Loader):
    """Gives the module of ours itself: a second copy would have other classes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002
        module = import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # Importing has put theirs in its place.
        module.__spec__ = self._spec
