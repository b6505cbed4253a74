"""The pages of a repository, served: read-only, without anything from elsewhere.

Nothing here takes a path of the system or a URL from a request: only names inside of one repository.
"""

from collections.abc import Callable, Sequence
from threading import Semaphore
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from frazil.errors import IcechunkError, InvalidInputError, NotFoundError
from frazil.rendering.plain import to_plain
from frazil.repository import Repository
from frazil.web import answers, pages
from frazil.web.guard import Guard, Token
from frazil.web.html import Html, address, link, tag
from frazil.web.layout import lay_out, read_style
from frazil.web.links import SiteLinks
from frazil.web.pages import Page
from frazil.web.pictures import draw_slice

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_MOST_READERS = 4
"""So many requests read chunks at a time, each a bounded number of bytes; others wait."""
_LINKS = SiteLinks()
_STYLE = tag("link", rel="stylesheet", href="style.css")

Gather = Callable[[Request], Any]
Render = Callable[[Any], Page]


class Site:
    """The pages of one repository."""

    def __init__(self, repository: Repository, name: str) -> None:
        self._repository = repository
        self._name = name
        self._reading = Semaphore(_MOST_READERS)

    def make_routes(self) -> list[Route]:
        """Every page, and its twin as JSON."""
        routes = [
            Route("/style.css", self._style),
            Route("/picture.png", self._picture),
        ]
        for path, gather, render in self._pages():
            show = self._answering(gather, render)
            tell = self._answering(gather, None)
            routes += [Route(f"/{path}", show), Route(f"/{path or 'index'}.json", tell)]
        return routes

    def _pages(self) -> list[tuple[str, Gather, Render]]:
        repository = self._repository
        return [
            (
                "",
                lambda _: answers.gather_home(repository, self._name),
                lambda answer: pages.render_home(answer, _LINKS),
            ),
            (
                "tree",
                lambda r: answers.gather_tree(repository, _ref(r)),
                lambda answer: pages.render_tree(answer, _LINKS),
            ),
            ("array", self._gather_array, self._render_array),
            (
                "diff",
                lambda r: answers.gather_diff(repository, _need(r, "from"), _need(r, "to")),
                lambda answer: pages.render_diff(answer, _LINKS),
            ),
            (
                "storage",
                lambda r: answers.gather_storage(repository, _ref(r)),
                lambda answer: pages.render_storage(answer, _LINKS),
            ),
            (
                "operations",
                lambda _: answers.gather_operations(repository),
                pages.render_operations,
            ),
        ]

    def _gather_array(self, request: Request) -> answers.ArrayAnswer:
        place = request.query_params.get("at", "")
        path = _need(request, "path")
        with self._reading:
            return answers.gather_array(self._repository, _ref(request), path, place)

    def _render_array(self, answer: answers.ArrayAnswer) -> Page:
        place = ",".join(map(str, answer.at))
        path = answer.array.path
        with self._reading:
            preview, reason = answers.try_slice(self._repository, answer.ref, path, place)
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
                preview = answers.read_slice(self._repository, ref, path, place)
        except (IcechunkError, ValueError, OSError, NotImplementedError) as error:
            failure = error if isinstance(error, IcechunkError) else InvalidInputError(str(error))
            return self._fail(failure, is_json=True)
        if preview is None or preview.values.ndim != 2:
            return self._fail(InvalidInputError(f"{path} has no slice to draw"), is_json=True)
        return Response(draw_slice(preview.values), media_type="image/png", headers=_HEADERS)


def make_app(
    repository: Repository, name: str, hosts: Sequence[str], token: str | None = None
) -> Starlette:
    """The pages of a repository, for requests to one of the hosts that have the token, if any."""
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


def _show_picture(answer: answers.ArrayAnswer, _: object) -> Html:
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
