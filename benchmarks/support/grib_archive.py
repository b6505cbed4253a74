"""A synthetic archive of ensemble forecasts in GRIB: init × lead × variable × level × member.

Each file is one lead time of one forecast, with the `.idx` of NOAA beside it. The messages of the first
member and the last message are real; the others are holes of a sparse file, which an ingest by index
does not read. All messages of a file are distinct references.
"""

import struct
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import eccodes
import numpy as np
from numpy.typing import NDArray

VARIABLES = {
    "TMP": "t", "UGRD": "u", "VGRD": "v", "SPFH": "q", "HGT": "gh",
    "RH": "r", "VVEL": "w", "ABSV": "absv", "RELV": "vo", "CLWMR": "clwc",
}  # fmt: skip
LEVELS = (1000, 925, 850, 700, 600, 500, 400, 300, 200, 100)
MEMBERS = 50
LEADS = 100
FIELDS = len(VARIABLES) * len(LEVELS)
MESSAGES = FIELDS * MEMBERS
"""References of a file, unless it has fewer members."""
BEGIN = datetime(2020, 1, 1)


@dataclass(frozen=True)
class Place:
    """Forecast and lead time of a file."""

    number: int

    @property
    def init(self) -> int:
        """Index of the forecast."""
        return self.number // LEADS

    @property
    def lead(self) -> int:
        """Lead time in hours, which is also its index."""
        return self.number % LEADS

    @property
    def time(self) -> datetime:
        """Reference time."""
        return BEGIN + timedelta(hours=6 * self.init)

    @property
    def name(self) -> str:
        """Path in the archive."""
        return f"{self.time:%Y%m}/{self.time:%Y%m%d%H}-{self.lead:03}.grib2"

    def value(self, field: int) -> float:
        """First value of a field of the first member, exact in 32 bits."""
        return 200 + self.number / 128 + field / 4096 / 16


class Archive:
    """Writes files from one template, in which times and values are replaced."""

    def __init__(self, folder: Path, members: int = MEMBERS) -> None:
        self.folder, self.members = folder, members
        messages = [make_message(short, level) for short in VARIABLES.values() for level in LEVELS]
        (self.size,) = {len(each) for each in messages}
        self._fields = np.frombuffer(b"".join(messages), np.uint8).reshape(FIELDS, self.size)
        self._places = find_sections(messages[0])
        names = [(name, level) for name in VARIABLES for level in LEVELS]
        self._index = "".join(
            f"{row + 1}:{row * self.size}:d=@D:{name}:{level} mb:@S:ENS=+{member + 1}\n"
            for row, (member, (name, level)) in enumerate(
                (member, each) for member in range(members) for each in names
            )
        )

    def write(self, number: int) -> None:
        """Write a file and its index."""
        place = Place(number)
        fields = self._fields.copy()
        moment = place.time
        stamp = struct.pack(">HBBBBB", moment.year, moment.month, moment.day, moment.hour, 0, 0)
        self._patch(fields, self._places[1] + 12, stamp)
        self._patch(fields, self._places[4] + 18, struct.pack(">I", place.lead))
        values = np.array([place.value(each) for each in range(FIELDS)], ">f4")
        start = self._places[5] + 11
        fields[:, start : start + 4] = values.view(np.uint8).reshape(FIELDS, 4)
        last = fields[-1].copy()
        last[self._places[4] + 35] = self.members
        path = self.folder / place.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(fields.tobytes())
            file.seek((FIELDS * self.members - 1) * self.size)
            file.write(last.tobytes())
        step = f"{place.lead} hour fcst" if place.lead else "anl"
        text = self._index.replace("@D", f"{moment:%Y%m%d%H}").replace("@S", step)
        Path(f"{path}.idx").write_text(text)

    def _patch(self, fields: NDArray[np.uint8], start: int, data: bytes) -> None:
        fields[:, start : start + len(data)] = np.frombuffer(data, np.uint8)


def make_message(short_name: str, level: int) -> bytes:
    """Return a message of two by two points of the first member."""
    handle = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib2")
    keys = {
        "Ni": 2, "Nj": 2, "iDirectionIncrementInDegrees": 1, "jDirectionIncrementInDegrees": 1,
        "latitudeOfFirstGridPointInDegrees": 1, "longitudeOfFirstGridPointInDegrees": 0,
        "latitudeOfLastGridPointInDegrees": 0, "longitudeOfLastGridPointInDegrees": 1,
        "productDefinitionTemplateNumber": 1, "numberOfForecastsInEnsemble": MEMBERS,
        "perturbationNumber": 1, "typeOfEnsembleForecast": 3, "indicatorOfUnitOfTimeRange": 1,
        "forecastTime": 0, "shortName": short_name, "level": level,
    }  # fmt: skip
    try:
        for key, value in keys.items():
            eccodes.codes_set(handle, key, value)
        eccodes.codes_set_values(handle, 256.0 + np.arange(4))
        return bytes(eccodes.codes_get_message(handle))
    finally:
        eccodes.codes_release(handle)


def find_sections(message: bytes) -> dict[int, int]:
    """Return where the sections of a message begin, by their numbers."""
    place, found = 16, {}
    while message[place : place + 4] != b"7777":
        found[message[place + 4]] = place
        place += int.from_bytes(message[place : place + 4], "big")
    return found


def write_archive(folder: str, count: int, members: int = MEMBERS) -> list[str]:
    """Write the files that are not there yet; return the paths of so many."""
    archive = Archive(Path(folder), members)
    paths = [f"{folder}/{Place(number).name}" for number in range(count)]
    for number, path in enumerate(paths):
        if not Path(f"{path}.idx").exists():
            archive.write(number)
    return paths
