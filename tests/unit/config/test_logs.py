"""Log messages, and how a program selects them."""

import logging
from collections.abc import Iterator

import pytest
import zarr

from frazil.config import (
    CachingConfig,
    RepositoryConfig,
    initialize_logs,
    set_logs_filter,
    shutdown_telemetry,
)
from frazil.repository import Repository
from frazil.storage import in_memory_storage


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The loggers as they were."""
    yield
    for name in ("frazil", "frazil.storage"):
        logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger(name).handlers.clear()


def test_a_level_holds_for_everything() -> None:
    set_logs_filter("debug")

    assert logging.getLogger("frazil").level == logging.DEBUG


def test_a_module_can_have_a_level_of_its_own() -> None:
    set_logs_filter("error, icechunk::storage=info")

    assert logging.getLogger("frazil").level == logging.ERROR
    assert logging.getLogger("frazil.storage").level == logging.INFO


def test_nothing_is_the_default() -> None:
    set_logs_filter(None)

    assert logging.getLogger("frazil").level == logging.WARNING


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'loud' is no level"):
        set_logs_filter("frazil=loud")


def test_setting_up_twice_shows_everything_once() -> None:
    initialize_logs()
    initialize_logs()
    shutdown_telemetry()

    assert len(logging.getLogger("frazil").handlers) == 1


def test_a_filter_replaces_the_one_before() -> None:
    set_logs_filter("error,icechunk::storage=debug")
    set_logs_filter("info")

    assert logging.getLogger("frazil").level == logging.INFO
    assert logging.getLogger("frazil.storage").level == logging.NOTSET


def test_the_environment_has_the_filter_of_those_who_name_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ICECHUNK_LOG", "debug")

    set_logs_filter(None)

    assert logging.getLogger("frazil").level == logging.DEBUG


@pytest.mark.parametrize("directive", ["false", "tokio:debug", "my_app::module=info"])
def test_modules_of_others_are_ignored(directive: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_logs_filter(directive)

    assert logging.getLogger("frazil").level > logging.CRITICAL
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("directive", ["icehunk:trace", "debug,icecunk::store=info"])
def test_a_misspelled_package_is_named(directive: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_logs_filter(directive)

    assert "did you mean 'icechunk'" in capsys.readouterr().err


def test_a_misspelled_level_is_refused() -> None:
    with pytest.raises(ValueError, match="'debgu' is no level"):
        set_logs_filter("debgu")


def test_lines_go_to_the_stream_that_is_chosen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_logs_filter("debug")
    Repository.create(in_memory_storage())
    shown = capsys.readouterr()
    monkeypatch.setenv("ICECHUNK_LOG_TO_STDOUT", "1")
    Repository.create(in_memory_storage())

    assert "DEBUG frazil.repository: Creating Repository" in shown.err
    assert shown.out == ""
    assert "Creating Repository" in capsys.readouterr().out


def test_caches_that_are_too_small_are_warned_of_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_logs_filter("warn")
    config = RepositoryConfig(caching=CachingConfig(num_chunk_refs=0, num_snapshot_nodes=0))
    repo = Repository.create(in_memory_storage(), config)
    for _ in range(2):
        session = repo.writable_session("main")
        zarr.create_array(
            session.store, shape=(4,), chunks=(2,), dtype="i4", name="a", overwrite=True
        )[:] = 1
        session.commit("an array")

    shown = capsys.readouterr().err
    assert shown.count("WARNING") == 2
    assert "2 chunk references is being loaded into the cache that can only keep 0" in shown
    assert "2 nodes" in shown
