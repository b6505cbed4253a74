"""Statistics of columns of all types, and of arrays that are cut in other ways."""

import numpy as np
import pytest
import xarray as xr

import frazil
from frazil import Repository
from frazil.tables.scan_plan import open_chunks, plan_scan
from frazil.tables.table_options import Options
from frazil.tables.table_source import open_source
from frazil.xarray import to_icechunk
from tests.unit.tables.measured import analyse


@pytest.fixture(scope="module")
def repo() -> Repository:
    """Twelve elements of each type, in chunks of three."""
    hours = np.arange(12)
    when = np.datetime64("2020-01-01", "ns") + hours * np.timedelta64(1, "h")
    when[3:6] = np.datetime64("NaT", "ns")
    dataset = xr.Dataset(
        {
            "moment": ("x", when),
            "large": ("x", np.arange(12, dtype="u8") + np.uint64(2**63)),
            "flag": ("x", hours >= 9),
            "name": ("x", np.array([f"n{n}" for n in hours], object)),
            "half": ("x", hours.astype("f2")),
            "coarse": (("y", "x"), np.arange(24.0).reshape(2, 12)),
        },
        {"x": hours},
    )
    cut = {name: {"chunks": (3,)} for name in dataset.data_vars if name != "coarse"}
    repo = Repository.create(frazil.in_memory_storage())
    session = repo.writable_session("main")
    to_icechunk(dataset, session, mode="w", encoding={**cut, "coarse": {"chunks": (1, 6)}})
    session.commit("types")
    analyse(repo)
    return repo


@pytest.mark.parametrize(
    ("name", "where", "chunks", "rows"),
    [
        ("moment", "moment < '2020-01-01T02:30:00'", 1, 3),
        ("moment", "moment IS NULL", 1, 3),
        ("moment", "moment = TIMESTAMP '2020-01-01 07:00:00'", 1, 1),
        ("large", "large = 9223372036854775810", 1, 1),
        ("large", "large < 5", 0, 0),
        ("large", "large >= -1", 4, 12),
        ("flag", "flag", 1, 3),
        ("flag", "NOT flag AND x > 4", 2, 4),
        ("name", "name = 'n1'", 4, 1),
        ("name", "name IS NULL", 0, 0),
        ("half", "half > 10.5", 1, 1),
    ],
)
def test_conditions_about_values_prune_chunks(
    repo: Repository, name: str, where: str, chunks: int, rows: int
) -> None:
    options = Options(where=where, variables=(name,))

    table = plan_scan(open_source(options, repo))

    assert table.count_chunks()[name].read == chunks
    assert sum(len(batch) for part in table.partitions() for batch in table.read(part)) == rows


def test_what_one_array_rules_out_is_not_read_of_another(repo: Repository) -> None:
    options = Options(where="half < 2 AND coarse > 17.5", variables=("half", "coarse"))

    table = plan_scan(open_source(options, repo))

    # Either leaves a chunk, but they share no cell.
    assert {name: each.read for name, each in table.count_chunks().items()} == {
        "half": 0,
        "coarse": 0,
    }
    assert not table.partitions()


def test_rows_of_chunks_are_those_that_can_have_such_cells(repo: Repository) -> None:
    options = Options(where="half BETWEEN 3 AND 4", variables=("half",), layout="chunks")

    table = open_chunks(open_source(options, repo))
    rows = [batch for part in table.partitions() for batch in table.read(part)]

    assert [row.column("chunk").to_pylist() for row in rows] == [[[1]]]
