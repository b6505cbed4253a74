import ast
import copy
import pickle
from pathlib import Path

import pytest

from frazil import errors
from frazil.errors import IcechunkError

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, IcechunkError)
]

# What a class asks for, or may be given, besides the message.
DETAILS: dict[str, dict[str, object]] = {
    "ConflictError": {"expected_parent": "A", "actual_parent": None},
    "RebaseFailedError": {"snapshot": "B", "conflicts": ("first", "second")},
    "InvalidChunksError": {"coordinates": ((1, 2), (3, 4))},
    "InvalidSourcesError": {"files": ("s3://bucket/a.nc", "s3://bucket/b.nc")},
    "FailedChecksError": {"findings": ("first", "second"), "files": ("a.nc",)},
    "OverlappingTasksError": {"chunks": {"/a": [(1, 2)]}},
}


def test_every_exception_is_in_the_tree_of_the_docstring() -> None:
    assert errors.__doc__ is not None

    for cls in CLASSES:
        assert f" {cls.__name__} " in f" {errors.__doc__} ".replace("\n", " ")


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy])
def test_an_exception_survives_being_pickled(cls: type[IcechunkError], again: object) -> None:
    details = DETAILS.get(cls.__name__, {})
    error = cls(message='it\'s "broken"', kind="a-kind", **details)
    assert callable(again)

    restored = again(error)

    assert type(restored) is cls
    assert str(restored) == restored.message == 'it\'s "broken"'
    assert restored.kind == "a-kind"
    assert restored.args == error.args
    assert vars(restored) == vars(error)
    for name, value in details.items():
        kept = getattr(restored, name)
        assert (tuple(kept) if isinstance(kept, list) else kept) == value


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_exception_has_the_kind_of_its_class_unless_given(cls: type[IcechunkError]) -> None:
    error = cls(message="message", **DETAILS.get(cls.__name__, {}))  # type: ignore[arg-type]

    assert error.kind == cls.default_kind


def test_conflicts_are_made_of_what_the_official_library_takes() -> None:
    conflict = errors.ConflictError("A", "B")
    rebase = errors.RebaseFailedError("C", ["first"])
    reported = errors.ConflictError(None, None, "somebody was first", "branch-update-conflict")

    assert str(conflict) == (
        'Failed to commit, expected parent: Some("A"), actual parent: Some("B")'
    )
    assert (conflict.expected_parent, conflict.actual_parent) == ("A", "B")
    assert str(rebase) == "Rebase failed on snapshot C: 1 conflicts found"
    assert rebase.conflicts == ["first"]
    assert (str(reported), reported.kind) == ("somebody was first", "branch-update-conflict")


def test_our_additions_come_after_the_official_message() -> None:
    error = errors.ConflictError("A", None, kind="branch-update-conflict", addition="try again")

    assert str(error) == 'branch update conflict: `(Some("A")) != (None)`: try again'


def test_an_exception_shows_its_class_message_and_kind() -> None:
    assert repr(errors.RefNotFoundError('no "x"')) == (
        'frazil.RefNotFoundError(message="no \\"x\\"", kind="ref-not-found")'
    )


def test_errors_are_also_what_python_code_would_catch() -> None:
    assert issubclass(errors.NotFoundError, KeyError)
    assert issubclass(errors.InvalidInputError, ValueError)
    assert issubclass(errors.InvalidTypeError, TypeError)


def test_a_missing_key_shows_its_message_without_quotes() -> None:
    assert str(errors.NodeNotFoundError("no node '/a'")) == "no node '/a'"


def test_classes_that_users_import_are_named_after_the_package() -> None:
    assert repr(errors.NodeNotFoundError) == "<class 'frazil.NodeNotFoundError'>"
    assert pickle.loads(pickle.dumps(errors.NodeNotFoundError)) is errors.NodeNotFoundError


def test_every_kind_that_is_raised_is_a_code() -> None:
    source = Path(errors.__file__).parent
    found = {
        each.value.value
        for file in source.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and "Error" in ast.unparse(node.func)
        for each in node.keywords
        if each.arg == "kind" and isinstance(each.value, ast.Constant)
    }

    assert len(found) > 10
    assert found | {cls.default_kind for cls in CLASSES} <= set(errors.ErrorKind)


def test_a_code_is_a_text() -> None:
    assert str(errors.ErrorKind.CHUNK_NOT_FOUND) == "chunk-not-found"
    assert len(errors.ErrorKind) == 100
