import pytest

from frazil.errors import InvalidInputError
from frazil.format.paths import byte_order, parent_path, path_name, segment_order, validate_path


@pytest.mark.parametrize("path", ["/", "/a", "/a/b", "/a-b/c d", "/été/❄"])
def test_valid_paths_pass(path: str) -> None:
    assert validate_path(path) == path


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a//b", "/./a", "/a/.."])
def test_paths_that_are_not_canonical_are_refused(path: str) -> None:
    with pytest.raises(InvalidInputError, match="is no node path") as caught:
        validate_path(path)

    assert caught.value.kind == "invalid-path"


def test_snapshots_and_moves_order_the_same_paths_differently() -> None:
    paths = ["/aa", "/a/b", "/a-b", "/", "/a"]

    assert sorted(paths, key=byte_order) == ["/", "/a", "/a-b", "/a/b", "/aa"]
    assert sorted(paths, key=segment_order) == ["/", "/a", "/a/b", "/a-b", "/aa"]


def test_a_path_has_a_parent_and_a_name() -> None:
    assert (parent_path("/a/b"), path_name("/a/b")) == ("/a", "b")
    assert (parent_path("/a"), path_name("/a")) == ("/", "a")
    assert (parent_path("/"), path_name("/")) == ("/", "")
