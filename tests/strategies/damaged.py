"""Repositories of any generation with one damaged object."""

from functools import cache

from hypothesis import strategies as st

from frazil.format.header import Dialect
from frazil.storage.memory import MemoryStorage
from tests.damages import ALL_DIALECTS, create_sample

Files = dict[str, bytes]


@cache
def _sample(dialect: Dialect) -> Files:
    storage = create_sample(dialect).storage
    return {info.key: bytes(storage.get(info.key)) for info in storage.list()}


@st.composite
def damaged_repositories(draw: st.DrawFn) -> tuple[MemoryStorage, str, bytes | None]:
    """A sample in which one object is lost (None), cut, changed, or another one."""
    files = _sample(draw(st.sampled_from(ALL_DIALECTS)))
    key = draw(st.sampled_from(sorted(files)))
    data = draw(_damage(files, key))
    damaged = MemoryStorage()
    for each, content in {**files, key: data}.items():
        if content is not None:
            damaged.put(each, content)
    return damaged, key, data


def _damage(files: Files, key: str) -> st.SearchStrategy[bytes | None]:
    data = files[key]
    places = st.integers(0, max(0, len(data) - 1))
    return st.one_of(
        st.none(),
        places.map(lambda at: data[:at]),
        st.sampled_from(sorted(files)).map(files.__getitem__),
        st.builds(lambda at, bit: _flip(data, at, bit), places, st.integers(0, 7)),
    )


def _flip(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes(byte ^ 1 << bit for byte in data[at : at + 1]) + data[at + 1 :]
