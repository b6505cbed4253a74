"""What the server answers, without a browser."""

import json
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urljoin
from urllib.request import Request, urlopen

import numpy as np
import pytest
import zarr

import frazil
from frazil.web.html import draw_slice
from frazil.web.pages import render_report
from frazil.web.web_app import make_app

from .conftest import HOSTILE, TURNED, run_site


def get(address: str, **headers: str) -> tuple[int, Any, bytes]:
    try:
        with urlopen(Request(address, headers=headers), timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


class Links(HTMLParser):
    """All addresses that a page leads to, and all elements."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def read_links(page: bytes) -> Links:
    links = Links()
    links.feed(page.decode())
    return links


def test_every_page_that_is_linked_answers(site: str) -> None:
    seen: set[str] = set()
    waiting = [f"{site}/"]
    while waiting:
        address = waiting.pop()
        if address in seen:
            continue
        seen.add(address)
        status, headers, body = get(address)
        assert status == 200, address
        if headers["content-type"].startswith("text/html"):
            links = read_links(body)
            assert "script" not in links.names
            waiting += [urljoin(address, each).partition("#")[0] for each in links.found]

    assert all(address.startswith(site) for address in seen)
    assert len(seen) > 40
    assert any("picture.png" in address for address in seen)


@pytest.mark.parametrize("page", ["index", "tree", "storage", "operations", "array", "diff"])
def test_every_page_has_a_twin(site: str, page: str) -> None:
    query = {"array": "?path=/climate/t", "diff": "?from=v1&to=main"}.get(page, "")

    status, headers, body = get(f"{site}/{page}.json{query}")

    assert status == 200
    assert headers["content-type"] == "application/json"
    assert json.loads(body)


def test_the_twins_report_what_is_there(site: str) -> None:
    array = json.loads(get(f"{site}/array.json?path=/climate/t&ref=v1")[2])
    change = json.loads(get(f"{site}/diff.json?from=v1&to=main")[2])
    storage = json.loads(get(f"{site}/storage.json")[2])

    assert array["array"]["shape"] == [4, 30, 60]
    assert array["at"] == [2]
    assert np.sum(array["chunks"]["counts"]["native"]) == 6
    assert change["difference"]["chunk_coordinates"] == {"/climate/t": [[3, 0, 0], [3, 1, 0]]}
    assert storage["arrays"][0]["path"] == "/climate/t"


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("tree?ref=nothing", 404),
        ("array?path=/nothing", 404),
        ("array", 400),
        ("array?path=/climate", 400),
        ("array?path=/climate/t&at=99", 400),
        ("array?path=/climate/t&at=x", 400),
        ("array?path=../../../etc/passwd", 400),
        ("picture.png?path=/climate/line", 400),
        ("diff?from=v1", 400),
        ("nowhere", 404),
    ],
)
def test_what_is_not_there_is_reported(site: str, address: str, status: int) -> None:
    found, _, body = get(f"{site}/{address}")

    assert found == status
    assert b"Traceback" not in body


def test_pages_are_only_read_and_only_for_this_host(site: str) -> None:
    posted = Request(f"{site}/tree", data=b"x", method="POST")

    with pytest.raises(HTTPError) as refused:
        urlopen(posted, timeout=30)

    refused.value.close()
    assert refused.value.code == 405
    assert get(f"{site}/", Host="evil.example")[0] == 400


def test_pages_load_nothing_from_elsewhere(site: str) -> None:
    policy = get(f"{site}/")[1]["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_names_are_text_and_nothing_else(site: str) -> None:
    for page in ("", "tree", f"array?path=/{quote(HOSTILE, safe='')}", "storage", "operations"):
        body = get(f"{site}/{page}")[2].decode()
        assert HOSTILE not in body
        assert "\u202e" not in body
    assert "&lt;script&gt;" in get(f"{site}/tree")[2].decode()


def test_a_picture_has_a_pixel_for_each_value() -> None:
    values = np.linspace(0, 1, 400 * 500).reshape(400, 500)
    values[0, 0] = np.nan

    data = draw_slice(values)

    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    pixels = read_pixels(data, 400, 500)
    assert pixels[0, 0, 3] == 0
    assert pixels[0, 1].tolist() == [68, 1, 84, 255]
    assert pixels[-1, -1].tolist() == [253, 231, 37, 255]


@pytest.mark.parametrize("is_ascending", [True, False])
def test_a_picture_has_north_up(tmp_path: Path, is_ascending: bool) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "north")))
    latitudes = np.linspace(-90, 90, 400)[:: 1 if is_ascending else -1]
    session = repo.writable_session("main")
    group = zarr.group(session.store)
    group.create_array("lat", data=latitudes, dimension_names=("lat",))
    field = np.repeat(latitudes[:, None], 500, axis=1)
    group.create_array("t", data=field, dimension_names=("lat", "lon"))
    session.commit("north")

    with run_site(make_app(repo, "north", ["127.0.0.1"])) as site:
        data = get(f"{site}/picture.png?path=/t")[2]
        page = get(f"{site}/array?path=/t")[2].decode()
    pixels = read_pixels(data, 400, 500)

    assert pixels[0, 0].tolist() == [253, 231, 37, 255]
    assert pixels[-1, 0].tolist() == [68, 1, 84, 255]
    assert "north is up" in page


def read_pixels(data: bytes, height: int, width: int) -> Any:
    start = data.index(b"IDAT") + 4
    rows = np.frombuffer(zlib.decompress(data[start : data.index(b"IEND") - 8]), np.uint8)
    return rows.reshape(height, 1 + width * 4)[:, 1:].reshape(height, width, 4)


def test_a_report_is_one_file(report: Path) -> None:
    links = read_links(report.read_bytes())

    assert "script" not in links.names
    assert all(each.startswith(("#", "data:image/png")) for each in links.found)
    assert "/climate/t" in report.read_text("utf-8")
    assert TURNED not in report.read_text("utf-8")


def test_an_empty_repository_has_pages(tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "empty")))

    assert "Repository initialized" in render_report(repo, "empty")
