"""What a module offers, as JSON: run by a child process that has the official library.

Takes the names of modules, and needs nothing but the standard library and those.
"""

import enum
import importlib
import inspect
import json
import sys
from typing import Any


def describe_module(module: Any) -> dict[str, Any]:
    """Each public name with what can be seen of it."""
    return {name: describe(getattr(module, name)) for name in module.__all__}


def describe(value: Any) -> dict[str, Any]:
    """The parameters of a function or class, and the public names inside a class."""
    found: dict[str, Any] = {}
    if inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, enum.Enum)):
        found["parameters"] = _parameters(value)
    if inspect.isclass(value):
        found["names"] = sorted(name for name in dir(value) if not name.startswith("_"))
    return found


def _parameters(value: Any) -> list[list[str]] | None:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[each.name, str(each.kind), repr(each.default)] for each in parameters]


if __name__ == "__main__":
    modules = {name: describe_module(importlib.import_module(name)) for name in sys.argv[1:]}
    print(json.dumps(modules))
