"""Pages of the site that are made of docstrings: a hook of MkDocs, see `mkdocs.yml`.

Python names, SQL procedures, commands and declarations of datasets are described where they are
written; the pages below `reference/` are made anew whenever the site is built.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src")]

MODULES = (
    "frazil", "frazil.xarray", "frazil.dask", "frazil.storage", "frazil.virtual", "frazil.spark",
    "frazil.spark.checks", "frazil.credentials", "frazil.errors", "frazil.datasets", "frazil.telemetry",
    "frazil.stac", "frazil.distributed", "frazil.maintenance.check", "frazil.testing",
    "frazil.testing.storage_contract", "frazil.testing.object_server",
)  # fmt: skip
_HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_FIELD = re.compile(r"^(\S.*)$\n((?:^(?: {4}.*)?\n?)+)", re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File  # noqa: PLC0415 (this file is also run without MkDocs)

    for name, text in make_pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Remove the mark of blocks that no test runs, which the site would show as text."""
    return markdown.replace("```python not-run", "```python")


def make_pages() -> dict[str, str]:
    """Return the text of every generated page, by its path."""
    pages = {f"reference/{module}.md": describe_module(module) for module in MODULES}
    pages["reference/commands.md"] = describe_commands()
    pages["reference/sql-procedures.md"] = describe_procedures()
    pages["reference/declaration.md"] = describe_declaration()
    return pages


def describe_module(name: str) -> str:
    """Describe all public names of a module."""
    module = import_module(name)
    parts = [f"# {name}", first_paragraph(module)]
    for each in sorted(list_names(module), key=str.lower):
        parts.append(describe(each, getattr(module, each)))
    return "\n\n".join(parts) + "\n"


def list_names(module: Any) -> set[str]:
    """Return the public names of a module, also those that it loads when they are first used."""
    late = " ".join(getattr(module, "_HOMES", {}).values()).split()
    return {each for each in (*module.__all__, *late) if not each.startswith("_")}


def describe(name: str, value: Any, level: int = 2) -> str:
    """Describe a function, a class with its methods, or a value."""
    marks = "#" * level
    if inspect.isclass(value):
        parts = [f"{marks} {name}", *code(signature(name, value)), docstring(value)]
        if level == 2 and not issubclass(value, BaseException):
            parts += [describe(each, member, 3) for each, member in members(value)]
        return "\n\n".join(filter(None, parts))
    if callable(value):
        return "\n\n".join([f"{marks} {name}", *code(signature(name, value)), docstring(value)])
    kind = type(value).__name__
    text = f"`{value!r}`" if isinstance(value, str | int) else f"A value of type `{kind}`."
    return f"{marks} {name}\n\n{text}"


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the documented public methods and properties that a class defines, without twins."""
    for name in sorted(vars(cls)):
        value = getattr(cls, name)
        function = value.fget if isinstance(value, property) else value
        is_public = not name.startswith("_") and not name.endswith("_async")
        if is_public and (inspect.isfunction(function) or inspect.ismethod(function)):
            yield name, function


def signature(name: str, value: Any) -> str:
    """Return how something is called."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    call = shorten(f"{name}{found}")
    if len(call) < 100:
        return call
    lines = []
    for each in found.parameters.values():
        if each.kind is each.KEYWORD_ONLY and "    *," not in lines:
            lines.append("    *,")
        lines.append(f"    {each},")
    result = "" if found.return_annotation is found.empty else call.rpartition(")")[2]
    return shorten("\n".join([f"{name}(", *lines, f"){result}"]))


def shorten(text: str) -> str:
    """Return a call without addresses of objects and names of modules."""
    text = re.sub(r"<[^<>]*? at 0x\w+>|<factory>", "…", text)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text).replace("'", "")


def code(text: str) -> list[str]:
    """Return a block of code."""
    return [f"```py\n{text}\n```"]


def first_paragraph(value: Any) -> str:
    """Return the first paragraph of a docstring."""
    return (inspect.getdoc(value) or "").partition("\n\n")[0]


def docstring(value: Any) -> str:
    """Turn a docstring in NumPy's style into Markdown."""
    text = (inspect.getdoc(value) or "").strip()
    head, *rest = _HEADING.split(text + "\n")
    parts = [escape(head.strip())]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        if title == "Examples":
            parts += ["**Examples**", *code(body.strip())]
        elif title in ("Parameters", "Attributes", "Raises", "Returns", "Yields"):
            parts += [f"**{title}**", fields(body)]
        else:
            parts += [f"**{title}**", escape(body.strip())]
    return "\n\n".join(filter(None, parts))


def fields(body: str) -> str:
    """Return the table of a section of names with descriptions."""
    found = _FIELD.findall(body.strip("\n") + "\n")
    rows = [f"| `{cell(name)}` | {cell(escape(' '.join(text.split())))} |" for name, text in found]
    return "\n".join(["| | |", "|---|---|", *rows]) if rows else escape(body.strip())


def cell(text: str) -> str:
    """Return text for a cell of a table."""
    return text.replace("|", "\\|")


def escape(text: str) -> str:
    """Return text without what Markdown would take for a tag or a link."""
    parts = text.split("`")
    parts[::2] = [each.replace("<", "&lt;").replace("[", "\\[") for each in parts[::2]]
    return "`".join(parts)


def describe_commands() -> str:
    """Describe every command by its help."""
    import click  # noqa: PLC0415

    from frazil.cli.app import COMMANDS, load_command, make_app  # noqa: PLC0415

    parts = ["# Commands", "Every command with its options; [how to use them](../cli.md)."]
    root = click.Context(make_app(), info_name="frazil", terminal_width=90)
    for heading, commands in COMMANDS.items():
        parts.append(f"## {heading}")
        for name, (module, summary) in commands.items():
            command = load_command(name, module, summary)
            group = isinstance(command, click.Group)
            below = command.commands if isinstance(command, click.Group) else {"": command}
            for verb, each in below.items():
                title = f"{name} {verb}".strip()
                within = click.Context(command, info_name=name, parent=root) if group else root
                context = click.Context(each, info_name=verb or name, parent=within)
                parts += [f"### frazil {title}", f"```text\n{each.get_help(context)}\n```"]
    return "\n\n".join(parts) + "\n"


def describe_procedures() -> str:
    """Describe the procedures of `CALL system.…` by the functions they call."""
    from frazil.spark.tables.statements import _PROCEDURES, IRREVERSIBLE  # noqa: PLC0415

    parts = [
        "# SQL procedures",
        "`CALL system.NAME(…)` runs maintenance in SQL; [more about SQL](../sql.md#procedures). "
        "Arguments are named or in this order. The terminal asks before a procedure that is marked "
        "*irreversible*.",
    ]
    for name, verb in _PROCEDURES.items():
        own = list(inspect.signature(verb).parameters.values())[1:]
        names = [each.name for each in own if each.name not in ("job", "spark")]
        mark = " (irreversible)" if name in IRREVERSIBLE else ""
        call = f"```sql\nCALL system.{name}({', '.join(names)})\n```"
        parts += [f"## {name}{mark}", call, docstring(verb)]
    return "\n\n".join(parts) + "\n"


def describe_declaration() -> str:
    """Describe the tables of `dataset.toml` by their classes."""
    from frazil.datasets import declaration  # noqa: PLC0415

    parts = ["# dataset.toml", "Every table of the declaration of a dataset, with its options."]
    for name, cls in vars(declaration).items():
        is_own = getattr(cls, "__module__", "") == declaration.__name__
        if is_own and hasattr(cls, "model_fields") and not name.startswith("_"):
            rows = [
                f"| `{each}` | {default_of(field)} |" for each, field in cls.model_fields.items()
            ]
            table = "\n".join(["| option | default |", "|---|---|", *rows])
            parts += [f"## {name}", docstring(cls), table]
    return "\n\n".join(parts) + "\n"


def default_of(field: Any) -> str:
    """Return the default of an option as text."""
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    return "–" if default in (None, {}, (), []) else f"`{cell(str(default))}`"
