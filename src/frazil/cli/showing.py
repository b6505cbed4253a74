"""Commands that make pages: serve and report."""

from pathlib import Path
from typing import Annotated

import typer

from frazil.cli.arguments import Authorize, Place, open_place
from frazil.cli.output import Output
from frazil.errors import InvalidInputError, NotFoundError
from frazil.web.report import render_report


def serve(
    url: Place,
    *,
    host: Annotated[str, typer.Option(help="The address to serve at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to serve at.", min=1, max=65535)] = 8080,
    authorize: Authorize = None,
    output: Output,
) -> None:
    """Serve pages of a repository on this machine: history, arrays, pictures, changes, storage.

    Examples:
    frazil serve data/weather
    frazil serve data/weather --port 9000 --authorize '*'
    """
    from frazil.web.serving import serve as run  # noqa: PLC0415 (an extra)

    repo = open_place(url, authorize)
    output.note(f"http://{host}:{port}/ shows {url}; Ctrl-C stops it")
    run(repo, url, host=host, port=port)


def report(
    url: Place,
    *,
    to: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    ref: Annotated[str, typer.Option(help="The branch, tag or snapshot to show.")] = "main",
    authorize: Authorize = None,
    output: Output,
) -> None:
    """Write the pages of a repository to one HTML file, which needs no server.

    Examples:
    frazil report data/weather -o report.html
    """
    if to.is_dir():
        raise InvalidInputError(f"{to} is a folder: --output names a file")
    if not to.parent.is_dir():
        raise NotFoundError(f"there is no folder {to.parent} to write the report to")
    document = render_report(open_place(url, authorize), url, ref)
    to.write_text(document, "utf-8")
    output.answer({"file": str(to), "bytes": len(document)}, f"{to} shows {url}")
