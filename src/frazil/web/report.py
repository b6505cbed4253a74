"""The pages of a repository in one file, to be kept or sent: it needs no server and no network."""

from base64 import b64encode
from time import monotonic

from frazil.overview import Preview
from frazil.repository import Repository
from frazil.web import answers, pages
from frazil.web.html import Html, link, tag
from frazil.web.layout import lay_out, read_style
from frazil.web.links import ReportLinks
from frazil.web.pages import Page
from frazil.web.pictures import draw_slice

_MOST_ARRAYS = 30
"""So many are shown with a picture."""
MOST_SECONDS = 120.0


def render_report(
    repository: Repository, name: str, ref: str = "main", *, most_seconds: float = MOST_SECONDS
) -> str:
    """An HTML document with history, arrays, storage and operations.

    Values of arrays are read until so many seconds are over, and then no more.
    """
    end = monotonic() + most_seconds
    tree = answers.gather_tree(repository, ref)
    arrays = [each.path for each in tree.nodes if each.shape is not None][:_MOST_ARRAYS]
    links = ReportLinks({path: f"array-{number}" for number, path in enumerate(arrays)})
    sections = [
        ("history", pages.render_home(answers.gather_home(repository, name), links)),
        ("arrays", pages.render_tree(tree, links)),
        *((links.arrays[path], _render_array(repository, ref, path, end)) for path in arrays),
        ("storage", pages.render_storage(answers.gather_storage(repository, ref), links)),
        ("operations", pages.render_operations(answers.gather_operations(repository))),
    ]
    body = Html.join(_section(anchor, page) for anchor, page in sections)
    parts = ("history", "arrays", "storage", "operations")
    navigation = tag("nav", *(link(f"#{each}", each.title()) for each in parts), aria_label="Parts")
    style = tag("style", Html(read_style()))
    return lay_out(Page(f"Report of {ref}", body), name, style, navigation)


def _section(anchor: str, page: Page) -> Html:
    return tag("section", tag("h2", page.title), page.body, id=anchor)


def _render_array(repository: Repository, ref: str, path: str, end: float) -> Page:
    if monotonic() >= end:
        answer = answers.gather_array(repository, ref, path, reads_values=False)
        late = "its values were not read, because the report took too long already"
        return pages.render_array(answer, None, late, _embed, is_asking=False)
    answer = answers.gather_array(repository, ref, path)
    preview, reason = answers.try_slice(repository, ref, path, "")
    return pages.render_array(answer, preview, reason, _embed, is_asking=False)


def _embed(answer: answers.ArrayAnswer, preview: Preview) -> Html:
    data = b64encode(draw_slice(preview.values)).decode()
    return tag("img", src=f"data:image/png;base64,{data}", alt=f"slice of {answer.array.path}")
