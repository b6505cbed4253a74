"""A web server for the files of a directory, with ranges: what an HTTP storage reads from."""

import contextlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


@contextlib.contextmanager
def serve_files(folder: Path) -> Iterator[str]:
    """The address of a directory's files."""

    class Handler(_FileHandler):
        root = folder

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


class _FileHandler(BaseHTTPRequestHandler):
    root: Path

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, *, with_body: bool) -> None:
        path = self.root / unquote(urlsplit(self.path).path).lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        start, end = 0, len(data)
        wanted = self.headers.get("Range")
        if wanted is not None:
            found = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted)
            assert found is not None
            first, last = found.groups()
            start = int(first) if first else max(0, len(data) - int(last))
            end = min(len(data), int(last) + 1) if first and last else len(data)
        if start >= end and wanted is not None:
            self.send_error(416)
            return
        self.send_response(200 if wanted is None else 206)
        self.send_header("Content-Length", str(end - start))
        self.send_header("ETag", f'"{hash(data):x}"')
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        if wanted is not None:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.end_headers()
        if with_body:
            self.wfile.write(data[start:end])
