"""Commands that read: info, log, ops, tree, show, diff, inspect, top, serve, report, demo."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click
from click import shell_completion

from frazil.cli.command import (
    Authorize,
    Cluster,
    Place,
    Version,
    argument,
    find_snapshot,
    open_place,
    open_version,
    option,
    parse_moment,
    warn_of_refusals,
)
from frazil.cli.terminal import Lines, Output, clean, cut_advice, make_card, make_table
from frazil.display import show_bytes, to_plain
from frazil.errors import IcechunkError, InvalidInputError, NotFoundError, SetupError
from frazil.lazy import lazy_modules

if TYPE_CHECKING:
    from rich import console, live

    from frazil import ops as updates
    from frazil import snapshots as history
    from frazil.maintenance import leases
    from frazil.overview import contents
    from frazil.overview import nodes as listing
    from frazil.repository import inspect as files
    from frazil.repository.repository import Repository
    from frazil.repository.session import Session
    from frazil.web import answers
    from frazil.web import report as reports
else:
    console, live, updates, contents, leases, listing, files, history, answers, reports = (
        lazy_modules(
            "rich.console",
            "rich.live",
            "frazil.ops",
            "frazil.overview.contents",
            "frazil.maintenance.leases",
            "frazil.overview.nodes",
            "frazil.repository.inspect",
            "frazil.snapshots",
            "frazil.web.answers",
            "frazil.web.report",
        )
    )

Limit = Annotated[int | None, option("--limit", "-n", help="Maximum number of entries.", min=1)]
Path_ = Annotated[str, argument(metavar="[PATH]", help="A group or an array.")]
_OWN = "/_frazil"
"""Group of Frazil's own records, which is shown only if it is asked for."""


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
    since: Annotated[
        str | None,
        option(metavar="AGE", help="Only commits since then: 7d, 2026-01-31, or a time."),
    ] = None,
    oneline: Annotated[bool, option("--oneline", help="One line per commit.")] = False,
    graph: Annotated[
        bool, option("--graph", help="Draw lines to parents; one line per commit.")
    ] = False,
    everything: Annotated[
        bool,
        option("--all", help="Show all branches and tags, not only this version's ancestry."),
    ] = False,
    output: Output,
) -> None:
    """Show the history, newest first: id, branches and tags, author, date, message.

    The author is the entry `author` of the commit metadata.

    Examples
    --------
    frazil log data/weather
    frazil log data/weather@v1 --oneline --limit 20
    frazil log data/weather --graph --all --since 30d
    """
    repo, session, _ = open_version(url)
    branches = {name: repo.lookup_branch(name) for name in repo.list_branches()}
    tags = {name: repo.lookup_tag(name) for name in repo.list_tags()}
    starts = [session.snapshot_id] if not everything else [*branches.values(), *tags.values()]
    oldest = parse_moment(since, takes_days=True) if since is not None else None
    united = _unite(repo.ancestry(snapshot_id=start) for start in dict.fromkeys(starts))
    snapshots = [each for each in united if oldest is None or each.written_at >= oldest][:limit]
    found = [_describe(each) for each in snapshots]
    if graph:
        output.answer(found, Lines(_draw_history(snapshots, branches, tags)))
        return
    refs: dict[str, list[str]] = {}
    for name, id in [
        *sorted(branches.items()),
        *((f"tag: {each}", tags[each]) for each in sorted(tags)),
    ]:
        refs.setdefault(id, []).append(name)
    shown = {id: f" ({', '.join(names)})" for id, names in refs.items()}
    if oneline:
        lines = [
            f"\x1b[33m{each.id[:8]}\x1b[0m{shown.get(each.id, '')} {_spell_commit(each)}"
            for each in snapshots
        ]
        output.answer(found, Lines("\n".join(lines)))
    else:
        entries = [_describe_at_length(each, shown.get(each.id, "")) for each in snapshots]
        output.answer(found, "\n".join(entries).rstrip("\n"))


def _unite(histories: Iterable[Iterable[history.SnapshotInfo]]) -> list[history.SnapshotInfo]:
    found = {each.id: each for history in histories for each in history}
    return sorted(found.values(), key=lambda each: each.written_at, reverse=True)


def _describe(snapshot: history.SnapshotInfo) -> dict[str, Any]:
    return {**to_plain(snapshot), "author": _author_of(snapshot)}


def _author_of(snapshot: history.SnapshotInfo) -> str | None:
    found = snapshot.metadata.get("author")
    return found if isinstance(found, str) else None


def _draw_history(
    snapshots: Sequence[history.SnapshotInfo], branches: dict[str, str], tags: dict[str, str]
) -> str:
    dated = [
        history.SnapshotInfo(each.id, each.parent_id, each.written_at, _spell_commit(each))
        for each in snapshots
    ]
    return str(history.AncestryGraph(dated, branches=branches, tags=tags)).rstrip("\n")


def _spell_commit(snapshot: history.SnapshotInfo) -> str:
    """Return date, author and message in a line."""
    parts = (f"{snapshot.written_at:%F %H:%M}", _author_of(snapshot), _first_line(snapshot.message))
    return clean("  ".join(filter(None, parts)))


def _describe_at_length(snapshot: history.SnapshotInfo, refs: str) -> str:
    author = _author_of(snapshot)
    lines = [
        f"\x1b[33mcommit {snapshot.id}\x1b[0m{refs}",
        *([f"Author: {clean(author)}"] if author else []),
        f"Date:   {snapshot.written_at:%F %T} UTC",
        "",
        *(f"    {line}" for line in clean(snapshot.message).splitlines()),
        "",
    ]
    return "\n".join(lines)


def ops(url: Place, *, limit: Limit = None, output: Output) -> None:
    """List the operations on a repository, newest first.

    Examples
    --------
    frazil ops data/weather --limit 10
    """
    updates = list(islice(open_place(url).ops_log(), limit))
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
    level: Annotated[
        int | None, option("--level", "-L", min=1, help="Maximum depth to show.")
    ] = None,
    groups_only: Annotated[bool, option("--groups", "-d", help="Show groups only.")] = False,
    everything: Annotated[
        bool, option("--all", "-a", help="Also show Frazil's own group, _frazil.")
    ] = False,
    output: Output,
) -> None:
    """Draw groups and arrays, with types, shapes and dimensions.

    Examples
    --------
    frazil tree data/weather
    frazil tree data/weather@v1 forecasts -L 2
    """
    _, session, _ = open_version(url)
    root = "/" + path.strip("/")
    depth = root.rstrip("/").count("/")
    nodes = [
        node
        for node in _list_nodes(session, root, everything=everything)
        if (level is None or node.path.rstrip("/").count("/") - depth <= level)
        and not (groups_only and node.shape is not None)
    ]
    lines = [*_draw_tree(nodes, root), "", _count_nodes(nodes, root)]
    output.answer(nodes, Lines("\n".join(lines)))


def _list_nodes(session: Session, root: str, *, everything: bool) -> list[listing.NodeEntry]:
    asked = everything or f"{root}/".startswith(f"{_OWN}/")
    return [
        node
        for node in listing.list_nodes(session, root)
        if asked or not f"{node.path}/".startswith(f"{_OWN}/")
    ]


def _draw_tree(nodes: Sequence[listing.NodeEntry], root: str) -> Iterator[str]:
    below: dict[str, list[listing.NodeEntry]] = {}
    for node in nodes:
        if node.path != root:
            below.setdefault(node.path.rpartition("/")[0] or "/", []).append(node)

    def draw(path: str, indent: str) -> Iterator[str]:
        for node in below.get(path, ()):
            is_last = node is below[path][-1]
            yield f"{indent}{'└── ' if is_last else '├── '}{_describe_node(node)}"
            yield from draw(node.path, indent + ("    " if is_last else "│   "))

    yield f"\x1b[1m{clean(root)}\x1b[0m"
    yield from draw(root, "")


def _describe_node(node: listing.NodeEntry) -> str:
    name = clean(node.path.rpartition("/")[2])
    if node.shape is None:
        return f"\x1b[1m{name}\x1b[0m"
    return f"\x1b[36m{name}\x1b[0m  {clean(node.dtype or '')}  {_describe_shape(node)}"


def _describe_shape(node: listing.NodeEntry) -> str:
    sizes = " × ".join(map(str, node.shape or ())) or "scalar"
    return sizes + (clean(f" ({', '.join(map(str, node.dims))})") if node.dims else "")


def _count_nodes(nodes: Sequence[listing.NodeEntry], root: str) -> str:
    arrays = sum(node.shape is not None for node in nodes)
    groups = sum(node.shape is None and node.path != root for node in nodes)
    return f"{_count(groups, 'group')}, {_count(arrays, 'array')}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def show(url: Version, path: Path_ = "/", *, authorize: Authorize = None, output: Output) -> None:
    """Show a repository, a group or an array.

    Of an array: metadata, chunks by kind, a summary of its values. Of a group, by default the root:
    attributes and arrays, below the version that is shown.

    Examples
    --------
    frazil show data/weather
    frazil show data/weather t2m
    frazil show data/weather@v1 t2m --authorize '*'
    """
    repo, session, _ = open_version(url, authorize)
    root = "/" + path.strip("/")
    nodes = _list_nodes(session, root, everything=False)
    if nodes and nodes[0].path == root and nodes[0].shape is not None:
        found = contents.describe_array(session, root)
        table = make_table(("attribute", "value"), found.attributes.items())
        output.answer(found, make_card(_card(found)), *(["", table] if found.attributes else []))
        warn_of_refusals(session, output)
        return
    snapshot = repo.lookup_snapshot(str(session.snapshot_id))
    listed = [node for node in nodes if node.shape is not None]
    attributes = _attributes_of(session, root) if nodes else {}
    described = {
        "url": url, "path": root, "snapshot": _describe(snapshot),
        "attributes": attributes, "arrays": listed,
    }  # fmt: skip
    card = [
        ("repository", url),
        ("group", root if root != "/" else None),
        ("version", f"{snapshot.id}  {snapshot.written_at:%F %T}  {snapshot.message}"),
        ("author", _author_of(snapshot)),
        ("holds", _count_nodes(nodes, root)),
    ]
    rows = [(each.path.removeprefix(root).strip("/"), each.dtype, _describe_shape(each),
             _attributes_of(session, each.path).get("units") or "") for each in listed]  # fmt: skip
    output.answer(
        described,
        make_card([*card, *((name, value) for name, value in attributes.items())]),
        *(["", make_table(("array", "type", "shape", "units"), rows)] if rows else []),
    )


def _attributes_of(session: Session, path: str) -> dict[str, Any]:
    metadata = listing.read_metadata(session.state.view.get_node(path))
    return dict(metadata.get("attributes") or {})


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
        ("unreadable", array.unreadable and cut_advice(array.unreadable)),
    ]


def diff(
    url: Place,
    old: Annotated[str, argument(metavar="FROM", help="A branch, a tag or a snapshot.")],
    new: Annotated[str, argument(metavar="TO", help="Another one, older or newer.")],
    *,
    output: Output,
) -> None:
    """Show the changes between two versions: nodes, and chunks with their coordinates.

    The order matters as in `diff`: what only TO has is created, what only FROM has is deleted.

    Examples
    --------
    frazil diff data/weather v1 main
    frazil diff data/weather main v1
    """
    repo = open_place(url)
    ids = [find_snapshot(repo, each) for each in (old, new)]
    found = contents.find_changes(repo, *ids)
    sessions = [repo.readonly_session(snapshot_id=id) for id in reversed(ids)]
    regions = {
        path: _find_region(sessions, path, chunks)
        for path, chunks in sorted(found.chunk_coordinates.items())
        if not f"{path}/".startswith(f"{_OWN}/")
    }
    plain = {
        "new_groups": found.new_groups,
        "new_arrays": found.new_arrays,
        "deleted_groups": found.deleted_groups,
        "deleted_arrays": found.deleted_arrays,
        "updated_groups": found.updated_groups,
        "updated_arrays": found.updated_arrays,
        "updated_chunks": found.chunk_coordinates,
        "updated_regions": regions,
        "moved_nodes": found.moved_nodes,
    }
    rows = [
        (path, len(found.chunk_coordinates[path]), *_spell_region(region))
        for path, region in regions.items()
    ]
    table = make_table(("array", ">chunks", "dimension", "indices", "coordinates"), rows)
    output.answer(plain, *_list_changes(found), *([table] if rows else []))


def _list_changes(found: history.Diff) -> list[str]:
    """Return a line per node that is created, deleted, changed or moved; `No changes` without any."""
    signs = (
        ("+", found.new_groups | found.new_arrays, "created"),
        ("-", found.deleted_groups | found.deleted_arrays, "deleted"),
        ("~", found.updated_groups | found.updated_arrays, "metadata changed"),
    )
    lines, own = [], 0
    for sign, paths, word in signs:
        shown = [path for path in sorted(paths) if not f"{path}/".startswith(f"{_OWN}/")]
        own += len(paths) - len(shown)
        lines += [f"{sign} {clean(path)}  {word}" for path in shown]
    if own:
        lines.append(f"~ {_OWN}  {own} of Frazil's own records changed; --json lists them")
    lines += [f"> {clean(old)}  moved to {clean(new)}" for old, new in found.moved_nodes]
    return lines if lines or found.chunk_coordinates else ["No changes"]


def _find_region(
    sessions: Sequence[Session], path: str, chunks: Any
) -> list[dict[str, Any]] | None:
    """Return the smallest region of an array that holds some chunks, or None if it can't be said."""
    session = next((each for each in sessions if each.state.view.find_node(path)), None)
    if session is None or not len(chunks):
        return None
    array = contents.describe_array(session, path, reads_values=False, most_manifests=0)
    if array.chunk_shape is None:
        return None
    names = array.dims or (None,) * len(array.shape)
    region = []
    for axis, (name, length, size) in enumerate(
        zip(names, array.shape, array.chunk_shape, strict=True)
    ):
        first = int(chunks[:, axis].min()) * size
        stop = min(int(chunks[:, axis].max() + 1) * size, length)
        start_at, stop_at = _read_coordinates(session, array.path, name, first, stop - 1)
        region.append(
            {"dimension": name, "start": first, "stop": stop, "from": start_at, "to": stop_at}
        )
    return region


def _read_coordinates(
    session: Session, path: str, name: str | None, first: int, last: int
) -> tuple[str | None, str | None]:
    """Return two coordinates along a dimension as text; None if they can't be read."""
    group = path.rpartition("/")[0]
    node = session.state.view.find_node(f"{group}/{name}") if name else None
    if node is None or node.array is None or len(node.array.shape) != 1 or last < first:
        return None, None
    try:
        start, end = contents.spell_values(session, node.path, (first, last))
    except (ValueError, OSError, NotImplementedError, IcechunkError):
        return None, None
    return start, end


def _spell_region(region: list[dict[str, Any]] | None) -> tuple[str, str, str]:
    if region is None:
        return "", "", ""
    names = [str(each["dimension"] or f"axis {axis}") for axis, each in enumerate(region)]
    spans = [f"{each['start']}:{each['stop']}" for each in region]
    ends = ["" if each["from"] is None else f"{each['from']} … {each['to']}" for each in region]
    return "\n".join(names), "\n".join(spans), "\n".join(ends)


def inspect(
    file: Annotated[str, argument(metavar="FILE", help="A metadata file of any generation.")],
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


_RECENT = 10


def top(
    url: Place,
    *,
    every: Annotated[
        float, option(metavar="SECONDS", min=0.5, help="Seconds between updates.")
    ] = 2.0,
    once: Annotated[bool, option("--once", help="Show it once.")] = False,
    output: Output,
) -> None:
    """Watch a repository: running jobs with their leases, and the newest commits; Ctrl-C ends.

    Without a terminal, and with --json, it is shown once.

    Examples
    --------
    frazil top data/weather
    frazil top data/weather --once --json
    """
    repo = open_place(url)
    if once or output.is_json or not output.is_terminal:
        output.answer(*_watch(repo, url))
        return
    with live.Live(console=console.Console(highlight=False), screen=True) as screen:
        try:
            while True:
                screen.update(console.Group(*_watch(repo, url)[1:]))
                time.sleep(every)
        except KeyboardInterrupt:
            return


def _watch(repo: Repository, url: str) -> tuple[Any, ...]:
    """Return the state of a repository, and what shows it to people."""
    now = datetime.now(UTC)
    jobs = [each for each in leases.list_leases(repo.storage) if each.job]
    tips = [repo.lookup_branch(name) for name in repo.list_branches()]
    # The newest of all branches are among the newest of each.
    newest = _unite(islice(repo.ancestry(snapshot_id=tip), _RECENT) for tip in dict.fromkeys(tips))
    running = [each for each in jobs if each.holds_at(now)]
    state = {
        "url": url,
        "at": now,
        "jobs": [
            {"id": each.id, "job": each.job, "begun_at": each.begun_at,
             "expires_at": each.expires_at, "is_running": each.holds_at(now)}
            for each in jobs
        ],
        "commits": [_describe(each) for each in newest[:_RECENT]],
    }  # fmt: skip
    title = f"{url}  {now:%F %T} UTC  {_count(len(running), 'running job')}"
    rows = [
        (each.job, each.id[:8], _spell_age(now - each.begun_at),
         f"{each.expires_at:%T}" if each.holds_at(now) else "expired")
        for each in jobs
    ]  # fmt: skip
    commits = [
        (each.id[:8], f"{each.written_at:%F %T}", _author_of(each) or "", _first_line(each.message))
        for each in newest[:_RECENT]
    ]
    parts = [make_table(("job", "id", ">runs for", "lease until"), rows)] if rows else []
    return (state, Lines(clean(title)), "", *parts, *([""] if parts else []),
            make_table(("commit", "date", "author", "message"), commits))  # fmt: skip


def _spell_age(age: Any) -> str:
    seconds = max(0, int(age.total_seconds()))
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _first_line(message: str) -> str:
    return message.partition("\n")[0]


def serve(
    url: Place,
    *,
    host: Annotated[str, option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, option(help="Port to listen on; 0 for any free one.", min=0, max=65535)
    ] = 8080,
    allowed_host: Annotated[
        list[str] | None,
        option(
            metavar="NAME",
            help="Host name that clients use; required if --host lets other machines connect.",
        ),
    ] = None,
    token: Annotated[
        str | None,
        option(
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
    to: Annotated[Path, option("--output", "-o", help="The file to write.")],
    ref: Annotated[str, option(help="The branch, tag or snapshot to show.")] = "main",
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
    document = reports.render_report(repo, url, ref)
    to.write_text(document, "utf-8")
    output.answer({"file": str(to), "bytes": len(document)}, f"{to} shows {url}")
    warn_of_refusals(answers.open_ref(repo, ref), output)


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], argument(metavar="SHELL", help="bash, zsh or fish.")
    ],
    *,
    output: Output,
) -> None:
    """Print the script that completes commands and options of `frazil` in a shell.

    Examples
    --------
    eval "$(frazil completion bash)"
    """
    script = shell_completion.get_completion_class(shell)
    assert script is not None
    source = script(click.Command("frazil"), {}, "frazil", "_FRAZIL_COMPLETE").source()
    output.answer({"shell": shell, "script": source}, source)


_DEMO = ("pyspark", "pyarrow", "pandas", "sqlglot", "xarray", "h5netcdf", "h5py")


def demo(
    folder: Annotated[
        Path, argument(metavar="FOLDER", help="Target folder, which is emptied first.")
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
    missing = [each for each in _DEMO if find_spec(each) is None]
    if missing:
        raise SetupError(f"the demo needs {', '.join(missing)}: pip install 'frazil[demo]'")
    from frazil.cli.demo import run_demo  # noqa: PLC0415 (needs the extras)

    shown = console.Console(stderr=output.is_json, highlight=False)
    session = Cluster(output).session()
    try:
        run_demo(folder, shown, session)
    finally:
        session.stop()
    if output.is_json:
        output.answer({"folder": str(folder), "report": str(folder / "report.html")})
