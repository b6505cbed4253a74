"""Start-up: lazy names, quickly made dataclasses, aliases of modules, and the name `icechunk`."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from importlib.abc import Loader, MetaPathFinder
else:
    # The module of the base classes takes longer to load than all others together.
    Loader = MetaPathFinder = object

    def dataclass(**options: bool) -> Callable[[type], type]:
        """Make a dataclass as the standard library does, in a quarter of the time.

        Only its `__init__` is compiled. Options are `frozen`, `slots`, `eq`, `repr` and `kw_only`.
        """
        return partial(_make_dataclass, **options)


def _make_dataclass(
    cls: type,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> type:
    import dataclasses  # noqa: PLC0415 - most commands of the terminal need none

    plain = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
    made: type = plain(cls)
    fields = dataclasses.fields(made)
    own = dict(vars(made))
    names = tuple([each.name for each in fields])

    def add(name: str, value: Any) -> None:
        if own.get(name) is None:
            setattr(made, name, value)

    add("__init__", _compile_init(made, fields, frozen, dataclasses.MISSING))
    if repr:
        shown = [each.name for each in fields if each.repr]

        def show(self: Any) -> str:
            values = ", ".join([f"{name}={getattr(self, name)!r}" for name in shown])
            return f"{type(self).__qualname__}({values})"

        add("__repr__", show)
    if eq:
        get = _getter([each.name for each in fields if each.compare])
        hashed = _getter(
            [each.name for each in fields if (each.compare if each.hash is None else each.hash)]
        )

        def equals(self: Any, other: object) -> Any:
            if other.__class__ is not self.__class__:
                return NotImplemented
            return self is other or get(self) == get(other)

        add("__eq__", equals)
        add("__hash__", (lambda self: hash(hashed(self))) if frozen else None)
    if frozen:

        def refuse(self: Any, name: str, *value: Any) -> None:
            if type(self) is not made and name not in names:
                (object.__setattr__ if value else object.__delattr__)(self, name, *value)
                return
            verb = "assign to" if value else "delete"
            raise dataclasses.FrozenInstanceError(f"cannot {verb} field {name!r}")

        def set_state(self: Any, state: Sequence[Any]) -> None:
            for name, value in zip(names, state, strict=True):
                object.__setattr__(self, name, value)

        add("__setattr__", refuse)
        add("__delattr__", refuse)
        if slots:
            add("__getstate__", lambda self: [getattr(self, name) for name in names])
            add("__setstate__", set_state)
    return made


def _getter(names: Sequence[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else type


class _Factory:
    """Default of a parameter whose value is made by a function."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _compile_init(
    cls: type, fields: Sequence[Any], frozen: bool, missing: object
) -> Callable[..., None]:
    """Return the `__init__` of a dataclass."""
    known: dict[str, Any] = {"_set_": object.__setattr__, "_factory_": _FACTORY}
    parameters: dict[bool, list[str]] = {False: ["self"], True: []}
    lines = []
    for each in fields:
        name = value = each.name
        default = ""
        if each.default_factory is not missing:
            known[f"_make_{name}"] = each.default_factory
            value, default = f"_make_{name}()", "=_factory_"
            if each.init:
                value = f"{value} if {name} is _factory_ else {name}"
        elif each.default is not missing:
            known[f"_default_{name}"] = each.default
            default = f"=_default_{name}"
            value = name if each.init else default[1:]
        if each.init:
            parameters[each.kw_only].append(name + default)
        elif not default:
            continue
        lines.append(f"_set_(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    given = [*parameters[False], *(["*", *parameters[True]] if parameters[True] else ())]
    body = "\n  ".join(lines or ["pass"])
    source = (
        f"def create({', '.join(known)}):\n"
        f" def __init__({', '.join(given)}):\n  {body}\n"
        " return __init__"
    )
    made: dict[str, Any] = {}
    exec(source, vars(sys.modules[cls.__module__]), made)
    init: Callable[..., None] = made["create"](**known)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {each.name: each.type for each in fields if each.init} | {"return": None}
    return init


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
        self._module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> object:
        module = self._module
        if module is None:
            # Waits for a thread that is importing it, where `sys.modules` has half a module.
            module = import_module(self._name)
            if not getattr(module.__spec__, "_initializing", False):
                self._module = module
        return getattr(module, attribute)

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyModule, (self._name,)


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
