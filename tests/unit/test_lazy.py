"""Frazil under the name of the official library; in processes of their own, because it stays."""

import dataclasses
import gc
import inspect
import math
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from frazil.lazy import CollectorPause, dataclass, lazy_modules


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


def declare(decorate: Callable[..., Any]) -> list[Any]:
    """Return classes with all features of dataclasses that Frazil uses, and values of them."""

    @decorate(frozen=True, slots=True)
    class Base:
        """Base."""

        a: int
        b: "str" = "b"

    @decorate(frozen=True, slots=True)
    class Child(Base):
        """Child."""

        _: dataclasses.KW_ONLY
        c: list[int] = dataclasses.field(default_factory=list, hash=False)
        d: int = dataclasses.field(default=4, compare=False, repr=False)
        e: int = dataclasses.field(default=5, init=False)

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("negative")

    @decorate(slots=True, kw_only=True)
    class Mutable:
        """Mutable."""

        x: int = 0
        y: int

    @decorate(frozen=True, slots=True, eq=False, repr=False)
    class Plain:
        """Plain."""

        def __repr__(self) -> str:
            return "plain"

    return [Base, Child, Mutable, Plain]


def test_a_dataclass_is_that_of_the_standard_library() -> None:
    for ours, theirs in zip(declare(dataclass), declare(dataclasses.dataclass), strict=True):
        assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
        assert ours.__match_args__ == theirs.__match_args__
        assert ours.__slots__ == theirs.__slots__
        assert (ours.__hash__ is None) == (theirs.__hash__ is None)
        names = [[each.name for each in dataclasses.fields(cls)] for cls in (ours, theirs)]
        assert names[0] == names[1]


@pytest.mark.parametrize("decorate", [dataclass, dataclasses.dataclass], ids=["ours", "theirs"])
def test_values_of_a_dataclass(decorate: Callable[..., Any]) -> None:
    base, child, mutable, plain = declare(decorate)

    assert base(1) == base(1, "b") != base(2)
    assert base(1) != child(1)
    assert hash(base(1)) == hash(base(1))
    assert hash(child(1, c=[1])) == hash(child(1, c=[2]))
    assert child(1, d=1) == child(1, d=2)
    assert child(1).c is not child(1).c
    assert repr(child(1)).endswith("Child(a=1, b='b', c=[], e=5)")
    assert dataclasses.replace(base(1), b="c") == base(1, "c")
    assert repr(plain()) == "plain"
    assert plain() != plain()
    value = mutable(y=1)
    value.x = 2
    assert value == mutable(x=2, y=1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="assign to field 'a'"):
        base(1).a = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="delete field 'a'"):
        del base(1).a
    with pytest.raises((AttributeError, TypeError)):
        base(1).other = 1
    with pytest.raises(ValueError, match="negative"):
        child(-1)
    with pytest.raises(TypeError, match="__init__\\(\\) missing 1 required"):
        base()


def test_arguments_of_a_dataclass_are_those_of_a_function() -> None:
    _, child, mutable, _ = declare(dataclass)

    assert repr(child(1, c=[2])).endswith("Child(a=1, b='b', c=[2], e=5)")
    assert (mutable(y=1).x, mutable(x=2, y=1).x) == (0, 2)
    for arguments, message in (
        (((), {}), "__init__\\(\\) missing 1 required positional argument: 'a'"),
        (((1, "b", 3), {}), "takes from 2 to 3 positional arguments but 4 were given"),
        (((1,), {"a": 1}), "got multiple values for argument 'a'"),
        (((1,), {"z": 1}), "got an unexpected keyword argument 'z'"),
    ):
        base, *_ = declare(dataclass)
        with pytest.raises(TypeError, match=message):
            base(*arguments[0], **arguments[1])


@dataclass(frozen=True, slots=True)
class Sent:
    """Value that is pickled."""

    a: int
    b: str = "b"


def test_a_frozen_dataclass_is_pickled() -> None:
    assert pickle.loads(pickle.dumps(Sent(1))) == Sent(1)


def test_a_thread_waits_for_another_that_imports_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "halves", (begun, go_on), raising=False)
    name = f"half_{tmp_path.name}"
    code = "import sys\nsys.halves[0].set()\nassert sys.halves[1].wait(60)\nvalue = 7\n"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    (module,) = lazy_modules(name)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(getattr, module, "value")
        assert begun.wait(60)
        second = threads.submit(getattr, module, "value")
        is_early = wait([second], timeout=0.2).done
        go_on.set()

        assert not is_early
        assert (first.result(), second.result()) == (7, 7)


def test_a_lazy_module_can_be_pickled() -> None:
    (module,) = lazy_modules("math")

    assert pickle.loads(pickle.dumps(module)).pi == math.pi


_COUNT_YOUNG = """
import gc, sys
gc.collect()
gc.freeze() if {frozen} else None
before = gc.get_freeze_count()
import frazil
frazil.Repository
assert "frazil.repository.repository" in sys.modules
print(len(gc.get_objects(0)) + len(gc.get_objects(1)), gc.get_freeze_count() - before, gc.isenabled())
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="its collector has other generations")
@pytest.mark.parametrize("frozen", [False, True])
def test_what_modules_create_is_old_for_the_collector_unless_the_program_has_frozen_objects(
    frozen: bool,
) -> None:
    shown = subprocess.check_output([sys.executable, "-c", _COUNT_YOUNG.format(frozen=frozen)])
    young, more_frozen, is_enabled = shown.split()

    assert (int(young) < 500) is not frozen
    assert (int(more_frozen) <= 0, is_enabled) == (True, b"True")


def test_a_pause_of_the_collector_ends_with_the_outermost_context() -> None:
    with CollectorPause():
        with CollectorPause():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_pause_of_the_collector_ends_if_the_work_fails() -> None:
    with pytest.raises(ZeroDivisionError), CollectorPause():
        _ = 1 // 0
    assert gc.isenabled()


def test_a_pause_leaves_a_collector_alone_that_the_program_has_disabled() -> None:
    gc.disable()
    try:
        with CollectorPause():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
