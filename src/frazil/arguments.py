"""Argument checks of public methods, based on their annotations.

Without them a wrong type would raise an unrelated Python error that names no argument. Only cheap
checks are made: classes, and the elements of short lists of numbers and strings.
"""

import functools
import inspect
import operator
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import Any, Literal, ParamSpec, TypeVar

from frazil.display import suggest
from frazil.errors import InvalidInputError, InvalidTypeError
from frazil.lazy import LazyAttribute

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Check = Callable[[Any], bool]

_MOST_ITEMS = 100
"""Elements of longer lists are not checked."""


def check_arguments(only: Collection[str] | None = None) -> Callable[[type[T]], type[T]]:
    """Decorate a class so that its public methods, or those in `only`, reject wrong argument types."""

    def decorate(cls: type[T]) -> type[T]:
        package = cls.__module__.partition(".")[0]
        found: dict[str, Any] = {}
        for owner in cls.__mro__[::-1]:
            is_ours = owner.__module__.partition(".")[0] == package
            found |= vars(owner) if is_ours else dict.fromkeys(vars(owner))
        for name in found if only is None else only:
            if not name.startswith("_") and isinstance(found[name], _METHODS):
                lazy = LazyAttribute(functools.partial(_check_method, found[name]))
                lazy.__set_name__(cls, name)
                setattr(cls, name, lazy)
        return cls

    return decorate


_METHODS = (types.FunctionType, classmethod, staticmethod, LazyAttribute)


def _check_method(method: Any, _: type) -> Any:
    if isinstance(method, LazyAttribute):
        method = method.make()
    if isinstance(method, classmethod | staticmethod):
        return type(method)(_checked(method.__func__))
    return _checked(method)


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(function, "_is_checked"):
        return function
    # `inspect.signature` would find the same, and take a third of the time to load a repository.
    plain = inspect.unwrap(function)
    positional = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    defaults = plain.__defaults__ or ()
    named = [
        *zip(positional[len(positional) - len(defaults) :], defaults, strict=True),
        *(plain.__kwdefaults__ or {}).items(),
    ]
    # Defaults need no rule, which would load what is loaded lazily.
    accepted = {(name, type(default)) for name, default in named if default is None}
    """Types that were accepted before: a valid call costs one lookup per argument."""

    def check(name: str, value: Any) -> None:
        rule = _find_rule(plain, name)
        if rule is None or rule.require(function.__name__, name, value):
            accepted.add((name, type(value)))

    def check_all(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        for name, value in (*zip(positional, args, strict=False), *kwargs.items()):
            kind = type(value)
            if (name, kind) not in accepted or (kind is str and not value.isascii()):
                check(name, value)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def checked(*args: Any, **kwargs: Any) -> Any:
            check_all(args, kwargs)
            return await function(*args, **kwargs)

    else:

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            check_all(args, kwargs)
            return function(*args, **kwargs)

    checked._is_checked = True  # type: ignore[attr-defined]
    return checked


def verb(**values: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that it refuses unknown options and suggests the nearest known one.

    `values` are the classes of the parameters that hold several options. Each of these options may
    also be given by its own name. Shared parameters that the docstring leaves out are added to it.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        owner = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
        parameters = inspect.signature(function).parameters
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            return function
        inside = {
            name: parameter
            for parameter, cls in values.items()
            for name in inspect.signature(cls).parameters
            if name not in parameters
        }

        known = [each for each in (*parameters, *inside) if each != "self"]

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            refuse_unknown(kwargs, known, owner)
            named: dict[str, dict[str, object]] = {}
            for name in [each for each in kwargs if each in inside]:
                named.setdefault(inside[name], {})[name] = kwargs.pop(name)
            for parameter, options in named.items():
                if kwargs.get(parameter) is not None:
                    raise InvalidInputError(
                        f"{owner} has {next(iter(options))}= beside {parameter}=: give it "
                        f"in {values[parameter].__name__}"
                    )
                kwargs[parameter] = values[parameter](**options)
            return function(*args, **kwargs)

        if "job" in values and function.__doc__:
            checked.__doc__ = _describe_shared(function.__doc__, parameters)
        return checked

    return decorate


_SHARED = {
    "repo": "Repository or its location.",
    "branch": "Branch to commit to.",
    "authorize": "Containers whose virtual chunks may be read, as for `open_session`.",
    "message": "Commit message.",
    "metadata": "Metadata of the commit.",
    "job": "Handle to follow or cancel the job, with the options of its tasks.",
    "spark": (
        "Session that runs the tasks. Default: the active one, or a new one for work that is not small."
    ),
}
"""Descriptions of parameters that most jobs have."""


def _describe_shared(docstring: str, parameters: Iterable[str]) -> str:
    """Add the shared parameters to a docstring, all parameters in the order of the signature."""
    head, rule, rest = inspect.cleandoc(docstring).partition("Parameters\n----------\n")
    described, *tail = rest.split("\n\n", 1)
    entries = re.split(r"\n(?=\w)", described)
    own = {name: entry for entry in entries for name in entry.partition("\n")[0].split(", ")}
    shared = {name: f"{name}\n    {text}" for name, text in _SHARED.items()}
    found = [(shared | own).get(name) for name in parameters]
    ordered = dict.fromkeys(entry for entry in (*found, *entries) if entry)
    return head + rule + "\n\n".join(["\n".join(ordered), *tail])


def named_options(cls: type[T]) -> type[T]:
    """Decorate a class of options so that its constructor refuses unknown ones like a verb."""
    cls.__init__ = verb()(cls.__init__)  # type: ignore[method-assign]
    return cls


def refuse_unknown(
    given: Iterable[str],
    known: Iterable[str],
    owner: str,
    *,
    suggested: Iterable[str] = (),
    elsewhere: Mapping[str, Collection[str]] | None = None,
    ignores_case: bool = False,
) -> None:
    """Raise InvalidInputError for the first unknown name, suggesting the nearest known one.

    `suggested` names are not known, but may be suggested. `elsewhere` are the names that others know.
    """
    fold = str.lower if ignores_case else str
    names = {fold(name): name for name in known}
    for name in given:
        if fold(name) not in names:
            owners = [each for each, own in (elsewhere or {}).items() if fold(name) in own]
            near = suggest(name, (*names.values(), *suggested))
            hint = f"it is one of {', '.join(owners)}" if owners else near
            raise InvalidInputError(f"{owner} has no option {name!r}: {hint}")


class _Expected:
    """Types that an annotation allows."""

    def __init__(self, alternatives: Sequence[tuple[str, Check]]) -> None:
        self._names = " or ".join(dict.fromkeys(name for name, _ in alternatives))
        self._checks = tuple(check for _, check in alternatives)
        # Partial functions check the contents of literals and sequences, others only the type.
        self._is_by_type = not any(isinstance(each, functools.partial) for each in self._checks)

    def require(self, method: str, name: str, value: Any) -> bool:
        """Return whether all values of this type are allowed, but for text that is not ASCII.

        Raises InvalidTypeError for a wrong type, InvalidInputError for text with lone surrogates.
        """
        if not any(check(value) for check in self._checks):
            hint = next((say(value) for sign, say in _HINTS if sign in self._names), "")
            raise InvalidTypeError(
                f"invalid {name} {_show(value)} of {method}: expected {self._names}{hint}"
            )
        if isinstance(value, str) and not is_text(value):
            raise InvalidInputError(
                f"invalid {name} {value!r} of {method}: it has a lone surrogate, which is no text"
            )
        return self._is_by_type


def is_text(value: str) -> bool:
    """Return True if UTF-8 can encode the text, which excludes lone surrogates."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


_HINTS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("Storage", lambda _: ", as frazil.storage_from_url(path_or_url) gives it"),
    ("datetime", lambda _: ", such as datetime(2020, 1, 1, tzinfo=UTC)"),
    ("RepositoryConfig", lambda _: ", such as frazil.RepositoryConfig()"),
    ("SpecVersion", lambda value: f" (Couldn't parse a valid version from {_show(value)})"),
    ("a mapping", lambda _: ', such as {"s3://bucket/": credentials}'),
)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"of type {type(value).__name__}"


@functools.cache
def _find_rule(function: Callable[..., Any], name: str) -> _Expected | None:
    """Return the types that a parameter allows; None if it allows everything."""
    hint = function.__annotations__.get(name, Any)
    try:
        named = types.SimpleNamespace(__annotations__={name: hint})
        hint = typing.get_type_hints(named, function.__globals__)[name]
    except NameError:
        # Some names are imported for type checkers only.
        hint = Any if isinstance(hint, str) else hint
    alternatives = _alternatives(hint)
    return None if alternatives is None else _Expected(alternatives)


def _alternatives(hint: Any) -> list[tuple[str, Check]] | None:
    """Return names and checks of the types that a hint allows; None if it allows everything."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        parts = [_alternatives(each) for each in typing.get_args(hint)]
        if any(each is None for each in parts):
            return None
        return [each for part in parts if part is not None for each in part]
    if origin is Literal:
        return [(repr(each), functools.partial(operator.eq, each)) for each in hint.__args__]
    if hint is None or hint is types.NoneType:
        return [("None", lambda value: value is None)]
    cls = origin or hint
    if not isinstance(cls, type) or cls in (object, Any) or getattr(cls, "_is_protocol", False):
        return None
    if cls.__module__ == "numpy":
        # A list is accepted as well.
        return None
    return [_alternative(cls, typing.get_args(hint))]


def _alternative(cls: type, items: tuple[Any, ...]) -> tuple[str, Check]:
    if cls in _WIDER:
        return _WIDER[cls]
    if cls is dict or issubclass(cls, Mapping):
        return "a mapping", lambda value: isinstance(value, Mapping)
    if issubclass(cls, list | tuple | Set | Sequence | Iterable) and cls.__module__ in (
        "builtins",
        "collections.abc",
        "typing",
    ):
        return _iterable_of(items)
    if issubclass(cls, Callable):  # type: ignore[arg-type]
        return "a function", callable
    return f"a {cls.__name__}", lambda value: isinstance(value, cls)


def _iterable_of(items: tuple[Any, ...]) -> tuple[str, Check]:
    if not items or items[0] not in (int, str):
        return "an iterable", lambda value: _is_iterable(None, value)
    check = functools.partial(_is_iterable, _WIDER[items[0]][1])
    return f"a sequence of {items[0].__name__}", check


def _is_iterable(element: Check | None, value: Any) -> bool:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return False
    if element is None or not isinstance(value, list | tuple) or len(value) > _MOST_ITEMS:
        return True
    return all(map(element, value))


# Types that also accept compatible values, mainly numpy scalars.
_WIDER: dict[type, tuple[str, Check]] = {
    int: ("an int", lambda value: hasattr(value, "__index__")),
    float: (
        "a float",
        lambda value: hasattr(value, "__float__") or hasattr(value, "__index__"),
    ),
    bool: ("a bool", lambda value: isinstance(value, bool) or hasattr(value, "__bool__")),
    str: ("a str", lambda value: isinstance(value, str)),
    bytes: ("bytes", lambda value: isinstance(value, bytes | bytearray | memoryview)),
    datetime: ("a datetime with a time zone", lambda value: isinstance(value, datetime)),
}
