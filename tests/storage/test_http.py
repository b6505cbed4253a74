"""A web server's files are read as any storage is, and never written."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.errors import StorageError
from frazil.storage import LocalStorage, Storage, http_storage, redirect_storage
from frazil.testing.storage_contract import ReadOnlyStorageContract
from tests.storage.file_server import serve_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with serve_files(folder) as address:
        yield address


class TestHttp(ReadOnlyStorageContract):
    can_list = False
    survives_fork = False

    @pytest.fixture
    def storage(self, url: str) -> Storage:
        return http_storage(url)

    @pytest.fixture
    def writer(self, folder: Path) -> Storage:
        return LocalStorage(str(folder))


class Redirects(http.server.BaseHTTPRequestHandler):
    """Answers with the places in `places`, by path."""

    places: dict[str, str]

    def do_GET(self) -> None:
        place = self.places.get(self.path)
        self.send_response(404 if place is None else 302)
        if place is not None:
            self.send_header("Location", place)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def redirects() -> Iterator[tuple[str, dict[str, str]]]:
    places: dict[str, str] = {}
    handler = type("Handler", (Redirects,), {"places": places})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", places
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_redirect_is_followed_to_the_storage_it_names(
    redirects: tuple[str, dict[str, str]], url: str, folder: Path
) -> None:
    address, places = redirects
    places |= {"/start": "/next", "/next": url.replace("http://", "http+icechunk://") + "/here"}
    LocalStorage(str(folder)).put("here/object", b"data")

    storage = redirect_storage(f"{address}/start")

    assert bytes(storage.get("object")) == b"data"
    assert storage.is_read_only


def test_an_address_that_leads_nowhere_is_an_error(
    redirects: tuple[str, dict[str, str]],
) -> None:
    address, places = redirects
    places |= {"/circle": "/circle", "/odd": "ftp://somewhere"}

    for path, reason in (("/circle", "redirects"), ("/gone", "404"), ("/odd", "no web address")):
        with pytest.raises(StorageError, match=reason):
            redirect_storage(f"{address}{path}").get("object")


def test_an_http_storage_says_that_it_can_not_list(url: str) -> None:
    with pytest.raises(StorageError, match="can't list"):
        list(http_storage(url).list())
