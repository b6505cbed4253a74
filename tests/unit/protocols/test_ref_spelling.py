"""Names of refs as parts of keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.protocols.ref_files import RefSpelling, encode_name

ENCODED, PLAIN = RefSpelling(is_encoded=True), RefSpelling(is_encoded=False)

names = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("main", "main"),
        (" !$&'()+,-.0:;=@A_a", " !$&'()+,-.0:;=@A_a"),
        ('"#%*<>?[\\]^`{|}~', "%22%23%25%2A%3C%3E%3F%5B%5C%5D%5E%60%7B%7C%7D%7E"),
        ("\x00\n\x7f", "%00%0A%7F"),
        ("é", "%C3%A9"),
    ],
)
def test_names_are_encoded_as_the_official_library_does(name: str, spelled: str) -> None:
    assert encode_name(name) == spelled


@given(names)
def test_an_encoded_name_is_read_as_it_was(name: str) -> None:
    assert ENCODED.read(ENCODED.spell(name)[0]) == name


@given(names.filter(lambda name: "\0" not in name))
def test_a_plain_name_is_read_as_it_was(name: str) -> None:
    assert PLAIN.read(PLAIN.spell(name)[0]) == name


@given(names)
def test_both_spellings_are_looked_for(name: str) -> None:
    assert set(ENCODED.spell(name)) == set(PLAIN.spell(name))


def test_what_nobody_encodes_so_is_taken_as_it_is() -> None:
    assert ENCODED.read("a%b") == "a%b"
    assert ENCODED.read("a%20b") == "a%20b"
    assert ENCODED.read("%ff") == "%ff"
    assert PLAIN.read("%C3%A9") == "%C3%A9"


def test_a_slash_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        ENCODED.spell("a/b")
