"""Who may read the pages: requests for a known host name, with the token if there is one.

The host name is checked on every address, loopback included: a foreign web page can make a browser
resolve the page's own name to this machine (DNS rebinding), but can't change the Host header it sends.
"""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from frazil.errors import InvalidInputError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_HOST_HEADER = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^\s:\[\]/@]+))(?::\d{1,5})?")


class Token:
    """A token, kept as a digest only, so that no log and no traceback can show it."""

    __slots__ = ("_digest",)

    def __init__(self, text: str) -> None:
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise InvalidInputError(
                "invalid token: give one or more ASCII characters without spaces"
            )
        self._digest = hashlib.sha256(text.encode()).digest()

    def matches(self, given: bytes) -> bool:
        """Whether it is the same, found out in a time that does not tell where they differ."""
        return hmac.compare_digest(hashlib.sha256(given).digest(), self._digest)


class Guard:
    """Middleware that answers only requests with an allowed host name and the right token."""

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
        return PlainTextResponse("a token is needed, as password or as bearer token", 401, ask)


def read_token(header: bytes) -> bytes:
    """The token in an Authorization header: a bearer token, or the password of any user."""
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
    """The host name in a Host header, without its port; None for what is no such header."""
    found = _HOST_HEADER.fullmatch(header.strip().lower())
    if found is None:
        return None
    return _normalize(found["six"] or found["name"])


def parse_host(name: str) -> str:
    """A host name or an address, as Host headers are compared with; raises InvalidInputError."""
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
    """Whether only this machine can reach an address."""
    address = _parse_address(host)
    return host.lower() == "localhost" if address is None else bool(address.is_loopback)


def find_hosts(host: str, allowed: Iterable[str]) -> list[str]:
    """The host names to answer to at an address; raises InvalidInputError where none is named."""
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
