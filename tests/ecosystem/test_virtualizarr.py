"""VirtualiZarr writes into our sessions and reads them.

It asks for the official class by name. In processes of their own, because what answers that stays.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil

# A virtual dataset of one file of plain bytes, as a parser would give it.
MAKE_A_VIRTUAL_DATASET = """
import sys
from pathlib import Path
import numpy as np
import xarray as xr
import zarr
from virtualizarr.manifests import ChunkManifest, ManifestArray
from virtualizarr.manifests.utils import create_v3_array_metadata
import virtualizarr

folder = Path(sys.argv[1])
url = f"file://{folder}/source"
manifest = ChunkManifest(
    {f"{i}.0": {"path": url, "offset": 32 * i, "length": 32} for i in range(3)}
)
metadata = create_v3_array_metadata(
    shape=(6, 2), chunk_shape=(2, 2), data_type=np.dtype("i8"),
    codecs=[{"name": "bytes", "configuration": {"endian": "little"}}], fill_value=0,
)
array = ManifestArray(metadata=metadata, chunkmanifest=manifest)
virtual = xr.Dataset({"plane": xr.Variable(("time", "place"), array)}, attrs={"title": "virtual"})
"""

WRITE = """
import frazil

repository = frazil.open_repository(folder / "repository")
session = repository.writable_session("main")
virtual.vz.to_icechunk(session.store)
session.commit("virtual")
session = repository.writable_session("main")
virtual.vz.to_icechunk(session.store, append_dim="time")
session.commit("twice")
"""

STAND_IN = "import frazil; frazil.install_as_icechunk()"
REGISTER = "import frazil, icechunk; icechunk.IcechunkStore.register(frazil.IcechunkStore)"

PARSE = """
import frazil
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr.parsers import IcechunkParser

registry = ObjectStoreRegistry({"file://": LocalStore()})
session = frazil.open_session(folder / "repository")
prefix = f"file://{folder}/repository/chunks"
store = IcechunkParser().parse_session(session, registry, native_chunks_prefix=prefix)
found = xr.open_zarr(store, consolidated=False, zarr_format=3, chunks=None).load()
print(found.plane.values.ravel().tolist() == [*range(12), *range(12)], found.own.values.sum())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A source file, and a repository that may refer to it."""
    (tmp_path / "source").write_bytes(np.arange(12, dtype="<i8").tobytes())
    config = frazil.RepositoryConfig.default()
    prefix = f"file://{tmp_path}/"
    store = frazil.local_filesystem_store(str(tmp_path))
    config.set_virtual_chunk_container(frazil.VirtualChunkContainer(prefix, store))
    frazil.Repository.create(frazil.storage_from_url(tmp_path / "repository"), config)
    return tmp_path


def run(folder: Path, *parts: str) -> str:
    code = "\n".join(parts)
    child = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True
    )
    assert child.returncode == 0, child.stderr
    return child.stdout.strip()


def read(folder: Path) -> frazil.Session:
    access = {f"file://{folder}/": frazil.credentials.LocalFileSystemAccess}
    return frazil.open_session(folder / "repository", None, access)


@pytest.mark.parametrize("way", [STAND_IN, REGISTER])
def test_virtual_references_are_written_and_appended(folder: Path, way: str) -> None:
    if way == REGISTER:
        pytest.importorskip("icechunk", reason="the official library needs Python 3.12")

    run(folder, way, MAKE_A_VIRTUAL_DATASET, WRITE)

    session = read(folder)
    found = zarr.open_array(session.store, path="plane")
    assert np.asarray(found[...]).ravel().tolist() == [*range(12), *range(12)]
    assert len(session.all_virtual_chunk_locations()) == 6


def test_a_session_is_parsed_with_its_virtual_native_and_inline_chunks(folder: Path) -> None:
    run(folder, STAND_IN, MAKE_A_VIRTUAL_DATASET, WRITE)
    session = frazil.open_repository(folder / "repository").writable_session("main")
    own = zarr.create_array(
        session.store, name="own", shape=(2000,), chunks=(1990,), dtype="i8", dimension_names=["x"]
    )
    own[:] = 1
    session.commit("chunks of our own")

    assert run(folder, STAND_IN, MAKE_A_VIRTUAL_DATASET, PARSE) == "True 2000"


def test_without_either_the_official_class_is_asked_for(folder: Path) -> None:
    attempt = """
try:
    virtual.vz.to_icechunk(frazil.open_repository(folder / "repository").writable_session("main").store)
except (TypeError, ImportError) as error:
    print("refused")
"""

    assert run(folder, "import frazil", MAKE_A_VIRTUAL_DATASET, attempt) == "refused"
