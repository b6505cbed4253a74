"""Whatever the lengths and chunks of files: they read as Xarray joins them, or are refused."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil import virtual
from frazil.virtual import ReferenceColumns, Severity
from frazil.virtual.source import concatenate
from frazil.virtual.virtualizarr import columns_of, manifest_of
from tests.virtual.files import days
from tests.virtual.repositories import commit, read


def write_files(folder: Path, lengths: Sequence[int], step: int, zlib: bool) -> list[Path]:
    paths = []
    for at, length in enumerate(lengths):
        start = sum(lengths[:at])
        encoding = {"zlib": zlib, "chunksizes": (min(step, length), 20, 30)}
        paths.append(folder / f"{at}.nc")
        days(start, length).to_netcdf(paths[-1], encoding={"t": encoding})
    return paths


@settings(max_examples=12, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    step=st.integers(1, 4),
    zlib=st.booleans(),
    order=st.randoms(use_true_random=False),
)
def test_files_read_as_joined_or_are_distinguished(lengths, step, zlib, order) -> None:  # type: ignore[no-untyped-def]
    with tempfile.TemporaryDirectory() as name:
        paths = write_files(Path(name), lengths, step, zlib)
        expected = xr.concat(
            [xr.load_dataset(path) for path in paths], "time", data_vars="minimal", join="exact"
        )
        order.shuffle(paths)

        sources = [virtual.open(path, small_bytes=0) for path in paths]
        plan = virtual.combine(sources, "time")

        steps = {min(step, length) for length in lengths}
        fits = len(steps) == 1 and all(length % min(steps) == 0 for length in lengths[:-1])
        assert (not plan.reencoded) == fits
        assert not plan.report.with_severity(Severity.STOPS)
        if fits:
            found = read(commit(plan, sources, Path(name)))
            xr.testing.assert_identical(found, expected)


@st.composite
def columns(draw: st.DrawFn) -> tuple[ReferenceColumns, tuple[int, ...]]:
    """References in some cells of a grid, inline chunks in others."""
    grid = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    cells = int(np.prod(grid))
    kinds = np.array(draw(st.lists(st.integers(0, 2), min_size=cells, max_size=cells)))
    places = np.stack(np.unravel_index(np.arange(cells), grid), axis=1).astype(np.int64)
    rows, inline = np.flatnonzero(kinds == 1), np.flatnonzero(kinds == 2)
    codes = np.array([draw(st.integers(0, 1)) for _ in rows], np.int32)
    return (
        ReferenceColumns(
            coordinates=places[rows],
            location_codes=codes,
            locations=("s3://bucket/a", "s3://bucket/b"),
            offsets=np.arange(len(rows), dtype=np.uint64),
            lengths=np.arange(1, len(rows) + 1, dtype=np.uint64),
            inline_coordinates=places[inline],
            inline_chunks=tuple(bytes([at + 1]) for at in range(len(inline))),
        ),
        grid,
    )


def rows_of(columns: ReferenceColumns) -> dict[tuple[int, ...], object]:
    """What is where, a row at a time."""
    texts = [columns.locations[code] for code in columns.location_codes]
    found: dict[tuple[int, ...], object] = {
        tuple(place): (text, offset, length)
        for place, text, offset, length in zip(
            columns.coordinates.tolist(), texts, columns.offsets.tolist(),
            columns.lengths.tolist(), strict=True,
        )
    }  # fmt: skip
    inline = zip(columns.inline_coordinates.tolist(), columns.inline_chunks, strict=True)
    return found | {tuple(place): data for place, data in inline}


@given(columns())
def test_columns_survive_being_a_manifest(drawn: tuple[ReferenceColumns, tuple[int, ...]]) -> None:
    given, grid = drawn

    found = columns_of(manifest_of(given, grid), len(grid))

    assert rows_of(found) == rows_of(given)


@given(columns(), st.integers(1, 9))
def test_parts_put_together_have_the_rows_of_each(
    drawn: tuple[ReferenceColumns, tuple[int, ...]], parts: int
) -> None:
    given, grid = drawn
    moved = [given.shift([at * grid[0], *[0] * (len(grid) - 1)]) for at in range(parts)]

    together = concatenate(moved)

    expected: dict[tuple[int, ...], object] = {}
    for part in moved:
        expected |= rows_of(part)
    assert rows_of(together) == expected
    assert len(set(together.locations)) == len(together.locations)
