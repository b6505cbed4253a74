"""A repository on a disk with weather in it, of two versions."""

from dataclasses import dataclass

import numpy as np
import pytest
import xarray as xr

import frazil
from frazil import Repository, RepositoryConfig
from frazil.xarray import to_icechunk

CHUNKS = (5, 6, 9)
SHAPE = (20, 12, 18)


@dataclass(frozen=True)
class Weather:
    """Where it is, what is in it, and its versions."""

    path: str
    repo: Repository
    dataset: xr.Dataset
    first: str
    second: str


def make_weather() -> xr.Dataset:
    """Temperatures, some missing; rain as scaled integers; heights without a time."""
    generator = np.random.default_rng(7)
    t = generator.normal(280, 9, SHAPE)
    t[generator.random(SHAPE) < 0.1] = np.nan
    days = np.datetime64("2020-01-01", "ns") + np.arange(SHAPE[0]) * np.timedelta64(1, "D")
    return xr.Dataset(
        {
            "t": (("time", "lat", "lon"), t),
            "rain": (("time", "lat", "lon"), generator.integers(0, 50, SHAPE) / 10),
            "height": (("lat", "lon"), generator.integers(0, 4000, SHAPE[1:]).astype("i4")),
        },
        {
            "time": days,
            "lat": np.linspace(-55, 55, SHAPE[1]),
            "lon": np.arange(SHAPE[2]) * 20.0,
            "land": ("lat", [f"zone {n // 3}" for n in range(SHAPE[1])]),
        },
    )


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Weather:
    """The second version is a degree warmer."""
    path = str(tmp_path_factory.mktemp("weather") / "repo")
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = Repository.create(frazil.local_filesystem_storage(path), config)
    repo.save_config()
    dataset = make_weather()
    packed = {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -1, "chunks": CHUNKS}
    encoding = {"t": {"chunks": CHUNKS}, "rain": packed, "height": {"chunks": CHUNKS[1:]}}
    versions = []
    for each in (dataset, dataset.assign(t=dataset.t + 1)):
        session = repo.writable_session("main")
        to_icechunk(each, session, mode="w", encoding=encoding)
        versions.append(session.commit("weather"))
        repo.create_tag(f"v{len(versions)}", versions[-1])
    return Weather(path, repo, dataset.assign(t=dataset.t + 1), *versions)
