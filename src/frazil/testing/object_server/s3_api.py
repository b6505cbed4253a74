"""The S3 API and Google's XML dialect of it, with fault injection."""

import random
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from fnmatch import fnmatchcase
from urllib.parse import unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from frazil.testing.object_server.bucket import (
    XML,
    Bucket,
    Condition,
    Description,
    Refusal,
    Request,
    Response,
    StoredObject,
    is_same_tag,
    list_objects,
    spell_time,
)

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
