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
from threading import Thread
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from frazil.errors import IcechunkError, InvalidInputError, NotFoundError
from frazil.overview.preview import explain
from frazil.repository.repository import Repository
from frazil.web.answers import Explorer, spell_json
from frazil.web.html import Html, address, link, tag
from frazil.web.pages import Page
from frazil.web.site import ANSWERS, LAZY, PAGES, PARTS, Site, lay_out, read_asset

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


_MOST_WARM_UP = 1.0
"""Maximum seconds that the address waits for the contents of the first page."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}  # fmt: skip
_ASSETS = {
    "explorer.css": "text/css",
    "explorer.js": "text/javascript",
    "maps.js": "text/javascript",
    "coastlines.json": "application/json",
}
_HEAD = Html.join(
    [
        tag("link", rel="stylesheet", href="explorer.css"),
        tag("script", src="maps.js", defer=True),
        tag("script", src="explorer.js", defer=True),
    ]
)


class Server:
    """Responses of the pages of one repository."""

    def __init__(self, repository: Repository, url: str) -> None:
        self._site = Site(Explorer(repository, url))

    def warm_up(self) -> None:
        """Read what the first page needs, whichever it is, so that it appears at once."""
        with suppress(Exception):
            for name in ("overview", "history"):
                page = self._site.render(name, self._site.gather(name, {}), {})
            self._site.render_side(page, "main")
        for name in _ASSETS:
            read_asset(name)

    def make_routes(self) -> list[Route]:
        """Return the routes of every page, as HTML and as JSON."""
        routes = [Route(f"/{name}", self._asset) for name in _ASSETS]
        for name in (*PAGES, *PARTS):
            routes.append(Route("/" if name == "overview" else f"/{name}", self._answering(name)))
        for name in (*PAGES, *PARTS, *ANSWERS):
            routes.append(Route(f"/{name}.json", self._twin(name)))
        routes.append(Route("/index.json", self._twin("overview")))
        return routes

    def _answering(self, name: str) -> Callable[[Request], Response]:
        def respond(request: Request) -> Response:
            query = dict(request.query_params)
            try:
                answer = None if name in LAZY else self._site.gather(name, query)
                if name in PARTS:
                    part = self._site.render_part(name, answer, query)
                    return HTMLResponse(part, headers=_HEADERS)
                return self._html(self._site.render(name, answer, query), request)
            except IcechunkError as error:
                if name in PARTS:
                    return _fail(error)
                return self._fail_page(error, request)

        return respond

    def _twin(self, name: str) -> Callable[[Request], Response]:
        def respond(request: Request) -> Response:
            try:
                answer = self._site.gather(name, dict(request.query_params))
            except IcechunkError as error:
                return _fail(error)
            return Response(spell_json(answer), media_type="application/json", headers=_HEADERS)

        return respond

    def _html(self, page: Page, request: Request, status: int = 200) -> HTMLResponse:
        ref = request.query_params.get("ref") or "main"
        query = dict(request.query_params)
        twin = address(f"{request.url.path.strip('/') or 'index'}.json", **query)
        links = tag("link", rel="alternate", type="application/json", href=twin)
        name = self._site.explorer.name
        try:
            side = self._site.render_side(page, ref)
        except IcechunkError:  # an unknown version: the sidebar shows main
            side = self._site.render_side(page, "main")
        theme = request.cookies.get("frazil-theme", "")
        head = Html.join([_HEAD, links])
        note = tag("p", link(twin, "This page as JSON"), class_="note")
        document = lay_out(
            f"{page.title} · {name}", head, side, Html.join([page.body, note]), theme=theme
        )
        return HTMLResponse(document, status, headers=_HEADERS)

    def _fail_page(self, error: IcechunkError, request: Request) -> Response:
        text = explain(error)
        alert = tag("p", f"{text[0].upper()}{text[1:]}.", class_="alert")
        body = Html.join([tag("h1", "This can't be shown"), alert])
        try:
            return self._html(Page("This can't be shown", body), request, _status_of(error))
        except IcechunkError:  # a repository without the branch main
            document = lay_out("This can't be shown", _HEAD, Html(), body)
            return HTMLResponse(document, _status_of(error), headers=_HEADERS)

    def _asset(self, request: Request) -> Response:
        name = request.url.path.strip("/")
        headers = {**_HEADERS, "Cache-Control": "max-age=300"}
        return Response(read_asset(name), media_type=_ASSETS[name], headers=headers)


def make_app(
    repository: Repository, url: str, hosts: Sequence[str], token: str | None = None
) -> Starlette:
    """Make the web application of a repository.

    Parameters
    ----------
    repository
        Repository to show.
    url
        URL or path of the repository on the pages.
    hosts
        Allowed host names.
    token
        Token that requests must have; None for no token.
    """
    return _guarded(Server(repository, url), hosts, token)


def _guarded(server: "Server", hosts: Sequence[str], token: str | None) -> Starlette:
    guard = Middleware(Guard, hosts=hosts, token=None if token is None else Token(token))
    return Starlette(routes=server.make_routes(), middleware=[guard])


def _fail(error: IcechunkError) -> Response:
    return JSONResponse({"error": explain(error)}, _status_of(error), headers=_HEADERS)


def _status_of(error: IcechunkError) -> int:
    if isinstance(error, NotFoundError):
        return 404
    return 400 if isinstance(error, InvalidInputError) else 502


def serve(
    repository: Repository,
    url: str,
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
    url
        URL or path of the repository on the pages.
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
    server = Server(repository, url)
    app = _guarded(server, hosts, token)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listening:
        shown = hosts[0] if host in ("0.0.0.0", "::") else host
        bound = listening.getsockname()[1]
        warm_up = Thread(target=server.warm_up, name="frazil-warm-up", daemon=True)
        warm_up.start()
        config = uvicorn.Config(app, log_level="warning", access_log=False)
        config.load()
        warm_up.join(_MOST_WARM_UP)
        on_start(f"http://{f'[{shown}]' if ':' in shown else shown}:{bound}/")
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
