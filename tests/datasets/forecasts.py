"""A forecast centre that sends files late, in pieces, twice, corrected and broken."""

import random
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

START = datetime(2026, 1, 1, tzinfo=UTC)
LEADS, MEMBERS, SHAPE = (0, 6), (0, 1), (8, 40)
"""A field is larger than what is written inline."""

DECLARATION = """
repository = "{repository}"
mode = "{mode}"
engine = "{engine}"

[sources]
files = ["in/{{init_time:%Y%m%d}}*.h5"]
lookback = "5d"

[dimensions.init_time]
start = 2026-01-01T00:00:00Z
step = "1d"
delay = "3h"

[dimensions.lead_time]
values = {{ first = 0, last = 6, step = 6 }}

[dimensions.member]
values = [0, 1]

[variables.t2m]
dtype = "float32"
units = "K"
between = [100, 400]

[guards]
newest = "complete"
freshness = "3d"
duplicates = "replace"

[[derive]]
output = "series"
variables = ["t2m"]
chunks = {{ init_time = 10 }}
{more}
"""


def values_of(day: int, lead: int, member: int, version: int) -> NDArray[np.float32]:
    """Return the truth: every version of a file has other values."""
    made = np.random.default_rng([day, lead, member, version]).normal(280, 5, SHAPE)
    return made.astype("f4")


def save(
    path: Path, day: int, lead: int, member: int, version: int = 0, *, units: str = "K"
) -> None:
    """Write one piece of a forecast, and let it appear at once."""
    hidden = path.with_suffix(".part")
    with h5py.File(hidden, "w") as file:
        axes = {"init_time": [day], "lead_time": [lead], "member": [member],
                "y": range(SHAPE[0]), "x": range(SHAPE[1])}  # fmt: skip
        for name, values in axes.items():
            file[name] = np.array(values, "f8")
            file[name].make_scale(name)
        file["init_time"].attrs["units"] = "days since 2026-01-01"
        file["lead_time"].attrs["units"] = "hours"
        data = values_of(day, lead, member, version)[None, None, None]
        field = file.create_dataset("t2m", data=data, chunks=data.shape)
        field.attrs["units"] = units
        for axis, name in enumerate(axes):
            field.dims[axis].attach_scale(file[name])
    hidden.rename(path)


class Centre:
    """Files of a forecast by day, and the truth of what has arrived."""

    def __init__(self, folder: Path, seed: int = 7) -> None:
        folder.mkdir()
        self.folder = folder
        self.random = random.Random(seed)
        self.versions: dict[tuple[int, int, int], int] = {}
        self.waiting: dict[int, list[tuple[int, int, int]]] = {}
        self.broken: set[tuple[int, int, int]] = set()

    def path(self, piece: tuple[int, int, int]) -> Path:
        """Return the path of a piece."""
        day, lead, member = piece
        return self.folder / f"{START + timedelta(days=day):%Y%m%d}_{lead}_{member}.h5"

    def send(self, day: int) -> None:
        """Let the files of a day arrive: some late, broken, twice, or corrected ones again."""
        for piece in sorted(self.broken):
            save(self.path(piece), *piece, self.versions[piece])
        self.broken = set()
        recent = sorted(each for each in self.versions if each[0] >= day - 3)
        if recent:
            twice, again = self.random.choice(recent), self.random.choice(recent)
            shutil.copy(
                self.path(twice), self.path(twice).with_name(f"{self.path(twice).stem}b.h5")
            )
            self.versions[again] += 1
            save(self.path(again), *again, self.versions[again])
        pieces = [(day, lead, member) for lead in LEADS for member in MEMBERS]
        for piece in [*pieces, *self.waiting.pop(day, [])]:
            if piece[0] == day and self.random.random() < 0.15:
                later = day + self.random.randint(1, 2)
                self.waiting.setdefault(later, []).append(piece)
                continue
            self.versions[piece] = 0
            save(self.path(piece), *piece)
            if self.random.random() < 0.06:
                self.path(piece).write_bytes(self.path(piece).read_bytes()[:2000])
                self.broken.add(piece)

    def find_complete(self) -> Iterator[int]:
        """Yield the days of which every piece is there and whole."""
        for day in sorted({each[0] for each in self.versions}):
            pieces = [(day, lead, member) for lead in LEADS for member in MEMBERS]
            if all(each in self.versions and each not in self.broken for each in pieces):
                yield day


def find_wrong(
    dataset: Any, versions: dict[tuple[int, int, int], int]
) -> list[tuple[int, int, int]]:
    """Return the pieces whose values are not the truth."""
    found = dataset["t2m"]
    wrong = []
    for (day, lead, member), version in versions.items():
        at = {
            "init_time": np.datetime64(f"{START + timedelta(days=day):%Y-%m-%d}"),
            "member": member,
        }
        values = found.sel(at).isel(lead_time=LEADS.index(lead)).values
        if not np.array_equal(values, values_of(day, lead, member, version)):
            wrong.append((day, lead, member))
    return wrong
