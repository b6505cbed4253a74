"""Whatever the history and the clocks, expiry and garbage collection take nothing that somebody needs.

After each step all that branches and tags lead to is there, and reads as dicts say. Cutoffs are before,
at and after the times of objects; the clocks of writers and of the storage are wrong by some seconds.
"""

import os

import pytest

from frazil.format.header import Dialect
from tests.gc_programs import World, run_programs

DEEP = "FRAZIL_DEEP" in os.environ
EXAMPLES = {Dialect.V2: 20, Dialect.V1: 12, Dialect.ALPHA_H: 4, Dialect.DRAFT: 4}


@pytest.mark.parametrize("dialect", EXAMPLES, ids=lambda dialect: dialect.value)
def test_nothing_that_is_needed_is_ever_deleted(dialect: Dialect) -> None:
    run_programs(World, dialect, EXAMPLES[dialect] * (50 if DEEP else 1))
