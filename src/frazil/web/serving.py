"""Serving pages on this machine."""

import uvicorn

from frazil.repository import Repository
from frazil.web.app import make_app

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(repository: Repository, name: str, *, host: str = "127.0.0.1", port: int = 8080) -> None:
    """Serve the pages of a repository until somebody stops it."""
    hosts = list(_LOOPBACK) if host in _LOOPBACK else ["*"]
    app = make_app(repository, name, hosts)
    uvicorn.run(app, host=host, port=port, log_level="warning", access_log=False)
