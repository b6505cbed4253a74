"""Frazil under the name of the official library; in processes of their own, because it stays."""

import subprocess
import sys

import pytest


def run(code: str) -> str:
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return child.stdout.strip()


def test_frazil_is_imported_under_the_official_name() -> None:
    code = """
import frazil
frazil.install_as_icechunk()
frazil.install_as_icechunk()

import icechunk, icechunk.config, icechunk.session
from icechunk.distributed import merge_sessions
from icechunk import IcechunkStore, xarray

assert icechunk is frazil
assert icechunk.__version__ == "2.3.0"
assert icechunk.session is frazil.repository.session
assert icechunk.session.ForkSession is frazil.ForkSession
assert merge_sessions is frazil.distributed.merge_sessions
assert IcechunkStore is frazil.repository.store.IcechunkStore
assert xarray is frazil.xarray
home = "frazil.repository.session"
assert frazil.session.__spec__.name == frazil.session.__name__ == home
print("done")
"""

    assert run(code) == "done"


def test_the_official_compiled_module_is_found() -> None:
    code = """
import frazil
frazil.install_as_icechunk()
from icechunk._icechunk_python import LatencyStorage, RepoUpdateRetryConfig, SnapshotInfo
from icechunk._icechunk_python import _all_error_kinds
import icechunk.testing

assert LatencyStorage is icechunk.testing.LatencyStorage is frazil.testing.LatencyStorage
assert RepoUpdateRetryConfig is frazil.config.RepoUpdateRetryConfig
assert SnapshotInfo is frazil.SnapshotInfo
assert set(_all_error_kinds()) == {kind.value for kind in frazil.ErrorKind}
try:
    from icechunk._icechunk_python import nothing
except ImportError:
    print("done")
"""

    assert run(code) == "done"


def test_what_is_shown_can_be_run_under_the_name_that_is_imported() -> None:
    code = """
import frazil
config = frazil.RepositoryConfig(caching=frazil.CachingConfig(num_chunk_refs=3))
before = repr(config)
frazil.install_as_icechunk()
import icechunk

assert eval(before, {"frazil": frazil}) == config
assert eval(repr(config), {"icechunk": icechunk}) == config
assert repr(icechunk.in_memory_storage()).startswith("<icechunk.Storage>")
print(repr(frazil.ConflictError("a", "b")))
"""

    assert run(code).startswith("icechunk.ConflictError(message=")


def test_nothing_is_loaded_before_it_is_imported() -> None:
    code = """
import sys, frazil
frazil.install_as_icechunk()
import icechunk
print({"zarr", "xarray", "dask", "numpy"} & sys.modules.keys())
"""

    assert run(code) == "set()"


def test_a_module_that_nobody_has_is_not_found() -> None:
    code = """
import frazil
frazil.install_as_icechunk()
try:
    import icechunk.nothing
except ModuleNotFoundError as error:
    print(error)
"""

    assert "icechunk.nothing" in run(code)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the official library needs Python 3.12")
def test_it_is_refused_when_the_official_library_is_in_use() -> None:
    pytest.importorskip("icechunk", reason="the official library is not installed")
    code = """
import frazil, icechunk
try:
    frazil.install_as_icechunk()
except RuntimeError as error:
    print(error)
"""

    assert "before" in run(code)
