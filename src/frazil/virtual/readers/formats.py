"""Which formats there are, how they are recognised, and whose parser reads each.

A file is recognised by its first bytes; only where those tell nothing, by the ending of its name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from frazil.errors import InvalidInputError

HEAD_BYTES = 4096
"""How much of a file is looked at."""
FAR_HEAD_BYTES = 128 << 10
"""How much is read for it where the next bytes would cost another request."""
# HDF5 lets a block of the user's own stand before the file, at the end of which it begins.
_HDF5_STARTS = (0, 512, 1024, 2048)


def _starts_with(*magic: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magic)


def _is_hdf5(head: bytes) -> bool:
    return any(head[at : at + 8] == b"\x89HDF\r\n\x1a\n" for at in _HDF5_STARTS)


def _is_kerchunk(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and any(
        word in head for word in (b'"refs"', b'.zgroup"', b'.zarray"', b'.zattrs"')
    )


def _is_dmrpp(head: bytes) -> bool:
    return head.lstrip().startswith(b"<") and b"dmrpp" in head


def _never(head: bytes) -> bool:  # noqa: ARG001 (a folder has no first bytes)
    return False


@dataclass(frozen=True, slots=True)
class Format:
    """A format of source files."""

    name: str
    parser: str
    """Module and class of the parser, with a colon between them."""
    endings: tuple[str, ...]
    recognises: Callable[[bytes], bool]
    """Whether the first bytes of a file are of this format."""
    install: str
    """What to install where the parser can't be imported."""

    @property
    def is_folder(self) -> bool:
        """Whether a source is a folder of files."""
        return self.recognises is _never


_PARSERS = "virtualizarr.parsers:"
HDF5 = Format(
    "hdf5", _PARSERS + "HDFParser", (".nc", ".nc4", ".h5", ".hdf5", ".he5"), _is_hdf5,
    "frazil[virtual]",
)  # fmt: skip
ZARR = Format("zarr", _PARSERS + "ZarrParser", (".zarr",), _never, "frazil[virtual]")
KERCHUNK_PARQUET = Format(
    "kerchunk-parquet", _PARSERS + "KerchunkParquetParser", (".parq", ".parquet"), _never,
    "frazil[virtual] kerchunk fastparquet",
)  # fmt: skip
FORMATS = (
    HDF5,
    Format(
        "netcdf3", _PARSERS + "NetCDF3Parser", (".cdf", ".nc3"),
        _starts_with(b"CDF\x01", b"CDF\x02", b"CDF\x05"), "frazil[virtual]",
    ),
    Format("fits", _PARSERS + "FITSParser", (".fits", ".fit", ".fts"),
           _starts_with(b"SIMPLE  ="), "frazil[virtual] astropy"),
    Format("grib", "gribberish.virtualizarr:GribberishParser", (".grib", ".grib2", ".grb", ".grb2"),
           _starts_with(b"GRIB"), "gribberish"),
    Format("tiff", "virtual_tiff:VirtualTIFF", (".tif", ".tiff"),
           _starts_with(b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), "virtual-tiff"),
    Format("zarr-zip", _PARSERS + "ZippedZarrParser", (".zarr.zip",),
           _starts_with(b"PK\x03\x04"), "frazil[virtual]"),
    Format("kerchunk-json", _PARSERS + "KerchunkJSONParser", (".json",),
           _is_kerchunk, "frazil[virtual]"),
    Format("dmrpp", _PARSERS + "DMRPPParser", (".dmrpp",), _is_dmrpp, "frazil[virtual]"),
    ZARR,
    KERCHUNK_PARQUET,
)  # fmt: skip


def get_format(name: str) -> Format:
    """The format of a name; raises InvalidInputError, which lists those there are."""
    for each in FORMATS:
        if each.name == name:
            return each
    raise InvalidInputError(f"{name!r} is no format of sources; known are {_names()}")


def recognise_file(location: str, head: bytes) -> Format:
    """The format of a file; raises InvalidInputError for one that is none of those known."""
    for each in FORMATS:
        if each.recognises(head):
            return each
    return _recognise_ending(location, f"it starts with {head[:8]!r}")


def recognise_folder(location: str, metadata: Mapping[str, Any] | None) -> Format:
    """The format of a folder, by the `.zmetadata` in it if there is one.

    References of kerchunk in Parquet keep how many of them are in a file there.
    """
    if metadata is not None and "record_size" in metadata:
        return KERCHUNK_PARQUET
    if metadata is not None:
        return ZARR
    return _recognise_ending(location, "it is a folder without metadata of Zarr")


def _recognise_ending(location: str, found: str) -> Format:
    path = location.rstrip("/").lower()
    for each in FORMATS:
        if path.endswith(each.endings):
            return each
    raise InvalidInputError(
        f"{location} is of no known format: {found}, and its ending tells nothing; "
        f"known are {_names()}, one of which can be named with format="
    )


def _names() -> str:
    return ", ".join(f"{each.name} ({' '.join(each.endings)})" for each in FORMATS)
