"""Every URL of a repository can be spelled, and means the same when it is read again."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from frazil.urls import (
    OPTIONS,
    SCHEMES,
    SWITCHES,
    BranchRef,
    NamedRef,
    Ref,
    RepositoryUrl,
    Scheme,
    SnapshotRef,
    TagRef,
)

LETTERS = st.characters(exclude_characters="/\x00", exclude_categories=["Cs"])
NAMES = st.text(LETTERS, min_size=1)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
HOSTS = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True)
PATHS = st.lists(NAMES, max_size=3).map("/".join)
TIMES = st.datetimes(timezones=st.just(UTC), min_value=datetime(1970, 1, 1))
REFS: st.SearchStrategy[Ref | None] = st.one_of(
    st.none(),
    st.builds(BranchRef, ANY_TEXT, st.none() | TIMES),
    st.builds(TagRef, ANY_TEXT),
    st.builds(SnapshotRef, ANY_TEXT),
    st.builds(NamedRef, ANY_TEXT),
)


@st.composite
def urls(draw: st.DrawFn) -> RepositoryUrl:
    scheme: Scheme = draw(st.sampled_from(SCHEMES))
    names = sorted(OPTIONS[scheme] - {"endpoint_url"})
    chosen = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    options = {
        name: draw(st.sampled_from(["true", "false"]) if name in SWITCHES else ANY_TEXT)
        for name in sorted(chosen)
    }
    host = "" if scheme == "file" else draw(HOSTS)
    path = draw(PATHS)
    path = f"/{path}" if scheme == "file" else path
    return RepositoryUrl(scheme, host, path, draw(REFS), tuple(options.items()))


@given(urls())
def test_a_url_is_spelled_so_that_it_is_read_again(url: RepositoryUrl) -> None:
    assert RepositoryUrl.parse(str(url)) == url


@given(PATHS.filter(lambda path: "?" not in path and "@" not in path.rpartition("/")[2]))
def test_a_relative_path_is_itself(path: str) -> None:
    place = f"./{path}"

    url = RepositoryUrl.parse(place)

    assert url.path == place.rstrip("/")
    assert RepositoryUrl.parse(str(url)) == url
