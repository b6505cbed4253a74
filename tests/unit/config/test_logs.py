"""What is told, and how a program chooses it."""

import logging
from collections.abc import Iterator

import pytest

from frazil.config import initialize_logs, set_logs_filter, shutdown_telemetry


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
