"""Serve the pages of a repository: read-only, for allowed hosts, with an optional token."""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Semaphore
from typing import Any
from urllib.parse import urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from frazil.display import to_plain
from frazil.errors import IcechunkError, InvalidInputError, NotFoundError
from frazil.repository.repository import Repository
from frazil.web import pages
from frazil.web.html import Html, SiteLinks, address, draw_slice, link, tag
from frazil.web.pages import Page, lay_out, read_style

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_HOST_HEADER = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^\s:\[\]/@]+))(?::\d{1,5})?")


class Token:
    """Token kept only as a digest, so that no log or traceback can reveal it."""

    __slots__ = ("_digest",)

    def __init__(self, text: str) -> None:
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise InvalidInputError(
                "invalid token: give one or more ASCII characters without spaces"
            )
        self._digest = hashlib.sha256(text.encode()).digest()

    def matches(self, given: bytes) -> bool:
        """Compare a token in constant time."""
        return hmac.compare_digest(hashlib.sha256(given).digest(), self._digest)


class Guard:
    """Middleware that accepts only requests with an allowed host name and the right token."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], token: Token | None = None) -> None:
        self._app = app
        self._hosts = frozenset(map(parse_host, hosts))
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = [(name.lower(), value) for name, value in scope.get("headers", ())]
        refusal = self._refuse(headers)
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _refuse(self, headers: list[tuple[bytes, bytes]]) -> PlainTextResponse | None:
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1 or read_host(hosts[0]) not in self._hosts:
            return PlainTextResponse(
                "this host name is not allowed: `frazil serve --allowed-host NAME` allows one", 400
            )
        given = [value for name, value in headers if name == b"authorization"]
        if self._token is None:
            return None
        if len(given) == 1 and self._token.matches(read_token(given[0])):
            return None
        ask = {"WWW-Authenticate": 'Basic realm="frazil", charset="UTF-8"'}
        return PlainTextResponse("a token is required, as password or as bearer token", 401, ask)


def read_token(header: bytes) -> bytes:
    """Return the token in an Authorization header: a bearer token, or the password of any user."""
    scheme, _, rest = header.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return rest.strip()
    if scheme.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def read_host(header: str) -> str | None:
    """Return the host name in a Host header, without its port; None for an invalid header."""
    found = _HOST_HEADER.fullmatch(header.strip().lower())
    if found is None:
        return None
    return _normalize(found["six"] or found["name"])


def parse_host(name: str) -> str:
    """Normalize a host name or address for comparison with Host headers; raises InvalidInputError."""
    host = _normalize(name.strip().lower().removeprefix("[").removesuffix("]"))
    if ":" not in host and _NAME.fullmatch(host) is None:
        raise InvalidInputError(
            f"invalid allowed host {name!r}: give a host name or an address, such as"
            " data.example.org, without scheme and port"
        )
    if ":" in host and _parse_address(host) is None:
        raise InvalidInputError(f"invalid allowed host {name!r}: leave out scheme and port")
    return host


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach an address."""
    address = _parse_address(host)
    return host.lower() == "localhost" if address is None else bool(address.is_loopback)


def find_hosts(host: str, allowed: Iterable[str]) -> list[str]:
    """Return the allowed host names of an address; raises InvalidInputError if there are none."""
    names = list(dict.fromkeys(map(parse_host, allowed)))
    if is_loopback(host):
        return [*LOOPBACK, *([] if host in LOOPBACK else [host]), *names]
    if not names:
        raise InvalidInputError(
            f"--host {host} lets other machines read the repository: say with --allowed-host by"
            " which host name they reach this one, such as --allowed-host data.example.org"
        )
    return names


def _normalize(host: str) -> str:
    address = _parse_address(host)
    return host.removesuffix(".") if address is None else str(address)


def _parse_address(host: str) -> Any:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_MOST_READERS = 4
"""Maximum requests that read chunks at a time, each a bounded number of bytes; others wait."""
_LINKS = SiteLinks()
_STYLE = tag("link", rel="stylesheet", href="style.css")

Gather = Callable[[Request], Any]
Render = Callable[[Any], Page]


class Site:
    """Pages of one repository."""

    def __init__(self, repository: Repository, name: str) -> None:
        self._repository = repository
        self._name = name
        self._reading = Semaphore(_MOST_READERS)

    def make_routes(self) -> list[Route]:
        """Return the routes of every page, as HTML and as JSON."""
        routes = [
            Route("/style.css", self._style),
            Route("/picture.png", self._picture),
        ]
        for path, gather, render in self._pages():
            show = self._answering(gather, render)
            data = self._answering(gather, None)
            routes += [Route(f"/{path}", show), Route(f"/{path or 'index'}.json", data)]
        return routes

    def _pages(self) -> list[tuple[str, Gather, Render]]:
        repository = self._repository
        return [
            (
                "",
                lambda _: pages.gather_home(repository, self._name),
                lambda answer: pages.render_home(answer, _LINKS),
            ),
            (
                "tree",
                lambda r: pages.gather_tree(repository, _ref(r)),
                lambda answer: pages.render_tree(answer, _LINKS),
            ),
            ("array", self._gather_array, self._render_array),
            (
                "diff",
                lambda r: pages.gather_diff(repository, _need(r, "from"), _need(r, "to")),
                lambda answer: pages.render_diff(answer, _LINKS),
            ),
            (
                "storage",
                lambda r: pages.gather_storage(repository, _ref(r)),
                lambda answer: pages.render_storage(answer, _LINKS),
            ),
            (
                "operations",
                lambda _: pages.gather_operations(repository),
                pages.render_operations,
            ),
        ]

    def _gather_array(self, request: Request) -> pages.ArrayAnswer:
        place = request.query_params.get("at", "")
        path = _need(request, "path")
        with self._reading:
            return pages.gather_array(self._repository, _ref(request), path, place)

    def _render_array(self, answer: pages.ArrayAnswer) -> Page:
        place = ",".join(map(str, answer.at))
        path = answer.array.path
        with self._reading:
            preview, reason = pages.try_slice(self._repository, answer.ref, path, place)
        return pages.render_array(answer, preview, reason, _show_picture)

    def _answering(self, gather: Gather, render: Render | None) -> Callable[[Request], Response]:
        def respond(request: Request) -> Response:
            try:
                answer = gather(request)
                if render is None:
                    return JSONResponse(to_plain(answer), headers=_HEADERS)
                twin = f"{request.url.path.strip('/') or 'index'}.json"
                query = urlencode(request.query_params.multi_items())
                return self._html(render(answer), f"{twin}?{query}" if query else twin)
            except IcechunkError as error:
                return self._fail(error, is_json=render is None)

        return respond

    def _html(self, page: Page, twin: str | None, status: int = 200) -> HTMLResponse:
        document = lay_out(page, self._name, _STYLE, _navigate(twin))
        return HTMLResponse(document, status, headers=_HEADERS)

    def _fail(self, error: IcechunkError, *, is_json: bool) -> Response:
        status = _status_of(error)
        if is_json:
            return JSONResponse({"error": error.message}, status, headers=_HEADERS)
        return self._html(Page("This can't be shown", tag("p", error.message)), None, status)

    def _style(self, _: Request) -> Response:
        return Response(read_style(), media_type="text/css", headers=_HEADERS)

    def _picture(self, request: Request) -> Response:
        try:
            path, ref = _need(request, "path"), _ref(request)
            place = request.query_params.get("at", "")
            with self._reading:
                preview = pages.read_slice(self._repository, ref, path, place)
        except (IcechunkError, ValueError, OSError, NotImplementedError) as error:
            failure = error if isinstance(error, IcechunkError) else InvalidInputError(str(error))
            return self._fail(failure, is_json=True)
        if preview is None or preview.values.ndim != 2:
            return self._fail(InvalidInputError(f"{path} has no slice to draw"), is_json=True)
        return Response(draw_slice(preview.values), media_type="image/png", headers=_HEADERS)


def make_app(
    repository: Repository, name: str, hosts: Sequence[str], token: str | None = None
) -> Starlette:
    """Make the web application of a repository.

    Parameters
    ----------
    repository
        Repository to show.
    name
        Name of the repository on the pages.
    hosts
        Allowed host names.
    token
        Token that requests must have; None for no token.
    """
    guard = Middleware(Guard, hosts=hosts, token=None if token is None else Token(token))
    return Starlette(routes=Site(repository, name).make_routes(), middleware=[guard])


def _navigate(twin: str | None) -> Html:
    links = [
        link(".", "History"),
        link("tree", "Arrays"),
        link("storage", "Storage"),
        link("operations", "Operations"),
        *([link(twin, "JSON")] if twin else []),
    ]
    return tag("nav", *links, aria_label="Pages")


def _show_picture(answer: pages.ArrayAnswer, _: object) -> Html:
    place = ",".join(map(str, answer.at))
    source = address("picture.png", ref=answer.ref, path=answer.array.path, at=place)
    return tag("img", src=source, alt=f"slice of {answer.array.path} at {place or 'all of it'}")


def _ref(request: Request) -> str:
    return request.query_params.get("ref") or "main"


def _need(request: Request, name: str) -> str:
    found = request.query_params.get(name)
    if not found:
        raise InvalidInputError(f"the address needs {name}=")
    return found


def _status_of(error: IcechunkError) -> int:
    if isinstance(error, NotFoundError):
        return 404
    return 400 if isinstance(error, InvalidInputError) else 502


def serve(
    repository: Repository,
    name: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    allowed_hosts: Sequence[str] = (),
    token: str | None = None,
    on_start: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve the pages of a repository until interrupted.

    Parameters
    ----------
    repository
        Repository to show.
    name
        Name of the repository on the pages.
    host, port
        Address to listen on.
    allowed_hosts
        Host names under which other machines reach this one.
    token
        Token that requests must have; None for no token.
    on_start
        Function called with the URL once the server listens.

    Raises
    ------
    InvalidInputError
        If other machines can reach `host` and `allowed_hosts` is empty.
    OSError
        If the address can't be used.
    """
    hosts = find_hosts(host, allowed_hosts)
    app = make_app(repository, name, hosts, token)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listening:
        shown = hosts[0] if host in ("0.0.0.0", "::") else host
        bound = listening.getsockname()[1]
        on_start(f"http://{f'[{shown}]' if ':' in shown else shown}:{bound}/")
        config = uvicorn.Config(app, log_level="warning", access_log=False)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
