"""Pages for those who keep a repository: storage, operations, health, jobs."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from frazil.display import show_bytes, to_plain
from frazil.web.answers import Health, Jobs, Operation, StoragePage, is_internal
from frazil.web.html import Html, card, facts, link, table, tag
from frazil.web.pages import (
    MOST_LISTED,
    Links,
    Page,
    first_line,
    headed,
    moment,
    plural,
    select,
    show_value,
)


def render_storage(ref: str, links: Links) -> Page:
    """Render the page of storage, which loads its figures: they need all manifests."""
    body = Html.join([headed([ref], "Storage"), links.part("stored", ref=ref)])
    return Page(f"Storage of {ref}", body, "storage")


def render_stored(answer: StoragePage, links: Links) -> Html:
    """Render the bytes by array and by commit, as a treemap and a table."""
    total = sum(each.total_bytes for each in answer.arrays)
    more = "" if all(each.is_complete for each in answer.arrays) else "at least "
    shown = [each for each in answer.arrays if not is_internal(each.path)]
    own = [each for each in answer.arrays if is_internal(each.path)]
    rows: list[tuple[object, ...]] = [
        (
            link(links.to("array", ref=answer.ref, path=each.path), each.path),
            f"{'' if each.is_complete else '≥ '}{each.chunks:,}",
            *map(_show_size, (each.native_bytes, each.inline_bytes, each.virtual_bytes)),
            _show_part(each.total_bytes, total),
        )
        for each in shown[:MOST_LISTED]
    ]
    if own:
        sizes = [(each.native_bytes, each.inline_bytes, each.virtual_bytes) for each in own]
        rows.append(
            (
                f"{plural(len(own), 'array')} of Frazil's own records",
                f"{sum(each.chunks for each in own):,}",
                *(_show_size(sum(column)) for column in zip(*sizes, strict=True)),
                _show_part(sum(map(sum, sizes)), total),
            )
        )
    arrays = [
        {
            "name": each.path.lstrip("/"),
            "bytes": each.total_bytes,
            "size": show_bytes(each.total_bytes),
            "href": links.to("array", ref=answer.ref, path=each.path),
        }
        for each in answer.arrays[:200]
    ]
    commits = [
        {
            "name": first_line(each.message),
            "bytes": size,
            "size": show_bytes(size),
            "href": links.to("commit", id=each.id),
        }
        for each, size in answer.commits[:200]
    ]
    items = json.dumps({"array": arrays, "commit": commits}, ensure_ascii=False)
    choice = select(
        "by",
        [("array", "by array"), ("commit", "by the commit that wrote it")],
        id="treemap-by",
        aria_label="Areas of the treemap",
    )
    columns = ("array", ">chunks", ">native", ">inline", ">virtual", ">share")
    size = f"{more}{show_bytes(total)} in this version; virtual chunks count too"
    return Html.join(
        [
            tag("p", size, class_="sub"),
            card(
                "Treemap",
                tag("div", class_="treemap", data_treemap=True, data_items=items),
                small=choice,
            ),
            tag("div", table(columns, rows, "Bytes by array"), class_="card"),
        ]
    )


_WORDS = re.compile(r"(?<=[a-z])[A-Z]|(?<=[A-Z])[A-Z](?=[a-z])")


def _show_size(size: int) -> str:
    return show_bytes(size) if size else "–"


def _show_part(size: int, total: int) -> str:
    part = size / total if total else 0
    return f"{part:.1%}" if part >= 0.001 or not part else "< 0.1%"


def render_operations(operations: Sequence[Operation]) -> Page:
    """Render the ops log."""
    rows = []
    for each in operations:
        plain = _WORDS.sub(r" \g<0>", each.operation).capitalize().replace("Gc", "GC")
        rows.append((moment(each.updated_at), plain, tag("code", each.details)))
    body = table(("when", "operation", "details"), rows, "Newest first")
    if not rows:
        body = tag("p", "This generation of the format keeps no log of operations.", class_="note")
    return Page(
        "Operations",
        Html.join(
            [
                headed([], "Operations", "every change of a branch, tag or setting"),
                tag("div", body, class_="card"),
            ]
        ),
        "operations",
    )


def render_health(answer: Health, links: Links) -> Page:
    """Render status, leases, garbage and the result of a check."""
    check = answer.check
    if check is not None:
        kind = "good" if check.is_healthy else "bad"
        text = (
            "Healthy: no problems were found."
            if check.is_healthy
            else (f"Damaged: {plural(len(check.errors), 'error')} were found.")
        )
        rows = [
            (each.severity.name.lower(), each.object, each.what) for each in check.problems[:500]
        ]
        counts = [
            (name.replace("_", " "), f"{n:,}") for name, n in to_plain(check.counts).items() if n
        ]
        result = Html.join(
            [
                tag("p", text, class_=f"alert {kind}"),
                facts(counts, "stats"),
                table(("severity", "object", "problem"), rows, "Problems") if rows else None,
            ]
        )
    else:
        target = links.to("health", check=1)
        result = Html.join(
            [
                tag(
                    "p",
                    "A check reads all metadata files of the repository, and no chunks.",
                    class_="note",
                ),
                tag("p", link(target, "Check now", class_="button")) if target else None,
            ]
        )
    garbage = None
    if answer.garbage is not None:
        size = show_bytes(answer.garbage["bytes"])
        garbage = f"{answer.garbage['objects']:,} objects, {size}, older than a day"
    leases = [
        (
            each.id[:12],
            each.job or "–",
            moment(each.begun_at),
            "running" if each.holds_at(answer.now) else "expired",
        )
        for each in answer.leases
    ]
    containers = [
        (
            tag("code", prefix),
            tag("span", "can be read" if ok else "not authorized", class_="good" if ok else "warn"),
        )
        for prefix, ok in answer.containers
    ]
    state = facts(
        [
            ("status", answer.status or "online"),
            ("reason", answer.reason),
            ("garbage", garbage or "counted by a check"),
            (
                "last collection",
                moment(answer.last_collection) if answer.last_collection else "none in the log",
            ),
            (
                "last expiration",
                moment(answer.last_expiration) if answer.last_expiration else "none in the log",
            ),
            ("protected", ", ".join(answer.protected) or None),
        ]
    )
    none = tag("p", "No job holds a lease.", class_="note")
    body = [
        tag(
            "div",
            card("Check", result),
            card(
                "Leases of jobs",
                table(("lease", "job", "begun", "state"), leases, "Leases") if leases else none,
            ),
            class_="stack",
        ),
        tag(
            "div",
            card("State", state),
            card(
                "Virtual chunk containers",
                table(("prefix", "access"), containers, "Containers"),
                tag(
                    "p",
                    "To read a container, start the command again with --authorize and its prefix, or"
                    " with --authorize '*'.",
                    class_="note",
                )
                if not all(ok for _, ok in answer.containers)
                else None,
            )
            if containers
            else None,
            class_="stack",
        ),
    ]
    return Page(
        "Health", Html.join([headed([], "Health"), tag("div", *body, class_="grid")]), "health"
    )


def render_jobs(answer: Jobs, links: Links) -> Page:
    """Render jobs, the ledger and quarantined files."""
    rows = [
        (
            link(links.to("commit", id=each.snapshot.id), first_line(each.snapshot.message)),
            moment(each.snapshot.written_at),
            show_value(each.metrics.get("job", "")),
            _number(each.metrics, "seconds"),
            _number(each.metrics, "tasks"),
            _number(each.metrics, "chunks"),
            show_bytes(each.metrics["bytes"]) if isinstance(each.metrics.get("bytes"), int) else "",
            show_value(each.metrics.get("ran_on", "")),
        )
        for each in answer.jobs
    ]
    columns = ("commit", "when", "job", ">seconds", ">tasks", ">chunks", ">bytes", "ran on")
    none = tag("p", "No commit of this version was made by a job.", class_="note")
    ledger = [
        (
            tag("code", each["source"]),
            each["group"] or "/",
            show_bytes(int(each["size"])),
            f"{each['start']:,} – {each['stop']:,}" if int(each["start"]) >= 0 else "",
            tag("code", str(each["job"])[:12]),
        )
        for each in answer.ledger
    ]
    quarantined = [
        (
            link(links.to("commit", id=each.id), first_line(each.message)),
            moment(each.written_at),
            f"{count:,}",
        )
        for each, count in answer.quarantined
    ]
    parts: list[object] = [card("Jobs", table(columns, rows, "Newest first") if rows else none)]
    if quarantined:
        parts.append(
            card(
                "Quarantined files",
                table(("commit", "when", ">files"), quarantined, "Ingests that left files out"),
                small="quality checks failed; the next ingest tries them again",
            )
        )
    if answer.ledger_problem:
        text = f"The ledger of ingested files can't be read: {answer.ledger_problem}"
        parts.append(tag("p", text, class_="alert"))
    if ledger:
        shown = (
            f"newest {len(ledger):,} of {answer.files:,}" if len(ledger) < answer.files else None
        )
        parts.append(
            card(
                "Ledger of ingested files",
                table(("file", "group", ">size", ">region", "job"), ledger, "Files"),
                small=" · ".join(
                    filter(
                        None, [plural(answer.files, "file"), show_bytes(answer.file_bytes), shown]
                    )
                ),
            )
        )
    files = "" if answer.ledger_problem else f" · {plural(answer.files, 'ingested file')}"
    sub = f"{plural(len(answer.jobs), 'job')}{files}"
    return Page(
        "Jobs",
        Html.join([headed([answer.ref], "Jobs", sub), tag("div", *parts, class_="stack")]),
        "jobs",
    )


def _number(metrics: Mapping[str, Any], name: str) -> str:
    found = metrics.get(name)
    return f"{found:,}" if isinstance(found, int | float) else ""
