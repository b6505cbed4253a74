"""A few seconds' worth of the fuzz run, the same files every time; `run.py` tries as many as asked."""

import random

import pytest

from frazil.errors import FormatError
from tests.fuzz import corpus, target
from tests.fuzz.cases import make_case, make_cases, try_cases
from tests.fuzz.corpus import Corpus, read_corpus
from tests.fuzz.mutations import Envelope
from tests.fuzz.target import MisbehaviourError, decode_completely, decode_frugally

PART = 500


@pytest.fixture(scope="module")
def honest_files() -> Corpus:
    return read_corpus()


@pytest.mark.parametrize("first", range(0, 3000, PART))
def test_a_damaged_file_is_read_or_refused_by_name(honest_files: Corpus, first: int) -> None:
    cases = make_cases(honest_files, seed=0, numbers=range(first, first + PART))

    tally = try_cases(cases)

    assert [(failure.case.number, failure.why) for failure in tally.failures] == []
    assert tally.refused.total() > PART // 2


def test_every_honest_file_is_read(honest_files: Corpus) -> None:
    seeds = [seed for group in honest_files.values() for seed in group]

    refused = [seed for seed in seeds if not decode_completely(seed.kind, seed.data)]

    assert refused == []


def test_a_case_can_be_made_again(honest_files: Corpus) -> None:
    assert make_case(honest_files, 7, 1234) == make_case(honest_files, 7, 1234)
    assert make_case(honest_files, 7, 1234) != make_case(honest_files, 8, 1234)


def test_an_envelope_survives_being_opened_and_sealed(honest_files: Corpus) -> None:
    chance = random.Random(0)
    for group in honest_files.values():
        envelope = Envelope.open(group[0].data)

        again = Envelope.open(envelope.seal(envelope.payload, chance))

        assert again == envelope


# The harness itself must notice


def test_other_errors_unnamed_files_slowness_and_waste_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: bytes) -> None:
        raise ValueError("not ours")

    def refuse_without_name(_: bytes) -> None:
        raise FormatError("something is wrong")

    def waste(_: bytes) -> None:
        bytes(100 * 2**20)

    def dawdle(_: bytes) -> None:
        for _number in range(1_100_000):
            len(b"")

    for decode, message in (
        (fail, "ValueError: not ours"),
        (refuse_without_name, "does not name the file"),
        (waste, "bytes of memory for a file of 3"),
        (dawdle, "calls for a file of 3"),
    ):
        monkeypatch.setitem(target._DECODERS, corpus.SNAPSHOT, decode)
        with pytest.raises(MisbehaviourError, match=message):
            decode_frugally(corpus.SNAPSHOT, b"abc")
