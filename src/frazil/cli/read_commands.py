"""Commands that read: info, log, ops, tree, show, diff, inspect, serve, report, demo."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from frazil.cli.command import (
    Authorize,
    Cluster,
    Place,
    Version,
    find_snapshot,
    load_spark,
    open_place,
    open_version,
    warn_of_refusals,
)
from frazil.cli.terminal import Output, clean, make_card, make_table
from frazil.display import show_bytes, to_plain
from frazil.errors import InvalidInputError, NotFoundError
from frazil.lazy import lazy_modules

if TYPE_CHECKING:
    from frazil import ops as updates
    from frazil import snapshots as history
    from frazil.overview import contents, preview
    from frazil.repository import inspect as files
    from frazil.web import pages
else:
    updates, contents, preview, files, history, pages = lazy_modules(
        "frazil.ops",
        "frazil.overview.contents",
        "frazil.overview.preview",
        "frazil.repository.inspect",
        "frazil.snapshots",
        "frazil.web.pages",
    )

Limit = Annotated[
    int | None, typer.Option("--limit", "-n", help="Maximum number of entries.", min=1)
]
Path_ = Annotated[str, typer.Argument(metavar="PATH", help="A group or an array.")]


def info(url: Place, *, output: Output) -> None:
    """Show a repository: generation, branches, tags, status, containers.

    Examples
    --------
    frazil info data/weather
    frazil info "s3://bucket/weather?region=eu-central-1" --json
    """
    repo = open_place(url)
    branches = {name: repo.lookup_branch(name) for name in sorted(repo.list_branches())}
    tags = {name: repo.lookup_tag(name) for name in sorted(repo.list_tags())}
    tip = next(iter(repo.ancestry(branch="main")), None)
    containers = sorted(repo.config.virtual_chunk_containers or {})
    # Older generations have no place for it: every writer of the storage may commit.
    is_newest = repo.spec_version is updates.SpecVersion.v2
    status = repo.status.availability.name if is_newest else None
    found = {
        "url": url,
        "generation": repo.dialect.value,
        "branches": branches,
        "tags": tags,
        "status": status,
        "last_commit": tip,
        "virtual_chunk_containers": containers,
    }
    output.answer(
        found,
        make_card(
            [
                ("repository", url),
                ("generation", repo.dialect.value),
                ("branches", ", ".join(branches)),
                ("tags", ", ".join(tags) or None),
                ("status", status),
                ("last commit", tip and f"{tip.id}  {tip.written_at:%F %T}  {tip.message}"),
                ("containers", "\n".join(containers) or None),
            ]
        ),
    )


def log(
    url: Version,
    *,
    limit: Limit = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Show all branches and tags, not only this version's ancestry."),
    ] = False,
    output: Output,
) -> None:
    """Draw the history, newest first, with its branches and tags.

    Examples
    --------
    frazil log data/weather
    frazil log data/weather@v1 --limit 20
    frazil log data/weather --all
    """
    repo, session, _ = open_version(url)
    branches = {name: repo.lookup_branch(name) for name in repo.list_branches()}
    tags = {name: repo.lookup_tag(name) for name in repo.list_tags()}
    starts = [session.snapshot_id] if not everything else [*branches.values(), *tags.values()]
    found = _unite(repo.ancestry(snapshot_id=start) for start in dict.fromkeys(starts))
    snapshots = found[:limit]
    graph = history.AncestryGraph(snapshots, branches=branches, tags=tags)
    output.answer(snapshots, str(graph))


def _unite(histories: Iterable[Iterable[history.SnapshotInfo]]) -> list[history.SnapshotInfo]:
    found = {each.id: each for history in histories for each in history}
    return sorted(found.values(), key=lambda each: each.written_at, reverse=True)


def ops(url: Place, *, limit: Limit = None, output: Output) -> None:
    """List what was done to a repository, newest first.

    Examples
    --------
    frazil ops data/weather --limit 10
    """
    updates = [
        each for _, each in zip(range(limit or 10**9), open_place(url).ops_log(), strict=False)
    ]
    rows = [(f"{each.updated_at:%F %T}", _name(each), _details(each)) for each in updates]
    found = [
        {"updated_at": each.updated_at, "operation": _name(each), **_plain_details(each)}
        for each in updates
    ]
    output.answer(found, make_table(("when", "operation", "details"), rows))


def _name(update: updates.Update) -> str:
    return type(update.kind).__name__


def _plain_details(update: updates.Update) -> dict[str, Any]:
    kind: Any = update.kind
    return {each.name: to_plain(getattr(kind, each.name)) for each in fields(kind)}


def _details(update: updates.Update) -> str:
    return ", ".join(f"{name}={value}" for name, value in _plain_details(update).items())


def tree(
    url: Version,
    path: Path_ = "/",
    *,
    output: Output,
) -> None:
    """Draw groups and arrays.

    Examples
    --------
    frazil tree data/weather
    frazil tree data/weather@v1 forecasts/ensemble
    """
    _, session, _ = open_version(url)
    nodes = preview.list_nodes(session, path)
    output.answer(nodes, _draw(nodes, path))


def _draw(nodes: list[preview.NodeEntry], root: str) -> Tree:
    top = Tree(Text("/" + root.strip("/"), "bold"), guide_style="dim")
    branches = {"/" + root.strip("/"): top}
    for node in nodes:
        parent = branches.get(node.path.rpartition("/")[0] or "/", top)
        if node.path in branches:
            continue
        name = Text(clean(node.path.rpartition("/")[2]), "bold" if node.shape is None else "cyan")
        if node.shape is not None:
            sizes = " × ".join(map(str, node.shape)) or "scalar"
            dims = f" ({', '.join(map(str, node.dims))})" if node.dims else ""
            name = Text.assemble(name, f"  {clean(node.dtype or '')}  {sizes}{clean(dims)}")
        branches[node.path] = parent.add(name)
    return top


def show(url: Version, path: Path_, *, authorize: Authorize = None, output: Output) -> None:
    """Show an array or group: metadata, chunks by kind, a summary of its values.

    Examples
    --------
    frazil show data/weather t2m
    frazil show data/weather@v1 t2m --authorize '*'
    """
    _, session, _ = open_version(url, authorize)
    found = contents.describe_array(session, path)
    attributes = make_table(("attribute", "value"), found.attributes.items())
    output.answer(found, make_card(_card(found)), *([attributes] if found.attributes else []))
    warn_of_refusals(session, output)


def _card(array: contents.ArrayOverview) -> list[tuple[str, object]]:
    return [
        ("array", array.path),
        ("shape", " × ".join(map(str, array.shape)) or "scalar"),
        ("dimensions", ", ".join(map(str, array.dims)) or None),
        ("type", array.dtype),
        ("chunks", " × ".join(map(str, array.chunk_shape or ())) or None),
        ("codecs", ", ".join(array.codecs)),
        ("fill value", array.fill_value),
        ("references", array.describe_references()),
        ("stored", show_bytes(array.size_bytes)),
        ("manifests", array.manifests),
        ("values", array.values),
        ("unreadable", array.unreadable),
    ]


def diff(
    url: Place,
    old: Annotated[str, typer.Argument(metavar="FROM", help="A branch, a tag or a snapshot.")],
    new: Annotated[str, typer.Argument(metavar="TO", help="A later branch, tag or snapshot.")],
    *,
    output: Output,
) -> None:
    """Show the changes between two versions: nodes and chunks.

    Examples
    --------
    frazil diff data/weather v1 main
    """
    repo = open_place(url)
    found = contents.find_changes(repo, find_snapshot(repo, old), find_snapshot(repo, new))
    plain = {
        "new_groups": found.new_groups,
        "new_arrays": found.new_arrays,
        "deleted_groups": found.deleted_groups,
        "deleted_arrays": found.deleted_arrays,
        "updated_groups": found.updated_groups,
        "updated_arrays": found.updated_arrays,
        "updated_chunks": found.chunk_coordinates,
        "moved_nodes": found.moved_nodes,
    }
    output.answer(plain, clean(str(found)).rstrip())


def inspect(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A metadata file of any generation.")],
    *,
    output: Output,
) -> None:
    """Decode a single metadata file, with its header, as JSON.

    Examples
    --------
    frazil inspect data/weather/repo
    frazil inspect data/weather/snapshots/VY76P925PRY57WFEK410
    """
    path = Path(file)
    if not path.is_file():  # nor a pipe, from which nothing may ever come
        what = "is not a regular file" if path.exists() else "does not exist"
        raise NotFoundError(f"{file} {what}: name a metadata file of a repository")
    output.as_json().answer(files.describe_file(path.read_bytes(), path.as_posix()))


def serve(
    url: Place,
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8080,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Host name that clients use; required if --host lets other machines connect.",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="FRAZIL_SERVE_TOKEN",
            help="Password for browsers, and bearer token for programs.",
        ),
    ] = None,
    authorize: Authorize = None,
    output: Output,
) -> None:
    """Serve pages of a repository on this machine: history, arrays, pictures, changes, storage.

    Other machines can read them only if --host and --allowed-host say so. The connection is not
    encrypted. A token given in the environment, as FRAZIL_SERVE_TOKEN, is in no list of processes.

    Examples
    --------
    frazil serve data/weather
    frazil serve data/weather --port 9000 --authorize '*'
    frazil serve data/weather --host 0.0.0.0 --allowed-host data.example.org
    """
    from frazil.web.web_app import is_loopback  # noqa: PLC0415 (an extra)
    from frazil.web.web_app import serve as run  # noqa: PLC0415 (an extra)

    repo = open_place(url, authorize)

    def report(address: str) -> None:
        output.note(f"{address} shows {url}; Ctrl-C stops it")
        if not is_loopback(host):
            others = (
                "everybody who reaches it and has the token"
                if token
                else "everybody who reaches it"
            )
            advice = "" if token else "; --token requires a token"
            output.warn(f"{host} is open to other machines, without encryption: {others} can read"
                        f" this repository{advice}")  # fmt: skip

    run(
        repo,
        url,
        host=host,
        port=port,
        allowed_hosts=allowed_host or (),
        token=token,
        on_start=report,
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

    Examples
    --------
    frazil report data/weather -o report.html
    """
    if to.is_dir():
        raise InvalidInputError(f"{to} is a folder: --output names a file")
    if not to.parent.is_dir():
        raise NotFoundError(f"there is no folder {to.parent} to write the report to")
    repo = open_place(url, authorize)
    document = pages.render_report(repo, url, ref)
    to.write_text(document, "utf-8")
    output.answer({"file": str(to), "bytes": len(document)}, f"{to} shows {url}")
    warn_of_refusals(pages.open_ref(repo, ref), output)


def demo(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Target folder, which is emptied first.")
    ] = Path("demo-output"),
    *,
    output: Output,
) -> None:
    """Make an archive, ingest it on Spark, append, ask in SQL, compute, check, clean, and report.

    Examples
    --------
    frazil demo
    frazil demo /tmp/demo
    """
    load_spark()
    from frazil.cli.demo import run_demo  # noqa: PLC0415 (needs the extras)

    console = Console(stderr=output.is_json, highlight=False)
    session = Cluster().session()
    try:
        run_demo(folder, console, session)
    finally:
        session.stop()
    if output.is_json:
        output.answer({"folder": str(folder), "report": str(folder / "report.html")})
