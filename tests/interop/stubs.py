"""Signatures as a stub file declares them, read without running anything."""

import ast

Parameters = list[list[str]]
"""Name, kind and default, in the words of `inspect`."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Stubs:
    """What a stub file declares."""

    def __init__(self, text: str) -> None:
        self._bodies: dict[str, list[ast.stmt]] = {}
        self._collect("", ast.parse(text).body)

    def has_class(self, path: str) -> bool:
        """Whether a class is declared; its path is dotted where it is inside another."""
        return bool(path) and path in self._bodies

    def names(self, path: str) -> set[str]:
        """What is declared in a class; nothing, if it is not declared."""
        if not self.has_class(path):
            return set()
        named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = {node.name for node in self._bodies[path] if isinstance(node, named)}
        targets = (_targets(node) for node in self._bodies[path])
        return found.union(*targets)

    def parameters(self, path: str, name: str) -> Parameters | None:
        """The parameters of a function of a class, or with no path of the module; None without one."""
        for node in self._bodies.get(path, ()):
            if isinstance(node, _Function) and node.name == name:
                return _declared(node.args)
        return None

    def _collect(self, path: str, body: list[ast.stmt]) -> None:
        self._bodies[path] = body
        for node in body:
            if isinstance(node, ast.ClassDef):
                self._collect(f"{path}.{node.name}".lstrip("."), node.body)


NO_STUBS = Stubs("")


def _targets(node: ast.stmt) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {each.id for each in targets if isinstance(each, ast.Name)}


def _declared(arguments: ast.arguments) -> Parameters:
    kinds = [(each, "positional-only") for each in arguments.posonlyargs]
    kinds += [(each, "positional or keyword") for each in arguments.args]
    missing = len(kinds) - len(arguments.defaults)
    defaults = [*([None] * missing), *arguments.defaults]
    found = [[each.arg, kind, _default(d)] for (each, kind), d in zip(kinds, defaults, strict=True)]
    found += [
        [each.arg, "keyword-only", _default(default)]
        for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return [each for each in found if each[0] not in ("self", "cls")]


def _default(default: ast.expr | None) -> str:
    if default is None:
        return ""
    return repr(default.value) if isinstance(default, ast.Constant) else "…"
