"""Conditions: when they hold, how they show and join."""

import pickle

import pytest

import frazil
from frazil.config import (
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
)
from frazil.config.conditions import DEFAULT_PRELOAD_IF, AnyDimCondition
from tests.configs import PRELOAD_IF, SPLITTING

Preload, Split, Dim = ManifestPreloadCondition, ManifestSplitCondition, ManifestSplitDimCondition


def test_an_expression_is_searched_for_in_the_whole_path_or_in_the_name() -> None:
    assert Split.path_matches("mod").matches("/model/temperature")
    assert not Split.name_matches("mod").matches("/model/temperature")
    assert Split.name_matches("^temp").matches("/model/temperature")
    assert not Split.path_matches("^temp").matches("/model/temperature")


def test_an_expression_that_is_none_matches_nothing() -> None:
    assert not Split.path_matches("(").matches("/(")
    assert not Preload.name_matches("*").matches("/*", 1)
    assert not Dim.DimensionName("[").matches(0, "[")


def test_conditions_join() -> None:
    either = Split.name_matches("a") | Split.name_matches("b")
    both = Split.name_matches("a") & Split.name_matches("b")

    assert [either.matches(path) for path in ("/a", "/b", "/ab", "/c")] == [True, True, True, False]
    assert [both.matches(path) for path in ("/a", "/b", "/ab", "/c")] == [False, False, True, False]
    assert Split.AnyArray().matches("/c")
    assert not Split.or_conditions([]).matches("/c")
    assert Split.and_conditions([]).matches("/c")


def test_a_number_of_references_includes_its_first_bound_only() -> None:
    between = Preload.num_refs(2, 4)

    assert [between.matches("/a", number) for number in (1, 2, 3, 4)] == [False, True, True, False]
    assert Preload.num_refs(None, 4).matches("/a", 0)
    assert Preload.num_refs(4, None).matches("/a", 10**9)
    assert Preload.true().matches("/a", 0)
    assert not Preload.false().matches("/a", 0)


@pytest.mark.parametrize("name", ["time", "lat", "longitude", "x", "depth", "nav_lat", "t"])
def test_by_default_small_coordinates_are_fetched_ahead(name: str) -> None:
    assert DEFAULT_PRELOAD_IF.matches(f"/group/{name}", 1000)
    assert not DEFAULT_PRELOAD_IF.matches(f"/group/{name}", 1001)


def test_by_default_nothing_else_is_fetched_ahead() -> None:
    for name in ("temperature", "xy", "data"):
        assert not DEFAULT_PRELOAD_IF.matches(f"/{name}", 1)


def test_a_dimension_is_meant_by_number_by_name_or_always() -> None:
    assert Dim.Axis(1).matches(1, None)
    assert not Dim.Axis(1).matches(0, "1")
    assert Dim.DimensionName("^lat").matches(0, "latitude")
    assert not Dim.DimensionName("").matches(0, None)
    assert Dim.Any().matches(7, None)


def test_alternatives_are_instances_of_what_names_them() -> None:
    for each in (Dim.Axis(0), Dim.DimensionName("a"), Dim.Any()):
        assert isinstance(each, ManifestSplitDimCondition)


def test_a_representation_can_be_run_and_gives_the_same() -> None:
    for value in (PRELOAD_IF, SPLITTING, DEFAULT_PRELOAD_IF, Dim.DimensionName('"')):
        assert eval(repr(value), {"frazil": frazil}) == value


def test_conditions_are_equal_hashable_and_travel() -> None:
    assert Dim.Axis(3) == Dim.Axis(3)
    assert len({Split.AnyArray(), Split.AnyArray(), Split.name_matches("a")}) == 2
    assert pickle.loads(pickle.dumps(PRELOAD_IF)) == PRELOAD_IF


def test_splitting_goes_to_a_mapping_and_back() -> None:
    mapping: dict[ManifestSplitCondition, dict[AnyDimCondition, int]] = {
        Split.AnyArray(): {Dim.Axis(0): 2, Dim.Any(): 3}
    }

    assert ManifestSplittingConfig.from_dict(mapping).to_dict() == mapping
    assert ManifestSplittingConfig().to_dict() == {}
