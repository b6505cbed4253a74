"""Filters of HDF5 as codecs of Zarr."""

from typing import Any

from h5py import h5z

from frazil.virtual.readers.hdf5.refusals import RefusedError

Filter = tuple[int, tuple[int, ...], bytes]
"""Its number, its parameters, and what it calls itself."""

# Numbers that the HDF Group has given to filters of others.
_BLOSC, _ZSTD = 32001, 32015
_BLOSC_NAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_NAMES = {h5z.FILTER_LZF: "lzf", h5z.FILTER_SZIP: "szip", h5z.FILTER_SCALEOFFSET: "scale-offset"}


def filters_of(properties: Any) -> tuple[Filter, ...]:
    """The filters of a dataset, in the order of encoding."""
    found = (properties.get_filter(each) for each in range(properties.get_nfilters()))
    return tuple((code, values, name) for code, _, values, name in found)


def to_codecs(filters: tuple[Filter, ...]) -> list[dict[str, Any]]:
    """The codecs that undo filters; raises RefusedError for one that Zarr has no codec for."""
    return [_to_codec(code, values, name) for code, values, name in filters]


def _to_codec(code: int, values: tuple[int, ...], name: bytes) -> dict[str, Any]:
    if code == h5z.FILTER_DEFLATE:
        return _codec("zlib", level=values[0])
    if code == h5z.FILTER_SHUFFLE:
        return _codec("shuffle", elementsize=values[0])
    if code == h5z.FILTER_FLETCHER32:
        return _codec("fletcher32")
    if code == _ZSTD:
        return _codec("zstd", level=values[0] if values else 0, checksum=False)
    if code == _BLOSC and len(values) >= 7 and values[6] < len(_BLOSC_NAMES):
        blocksize, clevel, shuffle, compressor = values[-4:]
        return _codec(
            "blosc",
            cname=_BLOSC_NAMES[compressor],
            clevel=clevel,
            shuffle=shuffle,
            blocksize=blocksize,
        )
    known = _NAMES.get(code) or name.decode(errors="replace") or "without a name"
    raise RefusedError(f"it has the filter {code} of HDF5 ({known}), which Zarr has no codec for")


def _codec(name: str, **configuration: object) -> dict[str, Any]:
    return {"name": f"numcodecs.{name}", "configuration": configuration}
