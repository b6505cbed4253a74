"""Serving pages, on this machine or, for named hosts, to others."""

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

import uvicorn

from frazil.repository import Repository
from frazil.web.app import make_app
from frazil.web.guard import find_hosts


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
    """Serve the pages of a repository until somebody stops it.

    Raises InvalidInputError for an address that others reach, unless `allowed_hosts` says by which
    names; OSError where the address can't be used. `on_start` gets the URL once it can be.
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
