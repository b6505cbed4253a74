"""One request and one answer of HTTP/1.1, read from and written to a connection.

Not `http.server`, whose parsing of headers would cost more than everything else here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from io import BufferedIOBase
from urllib.parse import parse_qsl, unquote, urlsplit

XML = {"Content-Type": "application/xml"}


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks; names of headers are in small letters."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def bucket(self) -> str:
        return self.path.lstrip("/").partition("/")[0]

    @property
    def key(self) -> str:
        return self.path.lstrip("/").partition("/")[2]


@dataclass(frozen=True, slots=True)
class Response:
    """What the server answers. A HEAD is told the length of a body that it does not get."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


def read_request(stream: BufferedIOBase, answers: BufferedIOBase) -> Request | None:
    """The next request of a connection, or None at its end."""
    line = stream.readline(65_536).decode("latin-1").split()
    if len(line) != 3:
        return None
    headers: dict[str, str] = {}
    while (entry := stream.readline(65_536)) not in (b"\r\n", b"\n", b""):
        name, _, value = entry.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("expect", "").lower() == "100-continue":
        answers.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    target = urlsplit(line[1])
    return Request(
        line[0], unquote(target.path), dict(parse_qsl(target.query, keep_blank_values=True)),
        headers, _read_body(stream, headers),
    )  # fmt: skip


def _read_body(stream: BufferedIOBase, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = _read_chunks(stream)
    else:
        body = stream.read(int(headers.get("content-length", "0")))
    if "aws-chunked" in headers.get("content-encoding", ""):
        return _join_signed_chunks(body)
    return body


def _read_chunks(stream: BufferedIOBase) -> bytes:
    parts = []
    while size := int(stream.readline().split(b";")[0], 16):
        parts.append(stream.read(size))
        stream.readline()
    while stream.readline() not in (b"\r\n", b"\n", b""):
        pass
    return b"".join(parts)


def _join_signed_chunks(body: bytes) -> bytes:
    # Amazon's own chunks, inside the body: `<size>[;chunk-signature=…]`, the data, a trailer.
    parts = []
    while body:
        line, _, body = body.partition(b"\r\n")
        size = int(line.split(b";")[0], 16)
        if size == 0:
            break
        parts.append(body[:size])
        body = body[size + 2 :]
    return b"".join(parts)


def encode_response(response: Response, method: str) -> bytes:
    """An answer as it goes out, in one piece: two would wait for each other on the network."""
    phrase = HTTPStatus(response.status).phrase
    headers = {"Content-Length": str(len(response.body)), **response.headers}
    if response.status in (204, 304):
        del headers["Content-Length"]
    lines = [f"HTTP/1.1 {response.status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    return head if method == "HEAD" else head + response.body
