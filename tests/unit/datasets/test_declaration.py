"""Declarations are read whole, with every problem and its line."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from frazil.datasets import Declaration, DeclarationError, load
from frazil.datasets.steps import Steps, Values, expand, parse_span
from frazil.errors import InvalidInputError
from frazil.virtual.new_dimensions import make_index
from tests.pages import DOCS

SMALL: dict[str, Any] = {"repository": "repo", "sources": {"files": ["in/*.nc"]}}
WRONG = """repository = "repo"
brnch = "main"

[sources]
files = [
  "in/*.nc",
  "https://user:word@host/x.nc",
]
lookback = "3 parsecs"

[dimensions.time]
start = 2026-01-01
step = "6h"
delay = 3

[variables.t2m]
unit = "K"

[[checks]]
kind = "unique"

[[checks]]
kind = "fill_share"

[credentials.archive]
kind = "bearer"
token_env = "TOKEN"
password = "secret"
"""


def test_all_problems_are_reported_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "dataset.toml"
    path.write_text(WRONG)

    with pytest.raises(DeclarationError) as caught:
        load(path)

    lines = [int(each.partition(":")[0].removeprefix("line ")) for each in caught.value.problems]
    assert lines == sorted(lines)
    assert set(lines) == {2, 7, 9, 14, 17, 22, 28}
    text = str(caught.value)
    assert "did you mean 'branch'?" in text
    assert "did you mean 'units'?" in text
    assert "secret" not in text.replace("holds a secret", "")
    assert "word" not in text.replace("'password'", "").replace("credentials.archive.password", "")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"guards": {"freshness": "1d"}}, "guards.freshness: freshness needs a first dimension"),
        ({"sources": {"files": ["in/{time:%Y}.nc"]}}, "no first dimension with start and step"),
        ({"sources": {}}, "neither files nor a listing"),
        ({"sources": {"files": ["x"], "credentials": "nasa"}}, "no credentials 'nasa'"),
        ({"repository": "repo@v1"}, "names a version"),
        ({"mode": "virtual", "chunks": {"time": 1}}, "need mode"),
        ({"dimensions": {"time": {"step": "6h"}}}, "start and step belong together"),
        (
            {
                "dimensions": {"time": {"start": "2026-01-01", "step": "6h"}},
                "retention": {"steps": "1h"},
            },
            "retention.steps: 1h is shorter than one step of 6h",
        ),
        (
            {"derive": [{"output": "o", "chunk": {"time": 1}}]},
            "derive.0.chunk: .*did you mean 'chunks'",
        ),
        ({"variables": {"t": {"between": [9, 1]}}}, "variables.t.between: 9.0 is larger than 1.0"),
        ({"notify": [{}]}, "give one of command, url, url_env"),
        ({"variables": {"t": {"attributes": {"units": "K"}}}}, "use units"),
    ],
)
def test_contradictions_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        load({**SMALL, **more})


def test_wrong_values_and_derived_datasets_are_all_reported(tmp_path: Path) -> None:
    path = tmp_path / "dataset.toml"
    path.write_text("""repository = "repo"
mode = "virtul"
[sources]
files = ["in/*.nc"]
[variables.t2m]
between = "warm"
[guards]
duplicates = "replce"
[credentials]
archive = "word"
[[derive]]
output = "daily"
by = { time = "1D" }
groupby = "time.month"
how = "median"
[[derive]]
output = "/daily/"
chunk = { time = 1 }
[[derive]]
output = "monthly"
how = "men"
""")

    with pytest.raises(DeclarationError) as caught:
        load(path)

    problems = dict(each.removeprefix("line ").split(": ", 1) for each in caught.value.problems)
    assert set(problems) == {"2", "6", "8", "10", "11", "17", "18", "19"}
    assert problems["2"] == "mode: unknown value 'virtul': did you mean 'virtual'?"
    assert problems["6"] == "variables.t2m.between: expected a list, not 'warm'"
    assert "did you mean 'replace'?" in problems["8"]
    assert "by and groupby" in problems["11"]
    assert problems["17"].endswith("'/daily/' is the output of derived dataset 1, too")
    assert "did you mean 'chunks'?" in problems["18"]
    assert "did you mean 'mean'?" in problems["19"]
    assert "word" not in str(caught.value)


def test_a_folder_is_no_declaration(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"is a folder.*`frazil show .*` and `frazil log"):
        load(tmp_path)


def test_every_key_is_on_the_page() -> None:
    page = (DOCS / "datasets.md").read_text("utf-8")
    missing, waiting = [], [Declaration]
    while waiting:
        model: type[BaseModel] = waiting.pop()
        for name, field in model.model_fields.items():
            if f"`{name}`" not in page and f"{name}`" not in page and f"{name} =" not in page:
                missing.append(f"{model.__name__}.{name}")
            found = [field.annotation]
            while found:
                each = found.pop()
                if isinstance(each, type) and issubclass(each, BaseModel):
                    waiting.append(each)  # type: ignore[arg-type]
                found += getattr(each, "__args__", ())

    names = "sources dimensions variables checks guards retention maintenance validation derive"
    tables = {
        f"Declaration.{name}" for name in (*names.split(), "notify", "observe", "credentials")
    }
    assert set(missing) <= tables


@pytest.mark.parametrize(
    ("text", "months", "seconds"),
    [
        ("6h", 0, 21600),
        ("1h30min", 0, 5400),
        ("10 days", 0, 864000),
        ("1 month", 1, 0),
        ("2y", 24, 0),
    ],
)
def test_spans_are_numbers_with_units(text: str, months: int, seconds: int) -> None:
    assert (parse_span(text).months, parse_span(text).delta) == (months, timedelta(seconds=seconds))


@pytest.mark.parametrize("text", ["", "6", "h6", "0h", "1 month 3h", "-1h", "1.5 months"])
def test_other_spans_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="invalid time span"):
        parse_span(text)


def test_an_axis_is_counted_in_the_units_of_the_files() -> None:
    start = datetime(2026, 1, 31, tzinfo=UTC)
    index = make_index("time", [start, datetime(2026, 5, 31, tzinfo=UTC)], 2)

    months = Steps(start, parse_span("1 month"))([index])

    days = np.array(months, "M8[s]").astype("M8[D]").astype(str).tolist()
    assert days == ["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31"]
    with pytest.raises(InvalidInputError, match="calendar"):
        Steps(start, parse_span("1 month"), "noleap")([index])


def test_a_calendar_of_models_is_counted_by_its_own_days() -> None:
    index = make_index("time", [0, 59], 2)
    attributes = {"units": "days since 2000-01-01", "calendar": "noleap"}
    index.metadata["attributes"].update(attributes)

    values = Steps(datetime(2000, 1, 1, tzinfo=UTC), parse_span("1 month"), "noleap")([index])

    assert values.tolist() == [0, 31, 59]


def test_values_take_the_type_of_the_coordinate() -> None:
    assert Values((0, 3))([make_index("lead", [0.0, 1.0], 2)]).dtype == np.float64
    with pytest.raises(InvalidInputError, match="'lead'"):
        Values((0.5,))([make_index("lead", [0, 1], 2)])


def test_patterns_name_each_step_once() -> None:
    moments = [datetime(2026, 1, 31, hour, tzinfo=UTC) for hour in (0, 6, 12)]

    assert expand("a/{t:%Y%m%d}/*.nc", "t", moments) == ["a/20260131/*.nc"]
    assert expand("a/{t:%d/%H}.nc", "t", moments)[1:] == ["a/31/06.nc", "a/31/12.nc"]
