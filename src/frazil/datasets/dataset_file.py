"""Read `dataset.toml`: all problems at once, with the line of each."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from frazil.datasets.declaration import Declaration, DeclarationError, ProblemsError
from frazil.display import suggest
from frazil.urls import is_secret


def load(source: str | Path | Mapping[str, Any] | Declaration) -> Declaration:
    """Read a declaration: a TOML file, or a mapping of its fields.

    Parameters
    ----------
    source
        Path of the file, a mapping, or a declaration, which is returned as it is.

    Returns
    -------
    Declaration
        The declaration, validated.

    Raises
    ------
    DeclarationError
        If it is invalid; lists every problem, with its line.

    Examples
    --------
    >>> dataset = load("dataset.toml")
    """
    if isinstance(source, Declaration):
        return source
    text, name, folder = "", "the declaration", None
    if isinstance(source, Mapping):
        given = dict(source)
    else:
        path = Path(source)
        name, folder = str(path), str(path.absolute().parent)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise DeclarationError(
                f"there is no declaration at {path}: `frazil new` writes one", kind="key-not-found"
            ) from None
        except IsADirectoryError:
            raise DeclarationError(
                f"{path} is a folder, and a declaration is a TOML file: if it is a repository,"
                f" `frazil show {path}` and `frazil log {path}` show it"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise DeclarationError(f"{path} can't be read: {error}") from error
        try:
            given = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise DeclarationError(f"{path} is no TOML: {error}", [str(error)]) from error
    problems = list(_find_secrets(given, ()))
    try:
        found = Declaration.model_validate(given)
        found._folder = folder
    except ValidationError as error:
        problems = [*_explain(error), *problems]
    if problems:
        lines = find_lines(text)
        found_at = [(_find_line(place, lines), place, said) for place, said in problems]
        found_at.sort(key=lambda each: each[0])
        shown = [_show(*each) for each in found_at]
        count = "1 problem" if len(shown) == 1 else f"{len(shown)} problems"
        raise DeclarationError("\n".join([f"{name} has {count}:", *shown]), shown)
    return found


_Place = tuple[str | int, ...]


def _explain(error: ValidationError) -> Iterator[tuple[_Place, str]]:
    """Yield the place of each problem, and what it is."""
    for each in error.errors(include_url=False):
        place = tuple(part for part in each["loc"] if _is_place(part))
        several = each.get("ctx", {}).get("error")
        if isinstance(several, ProblemsError):
            yield from (((*place, *inside), text) for inside, text in several.problems)
            continue
        message = each["msg"].removeprefix("Value error, ")
        if each["type"] == "extra_forbidden":
            known = _fields_at(place[:-1])
            message = f"unknown key {place[-1]!r}: {suggest(str(place[-1]), known)}"
        elif each["type"] == "missing":
            message = f"{place[-1]} is missing"
        elif each["type"] == "literal_error":
            names = re.findall(r"'([^']*)'", each["ctx"]["expected"])
            message = f"unknown value {each['input']!r}: {suggest(str(each['input']), names)}"
        elif each["type"] in _EXPECTED:
            message = f"expected {_EXPECTED[each['type']]}"
            if place[:1] != ("credentials",):  # the value may be a secret
                message += f", not {each['input']!r}"
        yield place, message


def _is_place(part: object) -> bool:
    """Return whether a part of a location is a key of the file, not the name of an alternative."""
    return not (
        isinstance(part, str) and (part.startswith(("function-", "tuple[")) or part in _TYPES)
    )


_EXPECTED = {
    "bool_parsing": "true or false", "bool_type": "true or false", "dict_type": "a table",
    "float_parsing": "a number", "float_type": "a number", "int_from_float": "a whole number",
    "int_parsing": "a whole number", "int_type": "a whole number", "mapping_type": "a table",
    "model_type": "a table", "string_type": "text", "tuple_type": "a list",
}  # fmt: skip
"""What is expected, by type of error."""
_TYPES = frozenset({"int", "float", "str", "Range", "bool"})


def _fields_at(place: _Place) -> list[str]:
    model: Any = Declaration
    for part in place:
        field = model.model_fields.get(part) if isinstance(part, str) else None
        if field is None:  # a name of the user's, or the index of a list
            continue
        nested = list(_find_models(field.annotation))
        model = nested[0] if nested else model
    return list(model.model_fields)


def _find_models(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in getattr(annotation, "__args__", ()):
        yield from _find_models(each)


_NAMES_OF_SECRETS = ("token_env", "token_file", "token_command", "url_env", "headers_env")
_LOGIN = re.compile(r"://[^/@\s]+:[^/@\s]+@")


def _find_secrets(value: Any, place: _Place) -> Iterator[tuple[_Place, str]]:
    """Yield the places of values that look like secrets."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            inside = (*place, name)
            is_value = isinstance(each, str) and len(place) > 0 and place[0] != "variables"
            if is_value and name not in _NAMES_OF_SECRETS and is_secret(str(name)):
                yield inside, f"{name!r} holds a secret: name an environment variable instead"
            elif name not in _NAMES_OF_SECRETS:
                yield from _find_secrets(each, inside)
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _find_secrets(each, (*place, number))
    elif isinstance(value, str):
        query = re.findall(r"[?&]([^=&]+)=", value) if "://" in value else []
        if _LOGIN.search(value) or any(is_secret(name) or name[:6] == "X-Amz-" for name in query):
            yield place, "the URL holds a secret: declare credentials by name instead"


def _find_line(place: _Place, lines: Mapping[_Place, int]) -> int:
    """Return the line of a key, or of the table that it is in; 0 if there is none."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 0)


def _show(line: int, place: _Place, said: str) -> str:
    name = ".".join(str(part) for part in place)
    return (f"line {line}: " if line else "") + (f"{name}: " if name else "") + said


_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def find_lines(text: str) -> dict[_Place, int]:
    """Return the line of each key and table of a TOML document that can be parsed."""
    found: dict[_Place, int] = {}
    counts: dict[_Place, int] = {}
    table: _Place = ()
    rows, number = text.splitlines(), 0
    while number < len(rows):
        row = rows[number]
        if header := _HEADER.fullmatch(row):
            table = _within(tuple(e.strip("\"'") for e in _PART.findall(header[2])), counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            found.setdefault(table, number + 1)
        elif key := _KEY.match(row):
            place = (*table, *(e.strip("\"'") for e in _PART.findall(key[1])))
            for length in range(len(table) + 1, len(place) + 1):
                found.setdefault(place[:length], number + 1)
            end = _find_end(rows, number)
            _find_elements(rows, number, end, place, found)
            number = end
        number += 1
    return found


def _within(table: tuple[str, ...], counts: Mapping[_Place, int]) -> _Place:
    """Return the place of a table inside the last element of a list of tables."""
    place: _Place = ()
    for position, part in enumerate(table):
        place = (*place, part)
        if position < len(table) - 1 and place in counts:
            place = (*place, counts[place])
    return place


def _find_end(rows: Sequence[str], start: int) -> int:
    """Return the last row of a value that may span several."""
    for end in range(start, len(rows)):
        try:
            tomllib.loads("\n".join(rows[start : end + 1]))
        except tomllib.TOMLDecodeError:
            continue
        return end
    return start


def _find_elements(
    rows: Sequence[str], start: int, end: int, place: _Place, found: dict[_Place, int]
) -> None:
    """Note the lines of the elements of a list that has one in each row."""
    inner = [number for number in range(start + 1, end) if rows[number].strip()]
    for position, number in enumerate(inner):
        found.setdefault((*place, position), number + 1)
