"""The page of an array: map, series, histogram, chunks, code that reads it."""

import base64
import binascii
import json
import re
import struct
from collections.abc import Mapping, Sequence
from shlex import quote as quote_shell
from typing import Any
from urllib.parse import quote

from frazil.display import show_bytes
from frazil.overview.contents import Coverage
from frazil.overview.nodes import Axis
from frazil.web.answers import ArrayPage, RefEntry
from frazil.web.html import Html, address, card, facts, link, table, tag
from frazil.web.pages import (
    MOST_AXES,
    Links,
    Page,
    chips,
    describe_area,
    describe_time,
    headed,
    list_attributes,
    select,
    show_shape,
    show_value,
)


def render_array(answer: ArrayPage, links: Links, refs: Sequence[RefEntry], url: str) -> Page:
    """Render an array: map, series, chunks, code."""
    array = answer.array
    name = array.path.rpartition("/")[2]
    attributes = array.attributes
    long_name = attributes.get("long_name") or attributes.get("standard_name")
    parents = array.path.strip("/").split("/")[:-1]
    groups = [
        link(links.to("data", ref=answer.ref, q=f"/{'/'.join(parents[: n + 1])}/"), parent)
        for n, parent in enumerate(parents)
    ]
    crumbs = [link(links.to("data", ref=answer.ref), answer.ref), *groups]
    title = Html.join([name, tag("small", f" {long_name}") if isinstance(long_name, str) else None])
    named = zip(array.shape, [each.name for each in answer.axes], strict=True)
    sizes: list[object] = []
    for length, dim in named:
        sizes += [" × " if sizes else None, tag("b", f"{length:,}"), f" {dim}"]
    if len(array.shape) > MOST_AXES:
        sizes = [show_shape(array.shape)]
    counts = ", ".join(f"{n:,} {kind}" for kind, n in array.chunks.items() if n and kind != "grid")
    row = chips(
        [
            Html.join(sizes) or "scalar",
            _describe_type(answer),
            f"chunks {show_shape(array.chunk_shape)}" if array.chunk_shape else None,
            _describe_codecs(answer),
            counts or "no chunks written",
            f"CRS {answer.crs}" if answer.crs else None,
        ]
    )
    shown = len(answer.shown)
    others = [each for each in answer.axes if each.name not in answer.shown]
    if shown == 2:
        first, second = _map_card(answer, others, links), _point_cards(others)
    elif shown == 1:
        source = address("slice.json", ref=answer.ref, path=array.path)
        line = tag(
            "div",
            tag(
                "canvas",
                class_="plot",
                data_height=240,
                role="img",
                aria_label=f"Line plot of {array.path}",
            ),
            tag("p", data_role="note", class_="note"),
            data_line=source,
        )
        first = card("Values", line, class_="card first")
        second = card("Histogram", _histogram(), class_="card second")
    else:
        first = card(
            "Values", links.part("values", ref=answer.ref, path=array.path), class_="card first"
        )
        second = None
    code = card("Use it", render_code(answer, url), class_="card fifth")
    compare = _compare_card(answer, others, refs, links) if shown == 2 else None
    cards: list[object] = [
        tag("div", first, _chunk_card(answer), compare, class_="stack"),
        tag("div", second, code, class_="stack"),
    ]
    listed = facts(
        [
            ("type", array.dtype),
            ("codecs", ", ".join(array.codecs)),
            ("fill value", show_value(array.fill_value)),
            ("stored", show_bytes(array.size_bytes)),
            ("manifests", f"{array.manifests:,}"),
            ("references", array.describe_references()),
            *list_attributes(_decode_fill_value(attributes, array.dtype)),
        ]
    )
    cards.append(card("Metadata", listed, class_="card wide"))
    return Page(
        array.path,
        Html.join(
            [
                headed(crumbs, title, links.part("extent", ref=answer.ref, path=array.path)),
                row,
                tag("div", *cards, class_="grid looks"),
            ]
        ),
        "data",
        array.path,
    )


def _decode_fill_value(attributes: Mapping[str, Any], dtype: str) -> Mapping[str, Any]:
    """Return attributes with `_FillValue` as a number, which xarray spells in base64 for floats."""
    spelled = attributes.get("_FillValue")
    if not (isinstance(spelled, str) and dtype.startswith("float")):
        return attributes
    try:
        (value,) = struct.unpack("<d", base64.b64decode(spelled, validate=True))
    except (binascii.Error, struct.error):
        return attributes
    return {**attributes, "_FillValue": str(value)}


def _describe_type(answer: ArrayPage) -> str:
    array, attributes = answer.array, answer.array.attributes
    units = attributes.get("units")
    packed = "packed " if "scale_factor" in attributes or "add_offset" in attributes else ""
    known = f"{units}, " if isinstance(units, str) and units != "1" else ""
    return f"{known}{packed}{array.dtype}"


def _describe_codecs(answer: ArrayPage) -> str | None:
    array = answer.array
    names = [each.rpartition(".")[2] for each in array.codecs if each not in ("bytes", "transpose")]
    written = sum(n for kind, n in array.chunks.items() if kind != "grid")
    ratio = ""
    if answer.item_bytes and array.chunk_shape and array.size_bytes:
        whole = answer.item_bytes * written
        for each in array.chunk_shape:
            whole *= each
        ratio = f"{whole / array.size_bytes:.1f} ×"
    return " · ".join(filter(None, [" + ".join(names), ratio])) or None


def render_extent(found: Coverage) -> Html:
    """Render times and area of an array in a line."""
    words = [*map(describe_time, found.times), *map(describe_area, found.areas)]
    return Html.join([" · ".join(words) or "no coordinates of time or place"])


def _histogram() -> Html:
    names = ("min", "max", "mean", "missing")
    stats = tag(
        "dl",
        *(tag("div", tag("dt", each), tag("dd", "–", data_role=each)) for each in names),
        class_="stats",
        data_role="stats",
    )
    return Html.join(
        [
            tag(
                "canvas",
                class_="plot",
                data_role="histogram",
                role="img",
                aria_label="Histogram of the values",
            ),
            stats,
        ]
    )


def _point_cards(others: Sequence[Axis]) -> Html:
    along = next((each for each in others if each.kind == "time"), others[0] if others else None)
    series = None
    if along is not None and along.length > 1:
        series = tag(
            "section",
            tag(
                "h2", tag("span", "Series", data_role="title"), tag("small", f"along {along.name}")
            ),
            tag(
                "canvas",
                class_="plot",
                role="img",
                aria_label=f"Series along {along.name} at the chosen point",
            ),
            tag("p", data_role="note", class_="note"),
            class_="card",
            data_role="series",
            data_axis=along.name,
        )
    return Html.join([series, card("This slice", _histogram(), class_="card second")])


_PALETTES = ("viridis", "cividis", "magma", "diverging")


def _map_card(answer: ArrayPage, others: Sequence[Axis], links: Links) -> Html:
    path = answer.array.path
    frames = links.frames(path)
    sliders = [
        tag(
            "div",
            tag("button", "▶ Play", type="button", aria_label=f"Play along {each.name}"),
            tag("label", each.name, for_=f"at-{each.number}"),
            tag(
                "input",
                type="range",
                id=f"at-{each.number}",
                min=0,
                max=each.length - 1,
                value=each.length // 2,
            ),
            tag("output", f"#{each.length // 2}", for_=f"at-{each.number}"),
            class_="slider",
            data_axis=each.name,
        )
        for each in others
    ]
    pairs = [(each.name, each.name) for each in answer.axes]
    choice = []
    if len(pairs) > 2 and frames is None:
        choice = [
            tag("label", f"{word} ", select(word, pairs, name, data_role="axis"))
            for word, name in zip(("rows", "columns"), answer.shown, strict=True)
        ]
    controls = tag(
        "div",
        tag(
            "label",
            "colours ",
            select("palette", [(each, each) for each in _PALETTES], data_role="palette"),
        ),
        tag(
            "label",
            "range ",
            select(
                "limits",
                [("robust", "robust 2–98 %"), ("full", "full"), ("slice", "robust, each slice")],
                data_role="limits",
            ),
        ),
        *choice,
        tag("button", "+", type="button", data_role="in", aria_label="Zoom in"),
        tag("button", "−", type="button", data_role="out", aria_label="Zoom out"),
        tag("button", "Reset", type="button", data_role="home"),
        class_="controls",
    )
    canvases = tag(
        "div",
        tag(
            "canvas",
            class_="plane",
            role="img",
            tabindex=0,
            aria_label=f"Map of {path}. Plus and minus zoom, arrows move, 0 resets, Enter chooses.",
        ),
        tag("canvas", class_="bar", aria_hidden="true"),
        class_="canvases",
    )
    viewer = tag(
        "div",
        canvases,
        tag("p", class_="readout", data_role="readout"),
        *sliders,
        controls,
        tag("p", class_="note", data_role="note"),
        class_="viewer",
        data_viewer=True,
        data_ref=answer.ref,
        data_path=quote(path),
        data_dims=",".join(answer.shown),
        data_frames=None if frames is None else json.dumps(frames),
    )
    kinds = {each.kind for each in answer.axes if each.name in answer.shown}
    is_map = kinds in ({"latitude", "longitude"}, {"north", "east"})
    title = "Map" if is_map else "Values"
    return card(title, viewer, small="click a point · drag · zoom", class_="card first")


def _trio(captions: Sequence[str], old: str | None, new: str | None) -> Html:
    figures = [
        tag(
            "figure",
            tag("figcaption", caption),
            tag(
                "div",
                tag("canvas", class_="plane", role="img", tabindex=0, aria_label=f"Map: {caption}"),
                tag("canvas", class_="bar", aria_hidden="true"),
                class_="canvases",
            ),
            class_="viewer",
        )
        for caption in captions
    ]
    return tag(
        "div",
        tag("div", *figures, class_="trio"),
        tag("p", class_="readout", data_role="readout"),
        tag("p", class_="note", data_role="note"),
        data_trio=True,
        data_old=old,
        data_new=new,
        hidden=old is None,
    )


def _compare_card(
    answer: ArrayPage, others: Sequence[Axis], refs: Sequence[RefEntry], links: Links
) -> Html | None:
    if links.frames(answer.array.path) is not None:
        return None
    along = next((each for each in others if each.kind == "time"), others[0] if others else None)
    pairs = [(each.name, f"{each.name} ({each.kind})") for each in refs[:200]]
    if answer.ref not in {each.name for each in refs}:
        pairs.insert(0, (answer.ref, answer.ref[:12]))
    index = None
    if along is not None:
        index = tag(
            "label",
            f"{along.name} ",
            tag("input", type="number", name="index", min=0, max=along.length - 1, value=0),
        )
    form = tag(
        "form",
        tag("label", "version ", select("ref", pairs, answer.ref)),
        index,
        tag("button", "Compare"),
        class_="controls",
        data_compare=True,
        data_axis=along.name if along else None,
    )
    return card(
        "Compare this slice with another",
        form,
        _trio(("the other", "this slice", "difference"), None, None),
        small="side by side, and their difference",
        class_="card fourth",
    )


def _cells(source: str, ref: str, path: str, is_marked: bool = False) -> Html:
    legend = [
        tag("li", tag("span", class_=f"swatch {kind}", aria_hidden="true"), kind)
        for kind in ("virtual", "native", "inline", "absent")
    ]
    if is_marked:
        legend.append(tag("li", "outlined: changed"))
    pairs = [("kind", "kind and size"), ("size", "size"), ("age", "age"), ("ratio", "compression")]
    return tag(
        "div",
        tag("canvas", class_="cells", role="img", aria_label=f"Chunks of {path}"),
        tag("p", class_="readout", data_role="readout"),
        tag("div", tag("label", "colour ", select("by", pairs, data_role="by")), class_="controls"),
        tag("ul", *legend, class_="legend"),
        data_cells=source,
        data_ref=ref,
        data_path=quote(path),
    )


def _chunk_card(answer: ArrayPage) -> Html:
    array = answer.array
    written = sum(n for kind, n in array.chunks.items() if kind != "grid")
    part = "" if array.counted_manifests == array.manifests else "at least "
    small = (
        f"{part}{written:,} of {array.chunks['grid']:,} written · {show_bytes(array.size_bytes)}"
    )
    source = address("chunks.json", ref=answer.ref, path=array.path)
    return card("Chunks", _cells(source, answer.ref, array.path), small=small, class_="card third")


def render_code(answer: ArrayPage, url: str) -> Html:
    """Render code that reads what is shown, for xarray, SQL and the shell."""
    path = answer.array.path.strip("/")
    group, _, name = path.rpartition("/")
    is_virtual = bool(answer.array.chunks.get("virtual"))
    place = f"{url}@{answer.ref}"
    allow = " --authorize '*'" if is_virtual else ""
    codes = {"xarray": _write_xarray(place, group, name, is_virtual=is_virtual)}
    if None in (answer.array.dims or (None,) * len(answer.array.shape)):
        # Neither xarray nor SQL reads arrays whose dimensions have no names.
        codes = {"Zarr": _write_zarr(place, path, len(answer.axes), is_virtual=is_virtual)}
    else:
        part = f" --group {quote_shell(group)}" if group else ""
        table_name = name if _COLUMN.fullmatch(name) else "`{}`".format(name.replace("`", "``"))
        escaped = re.sub(r'(["$`\\])', r"\\\1", table_name)
        codes["SQL"] = Html.join(
            [
                f"frazil sql {quote_shell(place)}{part}{allow} \\\n",
                f'  "SELECT * FROM {escaped}\n   ',
                tag("span", "LIMIT 100", data_at="sql"),
                '"',
            ]
        )
    show_it = f"frazil show {quote_shell(place)} {quote_shell(path)}{allow}"
    codes["Shell"] = Html.join([f"{show_it}\nfrazil serve {quote_shell(url)}{allow}"])
    tabs, panels = [], []
    for number, (label, code) in enumerate(codes.items()):
        key = f"code-{answer.array.node_id}-{number}"
        tabs.append(
            tag(
                "button",
                label,
                type="button",
                role="tab",
                id=f"tab-{key}",
                aria_controls=key,
                aria_selected="true" if number == 0 else "false",
                tabindex=0 if number == 0 else -1,
            )
        )
        panels.append(
            tag(
                "div",
                tag("pre", code, tabindex=0),
                tag("button", "Copy", type="button", data_copy=True, hidden=True),
                class_="code",
                role="tabpanel",
                id=key,
                aria_labelledby=f"tab-{key}",
                hidden=number > 0,
            )
        )
    return Html.join(
        [tag("div", *tabs, class_="tabs", role="tablist", aria_label="Language"), *panels]
    )


_COLUMN = re.compile(r"[A-Za-z_]\w*")


def _write_xarray(place: str, group: str, name: str, *, is_virtual: bool) -> Html:
    options = [json.dumps(place), 'engine="frazil"']
    options += [f"group={json.dumps(group)}"] if group else []
    options += ['authorize="*"'] if is_virtual else []
    return Html.join(
        [
            "import xarray as xr\n\nds = xr.open_dataset(\n",
            *(f"    {each},\n" for each in options),
            f")\nds[{json.dumps(name)}]",
            tag("span", data_at="xarray"),
        ]
    )


def _write_zarr(place: str, path: str, axes: int, *, is_virtual: bool) -> Html:
    allow = ', authorize="*"' if is_virtual else ""
    return Html.join(
        [
            "import frazil\nimport zarr\n\n",
            f"session = frazil.open_session({json.dumps(place)}{allow})\n",
            f"array = zarr.open_array(session.store, path={json.dumps(path)})\narray[",
            tag("span", "..." if axes > 2 else ":, :" if axes == 2 else "()" if not axes else ":",
                data_at="zarr", data_axes=axes),
            "]",
        ]
    )  # fmt: skip


def render_values(found: Mapping[str, Any]) -> Html:
    """Render a single value, or texts, or why there are none."""
    note = found.get("note")
    if found["form"] == "value":
        (value,) = found["values"]
        units = f" {found['units']}" if found.get("units") not in (None, "1") else ""
        text = "missing" if value is None else f"{value:g}{units}"
        return facts([("value", tag("code", text))])
    if found["form"] == "text":
        items = [(str(number), tag("code", text)) for number, text in enumerate(found["texts"])]
        body = table(("index", "value"), items, "Values")
        return Html.join([body, tag("p", note, class_="note") if note else None])
    return tag("p", note or "There are no values to show.", class_="note")


def render_changed(answer: ArrayPage, old: str, at: Mapping[str, int] | None) -> Html:
    """Render a changed array: its regions on the chunk grid, and old, new and difference on maps."""
    path, new = answer.array.path, answer.ref
    source = address("chunks.json", ref=new, path=path, from_=old)
    parts = [_cells(source, new, path, is_marked=True)]
    if len(answer.shown) == 2 and at is not None:
        place = ",".join(f"{name}:{index}" for name, index in at.items())
        slices = [
            address("slice.json", ref=ref, path=path, at=place, side=320) for ref in (old, new)
        ]
        parts.insert(0, _trio((old, new, "difference"), *slices))
    where = ", ".join(f"{name} {index:,}" for name, index in (at or {}).items())
    new_only = "all changed chunks are new" if at is None else None
    return card(path, *parts, small=new_only or (f"a changed slice: {where}" if where else None))
