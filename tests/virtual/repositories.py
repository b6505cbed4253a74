"""Repositories that may refer to the files of a folder, and what comes back from them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import xarray as xr

import frazil
from frazil import virtual
from frazil.credentials import Credentials
from frazil.virtual import Plan, Source


def make_repository(folder: Path) -> frazil.Repository:
    """A new repository in memory that may read the files below a folder."""
    prefix = folder.absolute().as_uri() + "/"
    config = frazil.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store("/"))
    )
    return frazil.Repository.create(
        frazil.in_memory_storage(),
        config=config,
        authorize_virtual_chunk_access={prefix: Credentials.LocalFileSystemAccess()},
    )


def commit(plan: Plan, sources: Iterable[Source], folder: Path) -> frazil.Repository:
    """A repository with what a plan makes of sources, committed."""
    repository = make_repository(folder)
    session = repository.writable_session("main")
    virtual.write(plan, session.store, sources)
    session.commit("sources")
    return repository


def read(repository: frazil.Repository, group: str | None = None) -> xr.Dataset:
    """The dataset at the tip of a repository, in memory."""
    store = repository.readonly_session("main").store
    dataset: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False)
    return dataset.load()


def read_virtually(path: Path, **options: object) -> xr.Dataset:
    """A file, opened as a source, committed to a repository and read from there."""
    source = virtual.open(path, **options)  # type: ignore[arg-type]
    return read(commit(virtual.combine([source]), [source], path.parent))


def read_combined(paths: Sequence[Path], dims: Sequence[str] | str) -> xr.Dataset:
    """Several files, combined into a repository and read from there."""
    sources = [virtual.open(path) for path in paths]
    return read(commit(virtual.combine(sources, dims), sources, paths[0].parent))
