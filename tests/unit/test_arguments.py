"""Arguments of wrong types end in an error that says what to pass."""

import asyncio
import inspect
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.buffer import cpu

import frazil
from frazil.errors import IcechunkError, InvalidInputError, InvalidTypeError

WRONG: list[Any] = [
    3, 3.5, "x", "2020-01-01", b"x", ["*"], {"a": 1}, object(), ("a",), datetime(2020, 1, 1),
    "\ud800", True, -1, float("nan"), None,
]  # fmt: skip
ZARRS_OWN = {
    "get", "get_partial_values", "get_ranges", "get_ranges_sync", "get_sync", "set",
    "set_partial_values", "set_sync",
}  # fmt: skip
"""Methods of a store whose errors Zarr prescribes, or which are Zarr's."""


@pytest.fixture
def repository() -> frazil.Repository:
    repository = frazil.Repository.create(frazil.in_memory_storage())
    session = repository.writable_session("main")
    array = zarr.create_group(session.store).create_array(
        "a", shape=(4,), chunks=(2,), dtype="int32"
    )
    array[:] = 1
    session.commit("an array")
    return repository


def find_methods(cls: type) -> Iterator[tuple[str, list[inspect.Parameter]]]:
    for name in sorted(dir(cls)):
        method = inspect.getattr_static(cls, name)
        if name.startswith("_") or name in ZARRS_OWN or isinstance(method, property):
            continue
        function = getattr(cls, name)
        if callable(function) and function.__module__.startswith("frazil"):
            found = inspect.signature(function).parameters.values()
            variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
            own = [each for each in found if each.name != "self" and each.kind not in variable]
            yield name, own


def pick(name: str, repository: frazil.Repository) -> Any:
    if name == "storage":
        return frazil.in_memory_storage()
    if "snapshot" in name:
        return repository.lookup_branch("main")
    if "older_than" in name:
        return datetime(2020, 1, 1, tzinfo=UTC)
    return {"branch": "main", "message": "m", "array_path": "a", "path": "/a"}.get(name, "x")


async def _finish(found: Any) -> None:
    if inspect.isawaitable(found):
        found = await found
    if hasattr(found, "__anext__"):
        async for _ in found:
            pass
    elif hasattr(found, "__next__"):
        list(found)


def run_all(cls: type, repository: frazil.Repository, make: Any) -> list[str]:
    """Calls that ended in an error of Python's, with the error."""
    raw = []
    for name, parameters in find_methods(cls):
        for wrong in parameters:
            for value in WRONG:
                arguments = {
                    each.name: value if each is wrong else pick(each.name, repository)
                    for each in parameters
                    if each is wrong or each.default is each.empty
                }
                try:
                    asyncio.run(_finish(getattr(make(), name)(**arguments)))
                except IcechunkError:
                    pass
                except Exception as error:
                    if "give one of branch, tag and snapshot_id" in str(error):
                        continue  # a plain ValueError, as in the official library
                    raw.append(f"{name}({wrong.name}={value!r}): {error!r}")
    return raw


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("part", ["repository", "session", "store"])
def test_no_argument_of_a_wrong_type_ends_in_an_error_of_python(
    repository: frazil.Repository, part: str
) -> None:
    def session() -> frazil.Session:
        return repository.writable_session("main")

    match part:
        case "repository":
            raw = run_all(frazil.Repository, repository, lambda: repository)
        case "session":
            raw = run_all(frazil.Session, repository, session)
        case _:
            raw = run_all(frazil.IcechunkStore, repository, lambda: session().store)

    assert raw == []


def test_the_message_says_what_to_pass(repository: frazil.Repository) -> None:
    with pytest.raises(
        InvalidTypeError, match=r"invalid storage 'path' of open: .*storage_from_url"
    ):
        frazil.Repository.open("path")  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match=r"expected a datetime .* tzinfo=UTC"):
        repository.readonly_session("main", as_of="2020-01-01")  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match=r"expected a mapping .*credentials"):
        frazil.Repository.open(
            repository.storage,
            authorize_virtual_chunk_access=["*"],  # type: ignore[arg-type]
        )
    with pytest.raises(InvalidTypeError, match="expected a RepositoryConfig"):
        frazil.Repository.create(frazil.in_memory_storage(), {})  # type: ignore[arg-type]


def test_it_is_what_python_code_would_catch() -> None:
    with pytest.raises(TypeError):
        frazil.Repository.open("path")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="invalid storage"):
        frazil.Repository.open("path")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        asyncio.run(frazil.Repository.open_async("path"))  # type: ignore[arg-type]


def test_half_of_a_surrogate_pair_is_no_key_and_no_name(repository: frazil.Repository) -> None:
    session = repository.writable_session("main")
    value = cpu.Buffer.from_bytes(b'{"zarr_format":3,"node_type":"group"}')

    with pytest.raises(InvalidInputError):
        session.store.set_sync("x\ud800/zarr.json", value)
    with pytest.raises(InvalidInputError):
        asyncio.run(session.store.set("x\udfff/zarr.json", value))
    with pytest.raises(InvalidInputError, match="lone surrogate"):
        repository.create_tag("\ud800", session.snapshot_id)
    with pytest.raises(InvalidInputError, match="lone surrogate"):
        session.commit("\ud800")
    session.store.set_sync("grüße ☀/zarr.json", value)
    session.commit("☀")


def test_what_python_takes_for_a_number_is_one(repository: frazil.Repository) -> None:
    stats = repository.chunk_storage_stats(max_snapshots_in_memory=np.int64(3))  # type: ignore[arg-type]

    assert stats.total_bytes() > 0


def test_methods_keep_their_signatures() -> None:
    assert list(inspect.signature(frazil.Repository.open).parameters) == [
        "storage", "config", "authorize_virtual_chunk_access", "attribution",
    ]  # fmt: skip
    assert inspect.iscoroutinefunction(frazil.Repository.open_async)
    assert inspect.iscoroutinefunction(frazil.Session.commit_async)


@pytest.mark.parametrize(
    ("version", "words"),
    [("v1", "Couldn't parse a valid version"), (255, "Unsupported version 255")],
)
def test_a_version_that_is_none_is_refused_in_the_official_words(version: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        frazil.Repository.create(frazil.in_memory_storage(), spec_version=version)
