"""Commands that make pages: serve and report."""

from pathlib import Path
from typing import Annotated

import typer

from frazil.cli.arguments import Authorize, Place, open_place, warn_of_refusals
from frazil.cli.output import Output
from frazil.errors import InvalidInputError, NotFoundError
from frazil.web.answers import open_ref
from frazil.web.report import render_report


def serve(
    url: Place,
    *,
    host: Annotated[str, typer.Option(help="The address to serve at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to serve at.", min=1, max=65535)] = 8080,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A host name to answer to; needed where --host lets other machines connect.",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="FRAZIL_SERVE_TOKEN",
            help="What browsers ask for as password, and programs send as bearer token.",
        ),
    ] = None,
    authorize: Authorize = None,
    output: Output,
) -> None:
    """Serve pages of a repository on this machine: history, arrays, pictures, changes, storage.

    Other machines can read them only if --host and --allowed-host say so. The connection is not
    encrypted. A token given in the environment, as FRAZIL_SERVE_TOKEN, is in no list of processes.

    Examples:
    frazil serve data/weather
    frazil serve data/weather --port 9000 --authorize '*'
    frazil serve data/weather --host 0.0.0.0 --allowed-host data.example.org
    """
    from frazil.web.guard import is_loopback  # noqa: PLC0415 (an extra)
    from frazil.web.serving import serve as run  # noqa: PLC0415 (an extra)

    repo = open_place(url, authorize)

    def tell(address: str) -> None:
        output.note(f"{address} shows {url}; Ctrl-C stops it")
        if not is_loopback(host):
            others = (
                "everybody who reaches it and has the token"
                if token
                else "everybody who reaches it"
            )
            advice = "" if token else "; --token asks for a token"
            output.warn(f"{host} is open to other machines, without encryption: {others} can read"
                        f" this repository{advice}")  # fmt: skip

    run(
        repo,
        url,
        host=host,
        port=port,
        allowed_hosts=allowed_host or (),
        token=token,
        on_start=tell,
    )


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
    repo = open_place(url, authorize)
    document = render_report(repo, url, ref)
    to.write_text(document, "utf-8")
    output.answer({"file": str(to), "bytes": len(document)}, f"{to} shows {url}")
    warn_of_refusals(open_ref(repo, ref), output)
