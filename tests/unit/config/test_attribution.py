"""Labels of requests."""

import pytest

from frazil.config import Attribution


@pytest.mark.parametrize("client", ["a", "weather-lib/0.9", "a~!#$%&'*+-.^_`|1/2", "x" * 128])
def test_a_client_is_a_token_with_or_without_a_version(client: str) -> None:
    assert Attribution(client=client).client == client


@pytest.mark.parametrize("client", ["", "a b", "a/1/2", "/", "a/", "é", "x\x7f", "x" * 129])
def test_what_is_no_token_is_no_client(client: str) -> None:
    with pytest.raises(ValueError, match="attribution: client"):
        Attribution(client=client)


@pytest.mark.parametrize("label", ["", " ", "a b", "~", "nightly-ingest", "a,b[c]", "x" * 128])
def test_other_labels_are_what_can_be_printed(label: str) -> None:
    assert Attribution(workload=label, principal=label).principal == label


@pytest.mark.parametrize(
    "label", ["a(b", ")", "\\", "a;b", "a=b", '"', "é", "a\n", "\x7f", "x" * 129]
)
def test_what_would_break_the_header_is_no_label(label: str) -> None:
    with pytest.raises(ValueError, match="attribution: workload"):
        Attribution(workload=label)
