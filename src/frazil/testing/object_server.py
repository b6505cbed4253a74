"""Object store in the test process: S3 and GCS, with exact conditions and fault injection.

::

    with ObjectServer() as server:
        storage = s3_storage(bucket="bucket", prefix="p", endpoint_url=server.url, allow_http=True)
        server.inject([Rule(LoseResponse(), method="PUT", count=1)])
"""

import contextlib
import hashlib
import random
import re
import socket
import socketserver
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from enum import Enum
from fnmatch import fnmatchcase
from http import HTTPStatus
from io import BufferedIOBase
from typing import Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from uuid import uuid4
from xml.etree import ElementTree
from xml.sax.saxutils import escape


class Conditions(Enum):
    """Treatment of write conditions by a store."""

    EXACT = "exact"
    IGNORED = "ignored"
    """Like some emulators and gateways."""
    NOT_IMPLEMENTED = "not implemented"
    """Like OpenStack Swift."""
    LITERAL = "literal"
    """Compared with the unquoted ETag, like Ceph."""


class Refusal(Exception):  # noqa: N818 - a response, not an error
    """Error response of the store."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(status, code)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class Condition:
    """Precondition of a write."""

    is_absent: bool = False
    e_tag: str | None = None
    generation: int | None = None

    @property
    def is_given(self) -> bool:
        return self != NO_CONDITION


NO_CONDITION = Condition()


@dataclass(frozen=True, slots=True)
class Description:
    """User metadata and HTTP headers of an object."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """Object in a bucket."""

    data: bytes
    e_tag: str
    generation: int
    modified_at: float
    description: Description


@dataclass(frozen=True, slots=True)
class _Upload:
    description: Description
    parts: dict[int, bytes]


class Bucket:
    """Objects by key; every method is atomic."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._objects: dict[str, StoredObject] = {}
        self._uploads: dict[str, _Upload] = {}
        self._writes = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> StoredObject:
        found = self._objects.get(key)
        if found is None:
            raise Refusal(404, "NoSuchKey")
        return found

    def keys(self) -> list[str]:
        """Return all keys, ordered by their bytes."""
        with self._lock:
            keys = list(self._objects)
        return sorted(keys, key=str.encode)

    def count_writes(self) -> int:
        """Return the number of writes so far, including overwrites."""
        return self._writes

    def put(
        self, key: str, data: bytes, description: Description, condition: Condition = NO_CONDITION
    ) -> StoredObject:
        e_tag = _hash(data)
        with self._lock:
            self._check(self._objects.get(key), condition)
            self._writes += 1
            stored = StoredObject(data, e_tag, self._writes, time.time(), description)
            self._objects[key] = stored
            return stored

    def copy(self, source: "Bucket", key: str, target: str, if_match: str | None) -> StoredObject:
        found = source.get(key)
        if if_match is not None and not is_same_tag(if_match, found.e_tag):
            raise Refusal(412, "PreconditionFailed")
        return self.put(target, found.data, found.description)

    def delete(self, key: str) -> bool:
        """Delete an object and return True if it existed."""
        with self._lock:
            return self._objects.pop(key, None) is not None

    def start_upload(self, description: Description) -> str:
        upload = uuid4().hex
        with self._lock:
            self._uploads[upload] = _Upload(description, {})
        return upload

    def put_part(self, upload: str, number: int, data: bytes) -> str:
        with self._lock:
            if upload not in self._uploads:
                raise Refusal(404, "NoSuchUpload")
            self._uploads[upload].parts[number] = data
        return _hash(data)

    def complete_upload(self, upload: str, key: str, condition: Condition) -> StoredObject:
        found = self._uploads.get(upload)
        if found is None:
            raise Refusal(404, "NoSuchUpload")
        data = b"".join(found.parts[number] for number in sorted(found.parts))
        stored = self.put(key, data, found.description, condition)
        self.abort_upload(upload)
        return stored

    def abort_upload(self, upload: str) -> None:
        with self._lock:
            self._uploads.pop(upload, None)

    def _check(self, found: StoredObject | None, condition: Condition) -> None:
        if not condition.is_given or self._conditions is Conditions.IGNORED:
            return
        if self._conditions is Conditions.NOT_IMPLEMENTED:
            raise Refusal(501, "NotImplemented")
        if condition.is_absent and found is not None:
            raise Refusal(412, "PreconditionFailed")
        if condition.e_tag is not None:
            if found is None:
                raise Refusal(404, "NoSuchKey")
            if self._conditions is Conditions.LITERAL and condition.e_tag.startswith('"'):
                raise Refusal(412, "PreconditionFailed")
            if not is_same_tag(condition.e_tag, found.e_tag):
                raise Refusal(412, "PreconditionFailed")
        if condition.generation is not None:
            generation = 0 if found is None else found.generation
            if generation != condition.generation:
                raise Refusal(412, "PreconditionFailed")


def is_same_tag(given: str, e_tag: str) -> bool:
    """Return True if two ETags are equal, ignoring quotes: clients send ETags with and without them."""
    return given.strip('"') == e_tag.strip('"')


def _hash(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


XML = {"Content-Type": "application/xml"}


@dataclass(frozen=True, slots=True)
class Request:
    """HTTP request; header names are in lower case."""

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
    """HTTP response. The response to a HEAD has the length of the body, but no body."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


def read_request(stream: BufferedIOBase, answers: BufferedIOBase) -> Request | None:
    """Read the next request of a connection; return None at its end."""
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
    # Amazon's chunk encoding inside the body: `<size>[;chunk-signature=…]`, the data, a trailer.
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
    """Encode a response as one buffer: two writes would delay each other on the network."""
    phrase = HTTPStatus(response.status).phrase
    headers = {"Content-Length": str(len(response.body)), **response.headers}
    if response.status in (204, 304):
        del headers["Content-Length"]
    lines = [f"HTTP/1.1 {response.status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    return head if method == "HEAD" else head + response.body


def list_objects(bucket: Bucket, request: Request, page_size: int) -> Response:
    """Return the requested page of a listing."""
    query = request.query
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after = unquote(query.get("continuation-token", "")) or query.get("start-after", "")
    limit = min(page_size, int(query.get("max-keys", "1000")))
    spell = quote if query.get("encoding-type") == "url" else escape
    entries: list[str] = []
    last = ""
    is_truncated = False
    for name, is_group in _names(bucket.keys(), prefix, delimiter):
        if name.encode() <= after.encode():
            continue
        if len(entries) == limit:
            is_truncated = True
            break
        entries.append(_entry(bucket, name, is_group, spell(name)))
        last = name
    token = f"<NextContinuationToken>{quote(last)}</NextContinuationToken>" if is_truncated else ""
    body = (
        f"<ListBucketResult><Name>{escape(request.bucket)}</Name><Prefix>{spell(prefix)}</Prefix>"
        f"<KeyCount>{len(entries)}</KeyCount><MaxKeys>{limit}</MaxKeys>"
        f"<IsTruncated>{str(is_truncated).lower()}</IsTruncated>{token}"
        f"{''.join(entries)}</ListBucketResult>"
    )
    return Response(200, XML, body.encode())


def _names(keys: list[str], prefix: str, delimiter: str) -> Iterator[tuple[str, bool]]:
    """Yield the keys, with the keys below a delimiter replaced by their common prefix."""
    previous = None
    for key in keys:
        if not key.startswith(prefix):
            continue
        head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        name, is_group = (prefix + head + found, True) if found else (key, False)
        if name != previous:
            yield name, is_group
        previous = name


def _entry(bucket: Bucket, name: str, is_group: bool, spelled: str) -> str:
    if is_group:
        return f"<CommonPrefixes><Prefix>{spelled}</Prefix></CommonPrefixes>"
    try:
        stored = bucket.get(name)
    except Refusal:
        return ""
    return (
        f"<Contents><Key>{spelled}</Key><LastModified>{spell_time(stored.modified_at)}</LastModified>"
        f"<ETag>{escape(stored.e_tag)}</ETag><Size>{len(stored.data)}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )


def spell_time(timestamp: float) -> str:
    """Format a time as in the XML of S3."""
    text = datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


_KEPT_HEADERS = ("content-type", "content-encoding", "cache-control", "content-disposition")


def answer(buckets: Mapping[str, Bucket], request: Request, page_size: int) -> Response:
    """Execute a request and return the response; raise Refusal."""
    if request.bucket not in buckets:
        raise Refusal(404, "NoSuchBucket")
    bucket = buckets[request.bucket]
    match request.method:
        case "GET" if not request.key:
            return list_objects(bucket, request, page_size)
        case "HEAD" if not request.key:
            return Response(200)
        case "GET" | "HEAD":
            return _get(bucket, request)
        case "PUT" if "uploadId" in request.query:
            number = int(request.query["partNumber"])
            e_tag = bucket.put_part(request.query["uploadId"], number, request.body)
            return Response(200, {"ETag": e_tag})
        case "PUT" if _copy_source(request):
            return _copy(buckets, bucket, request)
        case "PUT":
            stored = bucket.put(request.key, request.body, _describe(request), _condition(request))
            return Response(200, _version_headers(stored))
        case "POST" if "delete" in request.query:
            return _delete_many(bucket, request)
        case "POST" if "uploads" in request.query:
            return _start_upload(bucket, request)
        case "POST" if "uploadId" in request.query:
            return _complete_upload(bucket, request)
        case "DELETE" if "uploadId" in request.query:
            bucket.abort_upload(request.query["uploadId"])
            return Response(204)
        case "DELETE":
            if not bucket.delete(request.key) and is_google(request):
                raise Refusal(404, "NoSuchKey")
            return Response(204)
    raise Refusal(405, "MethodNotAllowed")


def is_google(request: Request) -> bool:
    """Return True if a request uses Google's dialect."""
    return request.headers.get("authorization", "").startswith("Bearer ") or any(
        name.startswith("x-goog-") for name in request.headers
    )


def refuse(refusal: Refusal, request: Request) -> Response:
    """Return the response of a refusal."""
    body = f"<Error><Code>{refusal.code}</Code><Message>{refusal.code}</Message></Error>"
    return Response(refusal.status, XML, b"" if request.method == "HEAD" else body.encode())


def _describe(request: Request) -> Description:
    metadata = {
        name.split("-meta-", 1)[1]: value
        for name, value in request.headers.items()
        if name.startswith(("x-amz-meta-", "x-goog-meta-"))
    }
    headers = {name: request.headers[name] for name in _KEPT_HEADERS if name in request.headers}
    for name in ("x-amz-storage-class", "x-goog-storage-class"):
        if name in request.headers:
            headers["storage-class"] = request.headers[name]
    return Description(metadata, headers)


def _condition(request: Request) -> Condition:
    generation = request.headers.get("x-goog-if-generation-match")
    return Condition(
        is_absent=request.headers.get("if-none-match") == "*",
        e_tag=request.headers.get("if-match"),
        generation=None if generation is None else int(generation),
    )


def _version_headers(stored: StoredObject) -> dict[str, str]:
    return {"ETag": stored.e_tag, "x-goog-generation": str(stored.generation)}


def _object_headers(stored: StoredObject) -> dict[str, str]:
    headers = {
        **_version_headers(stored),
        "Last-Modified": formatdate(stored.modified_at, usegmt=True),
        "Accept-Ranges": "bytes",
    }
    for name, value in stored.description.headers.items():
        if name == "storage-class":
            headers |= {"x-amz-storage-class": value, "x-goog-storage-class": value}
        else:
            headers[name] = value
    for name, value in stored.description.metadata.items():
        headers |= {f"x-amz-meta-{name}": value, f"x-goog-meta-{name}": value}
    return headers


def _get(bucket: Bucket, request: Request) -> Response:
    stored = bucket.get(request.key)
    headers = _object_headers(stored)
    unwanted = request.headers.get("if-none-match", "")
    if unwanted == "*" or is_same_tag(unwanted, stored.e_tag):
        return Response(304, headers)
    if not is_same_tag(request.headers.get("if-match", stored.e_tag), stored.e_tag):
        raise Refusal(412, "PreconditionFailed")
    wanted = request.headers.get("range")
    if wanted is None:
        return Response(200, headers, stored.data)
    start, end = _resolve_range(wanted, len(stored.data))
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(stored.data)}"
    return Response(206, headers, stored.data[start:end])


def _resolve_range(header: str, size: int) -> tuple[int, int]:
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", header)
    if found is None:
        raise Refusal(400, "InvalidArgument")
    first, last = found.groups()
    if first == "":
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
    if start >= end:
        raise Refusal(416, "InvalidRange")
    return start, end


def _copy_source(request: Request) -> str | None:
    headers = request.headers
    return headers.get("x-amz-copy-source") or headers.get("x-goog-copy-source")


def _copy(buckets: Mapping[str, Bucket], bucket: Bucket, request: Request) -> Response:
    name, _, key = unquote(_copy_source(request) or "").lstrip("/").partition("/")
    if name not in buckets:
        raise Refusal(404, "NoSuchBucket")
    if_match = request.headers.get("x-amz-copy-source-if-match")
    stored = bucket.copy(buckets[name], key, request.key, if_match)
    modified = spell_time(stored.modified_at)
    body = (
        f"<CopyObjectResult><ETag>{escape(stored.e_tag)}</ETag>"
        f"<LastModified>{modified}</LastModified></CopyObjectResult>"
    )
    return Response(200, {**XML, **_version_headers(stored)}, body.encode())


def _delete_many(bucket: Bucket, request: Request) -> Response:
    # Match keys in any namespace: clients use different ones.
    found = ElementTree.fromstring(request.body).iter()
    keys = [element.text or "" for element in found if element.tag.rpartition("}")[2] == "Key"]
    for key in keys:
        bucket.delete(key)
    deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
    return Response(200, XML, f"<DeleteResult>{deleted}</DeleteResult>".encode())


def _start_upload(bucket: Bucket, request: Request) -> Response:
    upload = bucket.start_upload(_describe(request))
    bucket_name, key = escape(request.bucket), escape(request.key)
    body = (
        f"<InitiateMultipartUploadResult><Bucket>{bucket_name}</Bucket><Key>{key}</Key>"
        f"<UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
    )
    return Response(200, XML, body.encode())


def _complete_upload(bucket: Bucket, request: Request) -> Response:
    upload = request.query["uploadId"]
    stored = bucket.complete_upload(upload, request.key, _condition(request))
    body = (
        f"<CompleteMultipartUploadResult><Key>{escape(request.key)}</Key>"
        f"<ETag>{escape(stored.e_tag)}</ETag></CompleteMultipartUploadResult>"
    )
    return Response(200, {**XML, **_version_headers(stored)}, body.encode())


@dataclass(frozen=True, slots=True)
class DropConnection:
    """Close the connection without executing the request."""


@dataclass(frozen=True, slots=True)
class LoseResponse:
    """Execute the request, then close the connection."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Respond with an error without executing the request."""

    status: int = 500
    code: str = "InternalError"


@dataclass(frozen=True, slots=True)
class DoAndRefuse:
    """Execute the request, then respond with an error."""

    status: int = 500
    code: str = "InternalError"


@dataclass(frozen=True, slots=True)
class Delay:
    """Execute the request after a delay."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Truncate:
    """Announce the whole body, send a part of it, and close the connection."""

    kept_bytes: int = 0


SLOW_DOWN = Refuse(503, "SlowDown")
CONFLICT = Refuse(409, "ConditionalRequestConflict")

Fault = DropConnection | LoseResponse | Refuse | DoAndRefuse | Delay | Truncate


@dataclass(frozen=True, slots=True)
class Rule:
    """Requests that get a fault: by method, key and probability, up to a count."""

    fault: Fault
    method: str = "*"
    key: str = "*"
    probability: float = 1.0
    count: int | None = None
    """Maximum number of requests that get the fault; None for all."""


class FaultPlan:
    """Ordered rules; a request gets the fault of the first rule that applies."""

    def __init__(self, rules: Iterable[Rule] = (), seed: int = 0) -> None:
        self._rules = [(rule, rule.count) for rule in rules]
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def find_fault(self, method: str, key: str) -> Fault | None:
        """Return the fault of this request, and decrement the count of its rule."""
        with self._lock:
            for index, (rule, left) in enumerate(self._rules):
                if left == 0 or not fnmatchcase(method, rule.method):
                    continue
                if not fnmatchcase(key, rule.key) or self._random.random() >= rule.probability:
                    continue
                self._rules[index] = (rule, None if left is None else left - 1)
                return rule.fault
        return None


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of a server.

    Parameters
    ----------
    buckets
        Names of the buckets.
    conditions
        How the server treats conditional writes.
    access_keys
        Accepted access keys or bearer tokens; None for any.
    page_size
        Maximum number of objects in a page of a listing.
    """

    buckets: Sequence[str] = ("bucket",)
    conditions: Conditions = Conditions.EXACT
    access_keys: frozenset[str] | None = None
    page_size: int = 1000


class ObjectServer:
    """Server for S3 and Google's XML dialect on a free port; a context manager that stops it.

    Conditions are exact, `Last-Modified` is correct, and faults can be injected: see `inject`.
    Signatures are not verified; only the access key is checked.
    """

    def __init__(self, options: ServerOptions | None = None) -> None:
        self.options = options or ServerOptions()
        self.buckets = {name: Bucket(self.options.conditions) for name in self.options.buckets}
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._plan = FaultPlan()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        """Start to listen."""
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close the port and every connection."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Return the address of the server."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def inject(self, rules: Iterable[Rule], *, seed: int = 0) -> None:
        """Replace the faults to inject into requests from now on.

        Parameters
        ----------
        rules
            Rules that select requests and the fault of each.
        seed
            Seed of the random choice among matching requests.
        """
        self._plan = FaultPlan(rules, seed)

    def handle(self, request: Request) -> bytes | None:
        """Return the encoded response, or None to close the connection."""
        with self._lock:
            self.requests.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            fault = self._plan.find_fault(request.method, request.key)
            return self._suffer(fault, request)
        finally:
            with self._lock:
                self._at_once -= 1

    def _suffer(self, fault: Fault | None, request: Request) -> bytes | None:
        match fault:
            case DropConnection():
                return None
            case Refuse(status, code):
                return encode_response(refuse(Refusal(status, code), request), request.method)
            case Delay(seconds):
                time.sleep(seconds)
        response = self._answer(request)
        match fault:
            case LoseResponse():
                return None
            case DoAndRefuse(status, code):
                response = refuse(Refusal(status, code), request)
            case Truncate(kept):
                whole = encode_response(response, request.method)
                return whole[: len(whole) - len(response.body) + kept] + b"\0CUT"
        return encode_response(response, request.method)

    def _answer(self, request: Request) -> Response:
        try:
            self._admit(request)
            return answer(self.buckets, request, self.options.page_size)
        except Refusal as refusal:
            return refuse(refusal, request)

    def _admit(self, request: Request) -> None:
        if self.options.access_keys is None:
            return
        found = re.search(
            r"Credential=([^/]+)/|^Bearer (.+)$", request.headers.get("authorization", "")
        )
        if found is None or (found[1] or found[2]) not in self.options.access_keys:
            raise Refusal(403, "AccessDenied")


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, owner: ObjectServer) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.owner = owner
        self.connections: set[socket.socket] = set()

    def server_close(self) -> None:
        super().server_close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Connection(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    server: _Server

    def handle(self) -> None:
        self.server.connections.add(self.connection)
        try:
            # A client may disconnect at any time.
            with contextlib.suppress(OSError, ValueError):
                while self._exchange():
                    pass
        finally:
            self.server.connections.discard(self.connection)

    def _exchange(self) -> bool:
        request = read_request(self.rfile, self.wfile)
        if request is None:
            return False
        response = self.server.owner.handle(request)
        if response is None or response.endswith(b"\0CUT"):
            self.wfile.write((response or b"").removesuffix(b"\0CUT"))
            self.connection.shutdown(socket.SHUT_RDWR)
            return False
        self.wfile.write(response)
        return True


__all__ = [
    "CONFLICT",
    "SLOW_DOWN",
    "Bucket",
    "Conditions",
    "Delay",
    "DoAndRefuse",
    "DropConnection",
    "Fault",
    "LoseResponse",
    "ObjectServer",
    "Refuse",
    "Request",
    "Rule",
    "ServerOptions",
    "StoredObject",
    "Truncate",
]
