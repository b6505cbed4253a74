"""A dataset cut into random files, ingested in random batches, is that dataset again."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.archives.files import create, ingest, make, read, save

EXAMPLES = max(4, settings.default.max_examples // 8) if settings.default else 4


@st.composite
def cuts(draw: st.DrawFn) -> list[tuple[int, int]]:
    """The first step and the number of steps of each file, without gaps."""
    lengths = draw(st.lists(st.integers(1, 3), min_size=2, max_size=6))
    starts = np.cumsum([0, *lengths[:-1]]).tolist()
    return list(zip(starts, lengths, strict=True))


@pytest.mark.parametrize("mode", ["auto", "native"])
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_files_of_any_cut_in_any_order_are_the_dataset(mode: str, data: st.DataObject) -> None:
    files = data.draw(st.permutations(data.draw(cuts())), label="files")
    batches = data.draw(st.lists(st.booleans(), min_size=len(files), max_size=len(files)))
    with TemporaryDirectory() as folder:
        repo = create(Path(folder) / "repo")
        waiting: list[Path] = []
        for (start, count), is_last in zip(files, batches, strict=True):
            encoding = {
                "chunksizes": (data.draw(st.integers(1, count)), 8, 36),
                "shuffle": data.draw(st.booleans()),
            }
            epoch = data.draw(st.sampled_from(["days since 2020-01-01", "hours since 2019-06-01"]))
            part = make("t", start, count)
            waiting.append(save(part, Path(folder) / f"{start}.nc", encoding, units=epoch))
            if is_last:
                ingest(repo, waiting, append_dim="time", mode=mode)
                waiting = []
        if waiting:
            ingest(repo, waiting, append_dim="time", mode=mode)

        parts = [make("t", start, count) for start, count in sorted(files)]
        xr.testing.assert_equal(read(repo)["t"], xr.concat(parts, "time")["t"])
