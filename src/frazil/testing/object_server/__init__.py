"""Object store in the test process: S3 and GCS, with exact conditions and fault injection.

::

    with ObjectServer() as server:
        storage = s3_storage(bucket="bucket", prefix="p", endpoint_url=server.url, allow_http=True)
        server.inject([Rule(LoseResponse(), method="PUT", count=1)])
"""

import contextlib
import re
import socket
import socketserver
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from frazil.testing.object_server.s3_api import (
    CONFLICT,
    SLOW_DOWN,
    Bucket,
    Conditions,
    Delay,
    DoAndRefuse,
    DropConnection,
    Fault,
    FaultPlan,
    LoseResponse,
    Refusal,
    Refuse,
    Request,
    Response,
    Rule,
    StoredObject,
    Truncate,
    answer,
    encode_response,
    read_request,
    refuse,
)


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
