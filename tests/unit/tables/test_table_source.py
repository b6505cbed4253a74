"""Tables are opened with no more than they need."""

import subprocess
import sys


def test_planning_loads_neither_xarray_nor_the_sql_parser_before_they_are_needed() -> None:
    modules = "aggregates, scan_plan, metadata_tables, table_source"
    code = f"import sys; from frazil.tables import {modules}; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = set(done.stdout.split())
    assert "frazil.tables.scan_plan" in loaded
    assert loaded.isdisjoint({"xarray", "sqlglot", "pyspark"})
