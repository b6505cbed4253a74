"""Xarray backend for repositories: `xarray.open_dataset(url, engine="frazil")`.

Xarray loads this module whenever it guesses an engine, also in programs that never open a
repository. So it loads only the URL module of Frazil until it opens something.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import xarray
from xarray.backends import BackendEntrypoint, ZarrBackendEntrypoint
from xarray.backends.common import datatree_from_dict_with_io_cleanup

import frazil
from frazil.errors import InvalidInputError
from frazil.urls import Ref, make_ref, parse_location

if TYPE_CHECKING:
    from zarr.abc.store import Store

_DECODING = (
    "mask_and_scale",
    "decode_times",
    "concat_characters",
    "decode_coords",
    "drop_variables",
    "use_cftime",
    "decode_timedelta",
)
_VERSION = ("branch", "tag", "snapshot", "snapshot_id", "as_of")
_ZARR = ZarrBackendEntrypoint()
_OPENING = ("storage_options", "config", "authorize")


class FrazilBackendEntrypoint(BackendEntrypoint):
    """Xarray backend that opens a version of a repository, by URL, path, Repository, Session or store.

    In addition to Xarray's arguments it accepts `group`; one of `branch`, `tag` and `snapshot` (or
    `snapshot_id`), with `as_of` for a branch; `authorize`, for virtual chunks, as in `open_session`;
    and, for URLs and paths, `storage_options` (arguments of `s3_storage` and so on) and `config`.
    """

    description = "Open Icechunk repositories with Frazil"
    supports_groups = True
    open_dataset_parameters = ("filename_or_obj", *_DECODING, "group", *_VERSION, *_OPENING)

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return True for `icechunk` URLs and for objects of Frazil."""
        if isinstance(filename_or_obj, str):
            return filename_or_obj.startswith(("icechunk://", "icechunk+"))
        return _is_ours(filename_or_obj)

    def open_dataset(self, filename_or_obj: Any, **options: Any) -> xarray.Dataset:
        """Open one group as a dataset."""
        store: Any = _open_store(filename_or_obj, options)
        dataset = _ZARR.open_dataset(store, consolidated=False, zarr_format=3, **options)
        return _name_version(dataset, store.session.snapshot_id)

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xarray.DataTree:
        """Open a group and all groups below it as a tree."""
        groups = self.open_groups_as_dict(filename_or_obj, **options)
        return datatree_from_dict_with_io_cleanup(groups)

    def open_groups_as_dict(
        self, filename_or_obj: Any, **options: Any
    ) -> dict[str, xarray.Dataset]:
        """Open a group and all groups below it, by path."""
        store: Any = _open_store(filename_or_obj, options)
        groups = _ZARR.open_groups_as_dict(store, consolidated=False, zarr_format=3, **options)
        version = store.session.snapshot_id
        return {path: _name_version(dataset, version) for path, dataset in groups.items()}


class VersionedVariable(xarray.Variable):
    """Variable whose Dask arrays are named after the version they read.

    Xarray names them after the opened object. But the same URL or repository may be another version
    later, and of two Dask arrays with the same name in a computation only one is computed.
    """

    __slots__ = ("version",)

    version: str

    def _replace(self, *args: Any, **kwargs: Any) -> Self:
        replaced = super()._replace(*args, **kwargs)
        replaced.version = self.version
        return replaced

    def chunk(self, *args: Any, **options: Any) -> Self:
        """Return the variable as a Dask array."""
        given = dict(options.get("from_array_kwargs") or {})
        if given.get("name"):
            given["name"] = f"{given['name']}-{self.version}"
        return super().chunk(*args, **{**options, "from_array_kwargs": given})


def _name_version(dataset: xarray.Dataset, version: str) -> xarray.Dataset:
    variables = {name: _versioned(each, version) for name, each in dataset.variables.items()}
    return dataset._replace(variables=variables)


def _versioned(variable: xarray.Variable, version: str) -> xarray.Variable:
    # Index variables are in memory already.
    if type(variable) is not xarray.Variable:
        return variable
    versioned = VersionedVariable(
        variable.dims, variable._data, variable._attrs, variable._encoding, fastpath=True
    )
    versioned.version = version
    return versioned


def _is_ours(object: object) -> bool:
    # Check the module name first: accessing the classes would load Zarr.
    if not type(object).__module__.startswith("frazil."):
        return False
    return isinstance(object, frazil.Repository | frazil.Session | frazil.IcechunkStore)


def _open_store(object: Any, options: dict[str, Any]) -> "Store":
    """Return the store to read from, and remove the options that Zarr's backend does not accept."""
    ref = _take_ref(options)
    opening = {name: options.pop(name) for name in _OPENING if options.get(name) is not None}
    if isinstance(object, frazil.Repository) and "authorize" in opening:
        object = object.authorize(opening.pop("authorize"))
    if _is_ours(object):
        return _store_of(object, ref, opening)
    url = parse_location(object)
    if ref is not None and url.ref is not None:
        raise InvalidInputError(
            f"{url} names a version, and so do the arguments: name it in one of them"
        )
    return frazil.open_session(replace(url, ref=ref or url.ref), **opening).store


def _take_ref(options: dict[str, Any]) -> Ref | None:
    branch, tag, snapshot, snapshot_id, as_of = (options.pop(name, None) for name in _VERSION)
    if snapshot is not None and snapshot_id is not None:
        raise InvalidInputError("snapshot and snapshot_id have the same meaning: give one")
    return make_ref(branch=branch, tag=tag, snapshot=snapshot or snapshot_id, as_of=as_of)


def _store_of(object: Any, ref: Ref | None, opening: Mapping[str, Any]) -> "Store":
    if opening:
        raise InvalidInputError(
            f"{min(opening)} is for URLs and paths: leave it out for what is open already"
        )
    if isinstance(object, frazil.Repository):
        # Imported here because it loads Zarr.
        from frazil.repository.locate import read_version  # noqa: PLC0415

        return read_version(object, ref).store
    if ref is not None:
        raise InvalidInputError(
            "a session reads one version: give the repository to choose another"
        )
    store: Store = object.store if isinstance(object, frazil.Session) else object
    return store
