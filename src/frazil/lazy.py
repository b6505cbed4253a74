"""Start-up: lazy names, quickly made dataclasses, aliases of modules, and the name `icechunk`."""

import gc
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
    from importlib.abc import Loader, MetaPathFinder
else:
    # The module of the base classes takes longer to load than all others together.
    Loader = MetaPathFinder = object

    def dataclass(**options: bool) -> Callable[[type], type]:
        """Make a dataclass as the standard library does, in a tenth of the time.

        Methods are made when they are first used: most classes of a process have no instance.
        Options are `frozen`, `slots`, `eq`, `repr` and `kw_only`.
        """
        return partial(_make_dataclass, **options)

    def replace(value: Any, /, **changes: Any) -> Any:
        """Return a copy with other values of some fields, as the standard library does, quickly."""
        cls = type(value)
        found = _POSITIONS.get(cls)
        if found is None:
            found = _POSITIONS[cls] = _find_positions(cls)
        get, positions = found
        if changes.keys() - positions.keys():
            return _replace(value, **changes)
        values = [*get(value)]
        for name, each in changes.items():
            values[positions[name]] = each
        return cls(*values)


_POSITIONS: dict[type, tuple[Callable[[Any], Any], Mapping[str, int]]] = {}
"""Function that returns all fields, and the number of each; none if some are no parameters."""


def _find_positions(cls: type) -> tuple[Callable[[Any], Any], Mapping[str, int]]:
    fields = [*_fields(cls)]
    names = [each.name for each in fields if each.init and not each.kw_only]
    if len(names) < max(2, len(fields)):
        return id, {}
    return attrgetter(*names), dict(zip(names, range(len(names)), strict=True))


class LazyAttribute:
    """Attribute of a class that is made of the class when it is first used."""

    __slots__ = ("_make", "_name", "_owner")

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner = owner
        self._name = name

    def make(self) -> Any:
        """Return what the attribute will be."""
        return self._make(self._owner)

    def __get__(self, instance: object, cls: type | None = None) -> Any:
        made = self.make()
        setattr(self._owner, self._name, made)
        return made.__get__(instance, cls) if hasattr(made, "__get__") else made


def _make_dataclass(
    cls: type,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> type:
    own = dict(vars(cls))
    declared = _own_annotations(cls)
    given = {name: own[name] for name in declared if name in own}
    options = (frozen, slots, eq, repr, kw_only)
    added: dict[str, Any] = {
        "__dataclass_fields__": LazyAttribute(partial(_make_fields, declared, given, kw_only)),
        "__dataclass_params__": LazyAttribute(partial(_make_params, options)),
        "__match_args__": LazyAttribute(_make_match_args),
        "__init__": LazyAttribute(_make_init),
        "__replace__": _replace,
    }
    if repr:
        added["__repr__"] = _show
    if eq:
        added["__eq__"] = LazyAttribute(_make_eq)
        added["__hash__"] = LazyAttribute(_make_hash) if frozen else None
    if frozen:
        added["__setattr__"] = added["__delattr__"] = _refuse
        if slots:
            added["__getstate__"], added["__setstate__"] = _get_state, _set_state
    for name in [name for name in added if own.get(name) is not None]:
        del added[name]
    if not slots:
        _set_defaults(cls, given)
        for name, value in added.items():
            setattr(cls, name, value)
            if isinstance(value, LazyAttribute):
                value.__set_name__(cls, name)
        return cls
    for name in ("__dict__", "__weakref__", *given):
        own.pop(name, None)
    inherited = {
        name
        for base in cls.__mro__[1:-1]
        if (names := base.__dict__.get("__slots__"))
        for name in ((names,) if isinstance(names, str) else names)
    }
    names = [
        *_inherited_fields(cls),
        *(name for name, hint in declared.items() if not _is_no_field(hint)),
    ]
    own["__slots__"] = tuple([each for each in dict.fromkeys(names) if each not in inherited])
    own["__qualname__"] = cls.__qualname__
    made: type = type(cls)(cls.__name__, cls.__bases__, own | added)
    return made


def _own_annotations(cls: type) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return cls.__annotations__


def _is_no_field(hint: Any) -> bool:
    """Return True for a class variable, and for the marker that keyword-only fields follow."""
    if isinstance(hint, str):
        return hint.partition("[")[0].rpartition(".")[2] in ("ClassVar", "KW_ONLY")
    return getattr(hint, "__origin__", hint) is ClassVar or _is_marker(hint)


def _is_marker(hint: Any) -> bool:
    return type(hint).__name__ == "_KW_ONLY_TYPE" or (
        isinstance(hint, str) and hint.rpartition(".")[2] == "KW_ONLY"
    )


def _set_defaults(cls: type, given: Mapping[str, Any]) -> None:
    """Replace the descriptions of fields by their defaults, as attributes of the class."""
    import dataclasses  # noqa: PLC0415

    for name, value in given.items():
        if isinstance(value, dataclasses.Field):
            if value.default is dataclasses.MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, value.default)


def _make_fields(
    declared: Mapping[str, Any], given: Mapping[str, Any], kw_only: bool, cls: type
) -> dict[str, Any]:
    import dataclasses  # noqa: PLC0415 - most commands of the terminal need none

    made = _inherited_fields(cls)
    for name, hint in declared.items():
        if _is_no_field(hint):
            kw_only = kw_only or _is_marker(hint)
            continue
        each = given.get(name, dataclasses.MISSING)
        if not isinstance(each, dataclasses.Field):
            each = dataclasses.field(default=each)
        each.name, each.type = name, hint
        each._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
        if each.kw_only is dataclasses.MISSING:
            each.kw_only = kw_only
        made[name] = each
    return made


def _inherited_fields(cls: type) -> dict[str, Any]:
    import dataclasses  # noqa: PLC0415

    return {
        each.name: each
        for base in cls.__mro__[-2:0:-1]
        if "__dataclass_fields__" in vars(base)
        for each in dataclasses.fields(base)
    }


def _make_params(options: Sequence[bool], _: type) -> Any:
    import dataclasses  # noqa: PLC0415

    named = dict(zip(("frozen", "slots", "eq", "repr", "kw_only"), options, strict=True))
    model: Any = dataclasses.dataclass(**named)(type("Model", (), {}))
    return model.__dataclass_params__


def _make_match_args(cls: type) -> tuple[str, ...]:
    return tuple([each.name for each in _fields(cls) if each.init and not each.kw_only])


def _make_eq(cls: type) -> Callable[..., Any]:
    get = _getter([each.name for each in _fields(cls) if each.compare])

    def equals(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or get(self) == get(other)

    return equals


def _make_hash(cls: type) -> Callable[..., int]:
    get = _getter(
        [each.name for each in _fields(cls) if (each.compare if each.hash is None else each.hash)]
    )
    return lambda self: hash(get(self))


def _getter(names: Sequence[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else type


def _fields(value: Any) -> Iterable[Any]:
    """Return the fields of a dataclass or of a value of it."""
    return value.__dataclass_fields__.values()  # type: ignore[no-any-return]


# Methods of all dataclasses:


def _show(self: Any) -> str:
    values = [f"{each.name}={getattr(self, each.name)!r}" for each in _fields(self) if each.repr]
    return f"{type(self).__qualname__}({', '.join(values)})"


def _replace(self: Any, /, **changes: Any) -> Any:
    import dataclasses  # noqa: PLC0415

    return dataclasses.replace(self, **changes)


def _refuse(self: Any, name: str, *value: Any) -> None:
    import dataclasses  # noqa: PLC0415

    # Subclasses that are no dataclasses may have attributes of their own.
    if name not in self.__dataclass_fields__ and "__dataclass_fields__" not in vars(type(self)):
        (object.__setattr__ if value else object.__delattr__)(self, name, *value)
        return
    verb = "assign to" if value else "delete"
    raise dataclasses.FrozenInstanceError(f"cannot {verb} field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _set_state(self: Any, state: Sequence[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)


class _Factory:
    """Default of a parameter whose value is made by a function."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


_MOST_FIELDS = 16


def _make_init(cls: type) -> Any:
    """Return the `__init__` of a dataclass.

    To compile one for each class would take longer than all else that small work needs. So all
    share the code of one function, cut down to the class's parameters by name and number.
    """
    from dataclasses import MISSING  # noqa: PLC0415

    parameters: dict[bool, list[Any]] = {False: [], True: []}
    others = []
    for each in _fields(cls):
        if each.init:
            parameters[each.kw_only].append(each)
        elif each.default is not MISSING or each.default_factory is not MISSING:
            make = None if each.default_factory is MISSING else each.default_factory
            others.append((_setter(cls, each.name), make, each.default))
    chosen = parameters[False] + parameters[True]
    if len(chosen) > _MOST_FIELDS:
        raise TypeError(f"{cls.__qualname__} has more than {_MOST_FIELDS} fields")
    setters: list[Any] = [_setter(cls, each.name, each.default_factory) for each in chosen]
    finish = getattr(cls, "__post_init__", None)

    def end(self: Any) -> None:
        for put, make, value in others:
            put(self, value if make is None else make())
        if finish is not None:
            finish(self)

    setters += [None] * (_MOST_FIELDS - len(setters))
    init = _init(len(chosen), end if others or finish else None, setters)
    code = init.__code__
    names = [each.name for each in chosen]
    init.__code__ = code.replace(
        co_argcount=1 + len(parameters[False]),
        co_kwonlyargcount=len(parameters[True]),
        co_varnames=("self", *names, *code.co_varnames[1 + len(names) :]),
    )
    defaults = {
        each.name: _FACTORY if each.default_factory is not MISSING else each.default
        for each in chosen
        if each.default_factory is not MISSING or each.default is not MISSING
    }
    init.__defaults__ = tuple([
        defaults[each.name] for each in parameters[False] if each.name in defaults
    ])  # fmt: skip
    init.__kwdefaults__ = {
        each.name: defaults[each.name] for each in parameters[True] if each.name in defaults
    }
    init.__name__, init.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
    init.__annotations__ = {each.name: each.type for each in chosen} | {"return": None}
    return init


def _setter(cls: type, name: str, make: Any = None) -> Callable[[Any, Any], None]:
    """Return a function that sets a field of a new value, even if it is frozen."""
    slot = getattr(cls, name, None)
    put = getattr(slot, "__set__", None) or (lambda self, v: object.__setattr__(self, name, v))
    if not callable(make):
        return put
    return lambda self, value: put(self, make() if value is _FACTORY else value)


# fmt: off
def _init(count: int, end: Callable[[Any], None] | None, setters: list[Any]) -> Any:
    """Return an `__init__` with too many parameters, of which only `count` are used."""
    s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15 = setters

    def init(  # type: ignore[no-untyped-def]
        self, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15
    ):
        _ = (  # setters return None
            count == 0 or s0(self, a0) or count == 1 or s1(self, a1)
            or count == 2 or s2(self, a2) or count == 3 or s3(self, a3)
            or count == 4 or s4(self, a4) or count == 5 or s5(self, a5)
            or count == 6 or s6(self, a6) or count == 7 or s7(self, a7)
            or count == 8 or s8(self, a8) or count == 9 or s9(self, a9)
            or count == 10 or s10(self, a10) or count == 11 or s11(self, a11)
            or count == 12 or s12(self, a12) or count == 13 or s13(self, a13)
            or count == 14 or s14(self, a14) or count == 15 or s15(self, a15)
        )
        if end is not None:
            end(self)

    return init
# fmt: on


class CollectorPause:
    """Context in which Python collects no cyclic garbage, for work that creates many values that stay.

    Each collection looks at the values created so far, which takes longer than to create them.
    """

    __slots__ = ("_is_outermost",)

    def __enter__(self) -> None:
        self._is_outermost = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._is_outermost:
            gc.enable()


def _load(name: str) -> ModuleType:
    """Import a module, without collections of garbage: what modules create stays."""
    is_enabled, known = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        return import_module(name)
    finally:
        if len(sys.modules) > known and not gc.get_freeze_count():
            # As old as it gets now, or else a collection in the first small work would look at all of
            # it: both calls only append lists. They would undo a `freeze` of the program.
            gc.freeze()
            gc.unfreeze()
        if is_enabled:
            # Makes all objects old ones, without a look at any. The next collection would look at
            # all that was created, which takes as long as a third of the import.
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def load_lazily(
    package: str, homes: Mapping[str, str], modules: Iterable[str] = (), root: str | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package.

    `homes` maps each module, relative to `root` or else the package, to its public names, and
    `modules` lists the modules that are public names themselves.
    """
    found_in = {name: module for module, names in homes.items() for name in names.split()}
    own = frozenset(modules)

    def get(name: str) -> object:
        if name in own:
            return _load(f"{package}.{name}")
        if name not in found_in:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(_load(f"{root or package}.{found_in[name]}"), name)
        vars(sys.modules[package])[name] = found
        return found

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *found_in, *own})

    return get, list_names


def lazy_modules(*names: str) -> tuple["LazyModule", ...]:
    """Return stand-ins for modules that are imported when an attribute of them is first used.

    Stand-ins that are globals of the calling module are then replaced by the modules.
    """
    space = sys._getframe(1).f_globals
    return tuple([LazyModule(name, space) for name in names])


class LazyModule:
    """A module that is imported when an attribute of it is first used."""

    def __init__(self, name: str, space: dict[str, Any] | None = None) -> None:
        self._name = name
        self._space = {} if space is None else space

    def __getattr__(self, attribute: str) -> object:
        # Waits for a thread that is importing it, where `sys.modules` has half a module.
        module = _load(self._name)
        if not getattr(module.__spec__, "_initializing", False):
            for name in [name for name, value in list(self._space.items()) if value is self]:
                self._space[name] = module
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
