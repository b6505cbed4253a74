"""What the server answers, without a browser."""

import html
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urljoin
from urllib.request import Request, urlopen

import numpy as np
import pytest
import zarr
from zarr.core.group import GroupMetadata

import frazil
from frazil.web.answers import Explorer
from frazil.web.report import render_report
from frazil.web.site import ANSWERS, PAGES, PARTS
from frazil.web.web_app import make_app

from .conftest import HOSTILE, TURNED, run_site


def get(address: str, **headers: str) -> tuple[int, Any, bytes]:
    try:
        with urlopen(Request(address, headers=headers), timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def get_json(address: str) -> Any:
    status, headers, body = get(address)
    assert (status, headers["content-type"]) == (200, "application/json")
    return json.loads(body)


class Links(HTMLParser):
    """All addresses that a page leads to or loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripts: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = ("href", "src", "data-part", "data-branch", "data-more", "data-thumb", "data-cells")
        self.found += [value for name, value in attrs if name in names and value]
        if tag == "script":
            self.scripts.append(dict(attrs).get("src"))


def read_links(page: bytes) -> Links:
    links = Links()
    links.feed(page.decode())
    return links


def test_every_page_that_is_linked_answers(site: str) -> None:
    seen: set[str] = set()
    waiting = [f"{site}/"]
    while waiting:
        address = waiting.pop()
        if address in seen or "check=1" in address:
            continue
        seen.add(address)
        status, headers, body = get(address)
        assert status == 200 or b"no slice" in body, (address, body[:300])
        if headers["content-type"].startswith("text/html"):
            links = read_links(body)
            assert set(links.scripts) <= {"maps.js", "explorer.js"}
            waiting += [
                urljoin(address, each).partition("#")[0]
                for each in links.found
                if not each.startswith("data:")
            ]
        else:
            assert b"NaN" not in body or not address.split("?")[0].endswith(".json")

    assert all(address.startswith(site) for address in seen)
    for page in (*PAGES[1:], "coverage", "size", "branch", "values", "changes", "chunks.json"):
        assert any(each.startswith(f"{site}/{page}") for each in seen), page


QUERIES = {
    "array": "path=/climate/t", "compare": "from=v1&to=main", "commit": "id=main", "data": "q=climate",
    "values": "path=/odd/words", "extent": "path=/climate/t", "changes": "from=v1&to=main",
    "changed": "from=v1&to=main&path=/climate/t",
    "slice": "path=/climate/t&at=time:3", "series": "path=/climate/t&dim=time&at=lat:3,lon:4",
    "chunks": "path=/climate/t&from=v1", "chunk": "path=/climate/t&at=0,1,0",
    "search": "q=degrees_north",
    "health": "check=1",
}  # fmt: skip


def test_every_page_has_a_twin(site: str) -> None:
    for page in (*PAGES, *PARTS, *ANSWERS):
        assert get_json(f"{site}/{page}.json?{QUERIES.get(page, '')}") is not None, page


def test_the_twins_report_what_is_there(site: str) -> None:
    array = get_json(f"{site}/array.json?path=/climate/t&ref=v1")
    compare = get_json(f"{site}/compare.json?from=v1&to=main")
    chunks = get_json(f"{site}/chunks.json?path=/climate/t&from=v1")
    coverage = get_json(f"{site}/coverage.json")
    shown = get_json(f"{site}/slice.json?path=/climate/t&at=time:3")
    series = get_json(f"{site}/series.json?{QUERIES['series']}")

    assert array["array"]["shape"] == [4, 30, 60]
    assert array["shown"] == ["lat", "lon"]
    assert compare["difference"]["chunk_coordinates"] == {"/climate/t": [[3, 0, 0], [3, 1, 0]]}
    assert (chunks["kind"], chunks["changed"]) == ([1] * 6 + [3] * 2, [0] * 6 + [1] * 2)
    assert chunks["commits"][0]["message"].startswith("second")
    assert coverage["times"][0]["step"] == "6 h"
    assert coverage["areas"][0]["is_global"]
    assert shown["is_geographic"]
    assert shown["axes"][0]["coordinates"][0] == 87.0  # north is the first row
    assert shown["at"]["time"]["label"] == "2024-01-01 18:00"
    assert series["axis"]["labels"][-1] == "2024-01-01 18:00"
    assert series["values"][-1] == 1.5
    assert get_json(f"{site}/chunk.json?{QUERIES['chunk']}")["source"].startswith("chunks/")


@pytest.mark.parametrize(
    ("name", "form", "note"),
    [
        ("scalar", "value", None), ("words", "text", None), ("flags", "map", None),
        ("complex", "map", "magnitudes"), ("five", "map", None), ("nan", "map", None),
        ("structured", "text", None), ("sharded", "map", None), ("empty", "nothing", "is empty"),
        ("huge", "map", "22 of 200,000 along axis 0"),
    ],
)  # fmt: skip
def test_odd_arrays_are_shown(site: str, name: str, form: str, note: str | None) -> None:
    found = get_json(f"{site}/slice.json?path=/odd/{name}")

    assert found["form"] == form
    assert (note or "") in (found["note"] or "")
    assert get(f"{site}/array?path=/odd/{name}")[0] == 200


def test_virtual_chunks_without_authorization_say_what_to_add(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_bytes(np.arange(4.0).tobytes())
    prefix = f"file://{tmp_path}/data/"
    config = frazil.RepositoryConfig.default()
    store = frazil.local_filesystem_store(str(tmp_path / "data"))
    config.set_virtual_chunk_container(frazil.VirtualChunkContainer(prefix, store))
    storage = frazil.local_filesystem_storage(str(tmp_path / "repo"))
    repo = frazil.Repository.create(storage, config)
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="t", shape=(4,), chunks=(4,), dtype="f8", compressors=None
    )
    session.store.set_virtual_ref(
        "t/c/0", f"{prefix}x", offset=0, length=32, validate_container=False
    )
    repo.save_config()
    session.commit("virtual")

    with run_site(make_app(frazil.Repository.open(storage), "virtual", ["127.0.0.1"])) as site:
        status, _, body = get(f"{site}/slice.json?path=/t")
        health = get(f"{site}/health")[2].decode()
        code = get(f"{site}/array?path=/t")[2].decode()

    assert status == 400
    assert "--authorize &#x27;*&#x27;" in health
    assert "--authorize '*'" in json.loads(body)["error"]
    assert "authorize=&quot;*&quot;" in code


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("data?ref=nothing", 404), ("array?path=/nothing", 404), ("array", 400),
        ("array?path=/climate", 400), ("slice.json?path=/climate/t&at=time:99", 400),
        ("slice.json?path=/climate/t&at=x", 400), ("slice.json?path=/climate/t&dims=a,b", 400),
        ("slice.json?path=/climate/t&window=lat:9:3", 400), ("array?path=../../../etc/passwd", 400),
        ("series.json?path=/climate/t&dim=no", 400), ("chunk.json?path=/climate/t&at=a", 400),
        ("commit?id=nothing", 404), ("history?start=x", 400), ("compare?from=v1&to=no", 404),
        ("nowhere", 404),
    ],
)  # fmt: skip
def test_what_is_not_there_is_reported(site: str, address: str, status: int) -> None:
    found, _, body = get(f"{site}/{address}")

    assert found == status, body
    assert b"Traceback" not in body


def test_damage_is_named_in_a_sentence_and_never_shown_as_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(folder)))
    with repo.transaction("main", message="a ledger") as store:
        ledger = zarr.create_group(store).create_group("_frazil/ledger")
        for name in ("source", "group", "size", "start", "stop", "job"):
            ledger.create_array(name, data=np.arange(3))
    for each in (folder / "manifests").iterdir():
        each.write_bytes(b"rust" * 50)
    damaged = frazil.Repository.open(frazil.local_filesystem_storage(str(folder)))

    with run_site(make_app(damaged, "damaged", ["127.0.0.1"])) as address:
        jobs = get(f"{address}/jobs")[2].decode()
        assert "The ledger of ingested files can&#x27;t be read" in jobs
        assert "0 ingested files" not in jobs
        status, _, body = get(f"{address}/stored")
        assert status == 502
        assert json.loads(body)["error"].startswith("the repository is damaged (manifests/")


def test_pages_are_only_read_and_only_for_this_host(site: str) -> None:
    posted = Request(f"{site}/data", data=b"x", method="POST")

    with pytest.raises(HTTPError) as refused:
        urlopen(posted, timeout=30)

    refused.value.close()
    assert refused.value.code == 405
    assert get(f"{site}/", Host="evil.example")[0] == 400


def test_pages_load_nothing_from_elsewhere(site: str) -> None:
    policy = get(f"{site}/")[1]["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy


def test_names_are_text_and_nothing_else(site: str) -> None:
    pages = ("", "data", f"array?path=/{quote(HOSTILE, safe='')}", "storage", "operations", "history",
             "commit?id=v1", "compare?from=v1&to=main", "values?path=/odd/words", "branch")  # fmt: skip
    for page in pages:
        body = get(f"{site}/{page}")[2].decode()
        assert HOSTILE not in body
        assert "\u202e" not in body
    assert "&lt;script&gt;" in get(f"{site}/data")[2].decode()


def test_records_of_frazil_are_hidden_unless_asked_for(site: str) -> None:
    assert b"_frazil/secret" not in get(f"{site}/data")[2] + get(f"{site}/")[2]
    assert b"_frazil/secret" in get(f"{site}/data?internal=1")[2]


def test_a_long_list_of_arrays_loads_its_rest_as_one_scrolls(tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "wide")))
    session = repo.writable_session("main")
    nodes = {f"g{number:03}": GroupMetadata() for number in range(449)}
    list(zarr.create_hierarchy(store=session.store, nodes={"": GroupMetadata(), **nodes}))
    session.commit("many groups")
    with run_site(make_app(repo, "wide", ["127.0.0.1"])) as site:
        address, parts = f"{site}/data?q=g", []
        for _ in range(3):
            page = get(address)[2].decode()
            parts.append(page.count('<tr><th scope="row">'))
            more = [each for each in read_links(page.encode()).found if each.startswith("nodes?")]
            address = urljoin(address, more[0]) if more else ""

    assert parts == [200, 200, 49]
    assert address == ""
    assert render_report(repo, "wide").count("<td>group</td>") == 449


def test_the_code_of_an_array_runs_where_it_is_pasted(site: str) -> None:
    def read_code(path: str) -> str:
        page = get(f"{site}/array?path={quote(path)}")[2].decode()
        return html.unescape(" ".join(page.split("<pre")[1:4]))

    nested, nameless, hostile = map(read_code, ("/climate/t", "/odd/five", f"/{HOSTILE}"))

    assert '--group climate \\\n  "SELECT * FROM t\n' in nested
    assert 'zarr.open_array(session.store, path="odd/five")' in nameless
    assert "SELECT" not in nameless
    assert f"""'{HOSTILE.replace("'", chr(39) + '"' + chr(39) + '"' + chr(39))}'""" in hostile


def test_pages_say_what_an_array_covers_and_its_type(site: str) -> None:
    _, _, extent = get(f"{site}/extent?path=/climate/t")
    _, _, page = get(f"{site}/array?path=/odd/dates")
    texts = get_json(f"{site}/slice.json?path=/odd/dates")["texts"]

    assert "2024-01-01 00:00 – 2024-01-01 18:00 · every 6 h · 4 steps" in extent.decode()
    assert "90° S – 90° N, all longitudes · 6°" in extent.decode()
    assert "datetime64[ns]" in page.decode()
    assert texts == ["2020-01-01", "NaT"]


def test_changes_and_storage_leave_out_records_of_frazil(
    site: str, repository: frazil.Repository
) -> None:
    first = next(iter(repository.ancestry(tag="v1")))
    _, _, changes = get(f"{site}/changes?from={first.parent_id}&to=v1")
    _, _, storage = get(f"{site}/stored")

    for page in (changes.decode(), storage.decode()):
        assert "_frazil/secret</" not in page
        assert "of Frazil's own records" in html.unescape(page)


def test_a_report_is_one_file(report: Path) -> None:
    links = read_links(report.read_bytes())
    text = report.read_text("utf-8")

    assert links.scripts == [None, None]
    places = ("#", "data:", "branch", "slice.json", "chunks.json")
    assert all(each.startswith(places) for each in links.found)
    assert text.index('id="overview?ref=main"') < text.index('id="data?ref=main"')
    assert TURNED not in text
    assert HOSTILE not in text
    assert len(text) < 2_000_000


def test_an_empty_repository_has_pages(tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "empty")))

    assert "Repository initialized" in render_report(repo, "empty")


def test_the_history_is_read_in_pages_and_filtered(tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "long")))
    for number in range(12):
        repo.writable_session("main").commit(
            f"commit {number}", {"run": f"run-{number}x"}, allow_empty=True
        )
    repo.create_branch("side", repo.lookup_branch("main"))
    repo.writable_session("side").commit("aside", allow_empty=True)
    explorer = Explorer(repo, "long")

    pages = [explorer.history(start=start, count=5) for start in (0, 5, 10)]
    whole = explorer.history(count=100)

    assert [row for page in pages for row in page.rows] == list(whole.rows)
    assert {page.total for page in pages} == {len(whole.rows)} == {14}
    assert [row.snapshot.message for row in explorer.history("Commit run-7x").rows] == ["commit 7"]
    assert explorer.history(branch="main").total == 13
