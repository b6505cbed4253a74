"""The command that shows what all this is good for."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from frazil.cli.cluster import Cluster, load_spark
from frazil.cli.output import Output


def demo(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to; what is there is deleted.")
    ] = Path("demo-output"),
    *,
    output: Output,
) -> None:
    """Make an archive, ingest it on Spark, append, ask in SQL, compute, check, clean, and report.

    Examples:
    frazil demo
    frazil demo /tmp/demo
    """
    load_spark()
    from frazil.demo.tour import run_demo  # noqa: PLC0415 (needs the extras)

    console = Console(stderr=output.is_json, highlight=False)
    session = Cluster().session()
    try:
        run_demo(folder, console, session)
    finally:
        session.stop()
    if output.is_json:
        output.answer({"folder": str(folder), "report": str(folder / "report.html")})
